// A batch in the form that is written: bytes for each table, and what its messages are.

import type { Range } from '../../transformers/record-batch.ts'
import type { CountedMessages } from '../counts.ts'
import type { Rejection } from '../sink.ts'
import type { Replay } from './replays.ts'

/**
 * The rows of one table, with the places where each message's rows begin: a message is stored or refused as a whole. A message's
 * rows are all in one table, since its documents share the last part of its subtopic.
 */
export interface EncodedTable {
  readonly format: string
  /** The channels whose messages are in it, for a table that may have to be made. */
  readonly channels: ReadonlySet<string>
  readonly rows: number
  /** A whole COPY file. */
  readonly bytes: Uint8Array
  /** By unit, a message with rows here: its index in the message columns, its first row, and where that begins in `bytes`. */
  readonly unitMessage: readonly number[]
  readonly unitRow: readonly number[]
  readonly unitByte: readonly number[]
  /** By row, the record's ordinal in its message. */
  readonly recordIndex: readonly number[]
}

/** What `write` needs of a batch, without its strings; and what it has learnt about it, for when it is written again. */
export interface EncodedBatch {
  readonly messages: CountedMessages
  readonly ranges: readonly Range[]
  readonly tables: readonly EncodedTable[]
  /** Undefined in the ordinary flow. */
  readonly replays: readonly Replay[] | undefined
  /** Messages that the store can never take, by their index: found here, or by an attempt to write. */
  readonly rejected: Map<number, Rejection>
  /** Those of them whose dead letters are durable. */
  readonly acknowledged: Set<number>
}
