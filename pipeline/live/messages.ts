// The contract of live messages: what a stream of one channel asks of the log. The only file of this folder that readers import.

import type { RecordBatch } from '../../transformers/record-batch.ts'

/** A place in a log: everything before it was given out. */
export interface Place {
  /** Which log, 16 hexadecimal digits: one that was made anew has others. */
  readonly log: string
  /** By partition, the offset of the next message. */
  readonly offsets: readonly number[]
  /** Of the next message of this partition so many rows were given out, counted in the order of its batch; 0 where it is not begun. */
  readonly partition: number
  readonly rows: number
}

/**
 * The place behind so many rows of a message.
 *
 * @param offsets by partition, the offset of the next message; in the message's own partition that of the message
 */
export function placeBehind(rows: number, { batch, partition, offset }: LiveMessage, log: string, offsets: readonly number[]): Place {
  if (rows < batch.rowCount) return { log, offsets, partition, rows }
  // Not inside it, so that nobody misses it when retention takes it.
  return { log, offsets: offsets.with(partition, offset + 1), partition, rows: 0 }
}

/** A decoded message: the rows of its batch, all of them records or all documents. All who follow its channel are given the same one, and it never changes. */
export interface LiveMessage {
  readonly batch: RecordBatch
  readonly partition: number
  readonly offset: number
}

export interface Follower {
  /**
   * Takes the rows `[first, end)` of a message, at once. Rows that are of no interest count as taken.
   *
   * @param offsets by partition, the offset of the next message; in the message's own partition that of the message. Of use until
   * the call returns
   * @returns the number of the first row that it did not take for want of room; `end` where it took all
   */
  take(message: LiveMessage, first: number, end: number, offsets: readonly number[]): number
  /** undefined while it has room; else resolves when it has some again, or was stopped. */
  room(): Promise<void> | undefined
  /** The log deleted messages that were not given out: what comes next lies behind them. */
  lost(): void
  /** Nothing more comes: the log cannot be followed. */
  end(): void
}

export interface Following {
  /** Of the log, as its places have it. */
  readonly log: string
  /** Messages behind the place that was asked for are no longer in the log, or it is another log. */
  readonly lost: boolean
  /** Begins to give out. Called once. */
  start(follower: Follower): void
  place(): Place
  /** Nothing is given out from here on. A second call does nothing. */
  stop(): void
}

/** The log cannot be followed now: the caller may try again. */
export class LiveUnavailableError extends Error {
  override readonly name = 'LiveUnavailableError'
}

/**
 * Messages as they are written to the log, decoded as the writers decode them. In each partition they come in the order of the log, and
 * none is left out or given twice while the log holds what lies behind the place. What cannot be decoded is passed over.
 */
export interface LiveMessages {
  /**
   * Follows a channel.
   *
   * @param after where to go on; undefined: with what is written from now on
   * @throws LiveUnavailableError
   */
  follow(channel: string, after: Place | undefined): Promise<Following>
}
