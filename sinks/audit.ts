// The contract of an audit: lists what a store holds, to be compared with the log.

import type { Erasure } from './erasure.ts'
import type { RegisteredLog } from './logs.ts'

/** A log as the store knows it, with the rows of one writer. */
export interface AuditedLog extends RegisteredLog {
  /** By partition; empty for a store that keeps no positions. */
  readonly partitions: ReadonlyMap<number, AuditedPartition>
}

/** A partition's next offset, and the counts that the store itself keeps of its messages (see `MessageCounts`). */
export interface AuditedPartition {
  readonly nextOffset: number
  readonly received: number
  readonly stored: number
  readonly empty: number
  readonly filtered: number
  readonly skipped: number
  readonly duplicate: number
  readonly deadLettered: number
  readonly lost: number
  /** Offsets below it are in no count: their rows were copied. Absent if all are. */
  readonly copiedBelow?: number
}

/** A message that the store has rows of. */
export interface AuditedMessage {
  readonly offset: number
  /** All rows that have its position, without hidden ones. */
  readonly rows: number
  /** Rows that no reader shows, since the store lacks what they refer to; absent if there are none. Not known where contents were asked for. */
  readonly hidden?: number
  /** How many of these duplicate another row: the same position and index. */
  readonly doubled: number
  /** It was dead-lettered, and stored by a replay. */
  readonly replayed: boolean
  /** The sum of the digests of its rows (`contents.ts`), if contents were asked for. */
  readonly digest?: number
}

/** A range of offsets in a partition: `[from, to)`. */
export interface AuditedRange {
  readonly partition: number
  readonly from: number
  readonly to: number
}

export interface MessagesOptions {
  /** The ranges that the caller will ask for next, in this order: a store that has to scan all rows may count these in the same scan. */
  readonly after?: readonly AuditedRange[]
  /** Reads all columns of the rows, for their digests. */
  readonly contents?: boolean
}

/** Packed positions, both included. */
export interface PositionRange {
  readonly first: bigint
  readonly last: bigint
}

/**
 * @param position packed
 * @param text returns the text of the row, as in `contents.ts`: to be called at once, and only if contents were asked for
 */
export type OnRow = (position: bigint, index: number, text: () => string) => void

/** What is known about a message, so that the store can find its rows without reading all that it has. */
export interface Whereabouts {
  readonly channel: string
  /** `messages` for SenML. */
  readonly format: string
  /** The earliest and the latest time of its rows, microseconds since 1970. */
  readonly earliestUs: number
  readonly latestUs: number
}

/**
 * An audit only reads, needs only read permission, and may run beside any number of writers. The store's folder opens it (`openAudit`); it needs no
 * closing: the caller closes the connection that it uses.
 *
 * Every method throws the errors of the store's driver.
 */
export interface StoreAudit {
  /** Every log that the store knows. Of those with the same name and writer, the one that is written from now comes first. */
  logs(): Promise<readonly AuditedLog[]>

  /** What was erased, in the order in which it began. */
  erasures(): Promise<readonly Erasure[]>

  /**
   * The messages of one partition with an offset in `[from, to)` that have rows, ordered by offset. Rows written after the call may or may not be
   * included. Uses bounded memory, here and in the store; may take as long as reading all rows.
   */
  messages(log: number, partition: number, from: number, to: number, options?: MessagesOptions): AsyncIterable<AuditedMessage>

  /**
   * Calls `each` for all rows that have a position in these ranges and that readers show, in any order. A store without an index by position also calls
   * it for others. May take as long as reading all rows.
   *
   * @param contents reads all columns of the rows
   */
  rows(ranges: readonly PositionRange[], contents: boolean, each: OnRow): Promise<void>

  /** The offsets in `[from, to)` of messages that were stored by a replay. */
  replayed(log: number, partition: number, from: number, to: number): Promise<ReadonlySet<number>>

  /** Whether there is any row of a log. May take as long as reading all rows. */
  hasRows(log: number): Promise<boolean>

  /** Counts the rows of one message. Quick, since `where` narrows the search. */
  rowsOf(log: number, partition: number, offset: number, where: Whereabouts): Promise<number>

  /** A statement for the store's own shell that shows the rows of one message; undefined if it does not fit on a line. Absent for a store without one. */
  statementOf?(log: number, partition: number, offset: number, where: Whereabouts): string | undefined
}
