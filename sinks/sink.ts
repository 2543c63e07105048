// The contract of a sink: what writes record batches to one store, each message once.

import type { RecordBatch } from '../transformers/record-batch.ts'

/** By partition, the offset to go on at: everything below it is stored or dead-lettered. */
export type Positions = ReadonlyMap<number, number>

/** A message that the store can never take, named by its index in the batch's message columns. A rejection is of a whole message. */
export interface Rejection {
  readonly message: number
  /** Stable, kebab-case: `store-refused`, `format-limit`. */
  readonly rule: string
  /** The ordinal of the culprit among the message's records as received, where it is known. */
  readonly record?: number
  /** What the store said, or why we refuse. */
  readonly reason: string
  readonly hint?: string
}

/** Resolves when the dead letters of these messages are durable. */
export type Reject = (rejections: readonly Rejection[]) => Promise<void>

/**
 * What became of the messages of a batch. It adds up:
 * received = stored + empty + filtered + duplicate + deadLettered. Skipped are the offsets of the range that held no message
 * (compaction gaps, transaction markers, messages deleted unread), counted beside.
 */
export interface MessageCounts {
  received: number
  stored: number
  empty: number
  filtered: number
  skipped: number
  /** Received, but found stored or settled before. */
  duplicate: number
  deadLettered: number
  /** Of the skipped, those that held a message which the log deleted unread. */
  lost: number
}

/**
 * What an error of `write` means for the pipeline:
 * - transient: the store is away or overloaded; the same write is tried again, for ever
 * - systemic: no retry can mend it (credentials, a missing database, another schema); the writer stops with the error's message
 * - fenced: the store has gone on without us; nothing of ours was written, and the source must go to `positions()` again
 */
export type ErrorClass = 'transient' | 'systemic' | 'fenced'

/**
 * A sink is opened by its folder's `openSink(options)` and used by one worker. `Encoded` is the sink's own form of a batch.
 *
 * What the caller guarantees: batches come in the order of the log, their ranges contiguous in each partition; one `write`
 * at a time; after a transient error the same encoded batch again, or nothing more of it; no call after `close`. The batch stays as it is
 * until the write of what was encoded from it has resolved, and is filled anew then: nothing may read it any more.
 */
export interface Sink<Encoded = unknown> {
  /** The small integer (1 to 127) under which the store knows the log it is written from: the first part of every row's position. */
  readonly logNumber: number

  /**
   * Where this store says to go on, for stores that commit offsets with their rows. A partition it does not know is absent.
   * A store without this goes on at the log's committed offset.
   *
   * Asked before the first batch of a partition that was given to the caller, and after each fenced write: the store may have gone back, and
   * what this sink took for known of it is forgotten then.
   */
  positions?(partitions: readonly number[]): Promise<Positions>

  /** The bytes or statements of a batch: pure and synchronous, so that it can be done while the batch before is being written. */
  encode(batch: RecordBatch): Encoded

  /**
   * Resolves when the batch is durable, with what became of its messages (one count per range of the batch, in its order).
   * Awaits `reject` before anything of the batch becomes final; a store without transactions, before it resolves, and nothing of a refused
   * message is left there then. Throws when nothing is known about the batch; writing it a second
   * time leaves the same rows as writing it once. What the store refuses as data is rejected, never thrown.
   *
   * @param signal aborts when nobody waits for the batch any more: the write ends soon, with whatever came of it, and never
   * becomes final after it has thrown. In a store without transactions what was on its way may still land: the rows that the next write has, too, and
   * of a message that is refused meanwhile some may stay, which `sluice verify` tells (rows missing)
   */
  write(encoded: Encoded, reject: Reject, signal: AbortSignal): Promise<readonly MessageCounts[]>

  /** The caller is done with what it had encoded: it was written, and nobody reads it any more. Its memory may be used for the next. */
  release?(encoded: Encoded): void

  classify(error: unknown): ErrorClass

  /** Waits for a write under way, then lets go of every connection. A second call does nothing. */
  close(): Promise<void>
}

/** A message's identity in one store, packed into an int64: log 7 bits, partition 12, offset 44. */
export const limits = { log: 127, partition: 4095, offset: 2 ** 44 - 1 } as const

/** The upper and lower 32 bits of a packed position: log << 56 | partition << 44 | offset, without a bigint. */
export function positionHigh(log: number, partition: number, offset: number): number {
  return ((log << 24) | (partition << 12) | (offset / 0x1_0000_0000)) >>> 0
}

export function positionLow(offset: number): number {
  return offset >>> 0
}
