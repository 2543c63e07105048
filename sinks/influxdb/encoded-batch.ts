// A batch in the form that is written: lines of text, and what its messages are.

import type { Original, Range } from '../../transformers/record-batch.ts'
import type { CountedMessages } from '../counts.ts'
import type { WantedFormat } from '../format-registry.ts'
import type { Rejection } from '../sink.ts'

/** A JSON format of the batch, and the messages that have it. */
export interface EncodedFormat extends WantedFormat {
  readonly messages: readonly number[]
}

/** Lines of line protocol, one for each row. The lines of a message lie together. */
export interface EncodedLines {
  readonly length: number
  readonly bytes: Uint8Array
  /** Where each line begins in `bytes`; one more entry than lines, which is the end. */
  readonly start: Uint32Array
  /** By line, its message. */
  readonly message: Uint32Array
  /** By line, the record's ordinal in its message. */
  readonly record: Uint32Array
  /** By line, microseconds since 1970. */
  readonly timeUs: Float64Array
}

/** What `write` needs of a batch, without its columns; and what it has learnt about it, for when it is written again. */
export interface EncodedBatch {
  readonly messages: CountedMessages
  readonly ranges: readonly Range[]
  readonly lines: EncodedLines
  readonly formats: readonly EncodedFormat[]
  /** By message, where those that were replayed lay at first. Undefined in the ordinary flow. */
  readonly originals: ReadonlyMap<number, Original> | undefined
  /** Messages that the store can never take, by their index: found here, or by an attempt to write. */
  readonly rejected: Map<number, Rejection>
  /** Those of them whose dead letters are durable. */
  readonly acknowledged: Set<number>
  /** Those of them of which rows may be in the store, of this attempt or of another process that read the message before. */
  readonly partly: Set<number>
  /** Those of them of which rows may have been deleted, until it is known whether a replay has stored them meanwhile. */
  readonly removed: Set<number>
  /** Lines that the store would refuse now, and has from before: they are not sent. */
  readonly stored: Set<number>
  /** Lines of points that were deleted and are to be written again: of other messages, which may be of other batches. */
  readonly owed: Set<string>
}

/** Where a message lay at first. */
export function placeOf({ messages, originals }: EncodedBatch, logNumber: number, message: number): Original {
  return originals?.get(message) ?? { log: logNumber, partition: messages.partition[message]!, offset: messages.offset[message]! }
}
