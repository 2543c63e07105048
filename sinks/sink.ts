// The contract of a sink, which writes record batches to one store, each message once.

import { type LogPartition, logOf, partitionOf } from '../transformers/log-partition.ts'
import type { RecordBatch } from '../transformers/record-batch.ts'

/** The offset to resume at, by log and partition: everything below it is stored or dead-lettered. */
export type Positions = ReadonlyMap<LogPartition, number>

/** A message that the store can never store, named by its index in the batch's message columns. A message is always rejected as a whole. */
export interface Rejection {
  readonly message: number
  /** Stable, kebab-case: `store-refused`, `format-limit`. */
  readonly rule: string
  /** The ordinal of the refused record among the message's records as received, where it is known. */
  readonly record?: number
  /** What the store reported, or why the sink rejects it. */
  readonly reason: string
  readonly hint?: string
  /** The store may have other rows of the message, which it stored before it refused this one: only in stores without transactions. */
  readonly partial?: true
}

/** Resolves when the dead letters of these messages are durable. */
export type Reject = (rejections: readonly Rejection[]) => Promise<void>

/**
 * What became of the messages of a batch. The counts add up: received = stored + empty + filtered + duplicate + deadLettered. `skipped` counts, in
 * addition, the offsets of the range without a message (compaction gaps, transaction markers, messages deleted unread).
 */
export interface MessageCounts {
  received: number
  stored: number
  empty: number
  filtered: number
  skipped: number
  /** Received, but already stored or settled before. */
  duplicate: number
  deadLettered: number
  /** How many of the skipped offsets held a message that the log deleted before it was read. */
  lost: number
}

/**
 * What an error of `write` means for the pipeline:
 * - transient: the store is down or overloaded; the same write is retried until it succeeds
 * - systemic: retrying cannot help (credentials, a missing database, another schema); the writer stops with the error's message
 * - fenced: the store's offsets differ from this writer's; nothing was written, and the source must resume at `positions()`
 * - stale: what the sink has cached is no longer the store's; as fenced, but no sign of another writer
 */
export type ErrorClass = 'transient' | 'systemic' | 'fenced' | 'stale'

/**
 * A sink is opened by its folder's `openSink(options)` and used by one worker. `Encoded` is the sink's own form of a batch.
 *
 * The caller guarantees: batches come in the order of the log, their ranges contiguous in each partition; one `write` at a time; after a transient
 * error it writes the same encoded batch again, or drops it; no call after `close`. No text has a NUL or half a surrogate pair, a subtopic has at most
 * 2,048 bytes, and a payload 64 levels: `pipeline/writer/decode.ts` and the transformers refuse others, and sinks do not check again. The batch does not
 * change until the write of its encoded form has resolved; then the caller reuses it, and the sink must no longer read it.
 *
 * Opening a sink checks that the writer may write each log: no other writer takes its content types, and it is the log that was written before. It
 * gives no log a number, unless an operator accepts the log by its id: a log whose messages are all filtered needs none.
 */
export interface Sink<Encoded = unknown> {
  /**
   * The number (1 to 127) of each log in the store, by the index of the log: the first part of a row's position. Undefined until the log is known to
   * the store, or `takeNumbers` was called for it. The array is always the same.
   */
  readonly logNumbers: LogNumbers

  /**
   * Resolves when each of these logs, by index, has its number. Called before `encode` of the first batch with a message of the log that is to be
   * stored or dead-lettered, perhaps while the batch before is being written, and again if it throws. A number that is taken before a crash is found
   * again by the next start.
   *
   * A batch may cover logs without a number if all their messages are filtered or empty. For those the store keeps nothing, also no offsets, and the
   * caller commits nothing that a start would resume at: after a restart they are read and filtered again.
   *
   * @throws SinkError (systemic) if another writer has taken the log's content types since the sink was opened, or another log its number, or no number
   * is left
   */
  takeNumbers(logs: Iterable<number>): Promise<void>

  /**
   * The offsets to resume at, for stores that commit offsets together with their rows. A partition that the store does not know is absent. Without
   * this method the writer resumes at the log's committed offset.
   *
   * Called before the first batch of a partition that was assigned to the caller, and after each fenced or stale write. The store may have been put back to an
   * older state, so this also clears what the sink has cached.
   */
  positions?(of: readonly LogPartition[]): Promise<Positions>

  /** Returns the bytes or statements of a batch. Pure and synchronous, so that it can run while the previous batch is written. */
  encode(batch: RecordBatch): Encoded

  /**
   * Resolves when the batch is durable, with what became of its messages (one count for each range of the batch, in order). Awaits `reject` before it
   * commits anything of the batch; a store without transactions awaits it before it resolves. Rows of a refused message stay only in a store without
   * transactions, if the server stored them before it refused another: the rejection then says `partial`. Throws if the outcome of the batch is
   * unknown; writing it a second time leaves the same rows as writing it once. Data that the store refuses is rejected, never thrown.
   *
   * @param signal aborts when nothing waits for the batch any longer: the write ends soon, whatever its outcome, and nothing is committed after it has
   * thrown. In a store without transactions rows that were already sent may still be stored; the next write has the same rows
   */
  write(encoded: Encoded, reject: Reject, signal: AbortSignal): Promise<readonly MessageCounts[]>

  /** Counts from the positions on, below which everything was copied. Only of stores that have `positions`, and keep counts beside them. */
  beginCounts?(): Promise<void>

  /** How many records it has stored without a number for their series since the last call; absent for stores that number none. */
  unnumbered?(): number

  /** The encoded batch was written; its buffers may be reused. */
  release?(encoded: Encoded): void

  classify(error: unknown): ErrorClass

  /** Waits for a write in progress, then releases every connection. A second call does nothing. */
  close(): Promise<void>
}

/** By the index of the log; undefined while the log has no number in the store. */
export type LogNumbers = readonly (number | undefined)[]

/** Limits of a message's position in one store, which is packed into an int64: log 7 bits, partition 12, offset 44. */
export const limits = { log: 127, partition: 4095, offset: 2 ** 44 - 1 } as const

/** The upper and lower 32 bits of a packed position: log << 56 | partition << 44 | offset, without a bigint. */
export function positionHigh(log: number, partition: number, offset: number): number {
  return ((log << 24) | (partition << 12) | (offset / 0x1_0000_0000)) >>> 0
}

export function positionLow(offset: number): number {
  return offset >>> 0
}

/** `positionHigh` of a message of a batch, whose log has a number. */
export function positionHighAt(logNumbers: LogNumbers, at: LogPartition, offset: number): number {
  return positionHigh(logNumbers[logOf(at)]!, partitionOf(at), offset)
}

/** The packed position as a bigint, where few are needed. */
export function packedPosition(log: number, partition: number, offset: number): bigint {
  return (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset))
}
