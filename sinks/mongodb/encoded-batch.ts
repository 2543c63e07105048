// A batch in the form that is written: the documents of each collection as bytes, and what its messages are.

import type { Original, Range } from '../../transformers/record-batch.ts'
import type { CountedMessages } from '../counts.ts'
import type { Rejection } from '../sink.ts'

/** The rows of one collection, in the order of the batch. */
export interface EncodedTable {
  readonly format: string
  /** The channels whose messages are in it, for a format that the store may not know. */
  readonly channels: ReadonlySet<string>
  /** The documents, one behind the other. */
  readonly bytes: Uint8Array
  /** By row, where its document begins, and one number more: where the last one ends. */
  readonly rowStart: readonly number[]
  /** By row, its message's index in the message columns. */
  readonly rowMessage: readonly number[]
}

/** What `write` needs of a batch, without its strings; and what it has learnt about it, for when it is written again. */
export interface EncodedBatch {
  readonly messages: CountedMessages
  readonly ranges: readonly Range[]
  readonly tables: readonly EncodedTable[]
  /** Where messages lay at first, by their index; undefined in the ordinary flow, where none was replayed. */
  readonly originals: ReadonlyMap<number, Original> | undefined
  /** Messages that the store can never take, by their index: found here, or by an attempt to write. */
  readonly rejected: Map<number, Rejection>
  /** Those of them whose dead letters are durable. */
  readonly acknowledged: Set<number>
  /** Those of them that the store may have rows of. */
  readonly leftovers: Set<number>
}
