// A batch in the form that is written: requests of rows that lie in one partition, and what its messages are.

import type { Range } from '../../transformers/record-batch.ts'
import type { CountedMessages } from '../counts.ts'
import type { Rejection } from '../sink.ts'
import type { NotedDay } from './days.ts'

/** A row to insert, in the shape that the driver's batches take. */
export interface EncodedRow {
  readonly query: string
  /** By column; those that make the primary key stand first. */
  readonly params: unknown[]
  /** Its message's index in the message columns. */
  readonly message: number
  /** The record's ordinal in its message. */
  readonly record: number
}

/** Rows of one partition that are sent together: one, or so many that a batch of them costs a node less than each alone. */
export type EncodedRequest = readonly EncodedRow[]

export interface EncodedTable {
  readonly format: string
  /** The channels whose messages are in it, for a table that may have to be made. */
  readonly channels: ReadonlySet<string>
  readonly requests: readonly EncodedRequest[]
}

/** What `write` needs of a batch; and what it has learnt about it, for when it is written again. */
export interface EncodedBatch {
  readonly messages: CountedMessages
  readonly ranges: readonly Range[]
  readonly tables: readonly EncodedTable[]
  /** All on which it has rows; `Days` knows which of them are to be written. */
  readonly days: readonly NotedDay[]
  /** By message that was replayed, the position that it had at first. Undefined in the ordinary flow. */
  readonly replays: ReadonlyMap<number, bigint> | undefined
  /** Messages that the store can never take, by their index: found here, or by an attempt to write. */
  readonly rejected: Map<number, Rejection>
  /** Those of them whose dead letters are durable. */
  readonly acknowledged: Set<number>
  /** Those of them that the server refused, whose other rows may be in the store still. */
  readonly unremoved: Set<number>
}
