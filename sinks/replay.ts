// The contract of a replay, which stores the messages of dead letters at their original positions in the log.

import type { RecordBatch } from '../transformers/record-batch.ts'
import type { Rejection } from './sink.ts'

/** What became of the messages of a batch. A message in neither part is stored, by this replay or before it. */
export interface ReplayOutcome {
  /** Why the store refuses a message, by message. */
  readonly refused: ReadonlyMap<number, Rejection>
  /** Messages at or above the writer's offset, which it may still read and store itself. Always empty for a store that keeps no positions. */
  readonly notPassed: ReadonlySet<number>
}

/**
 * Writes messages of one log of the store. It creates no schema, registers no log and moves no offset, and may run beside the writer. It creates
 * tables for formats as the writer does.
 */
export interface ReplaySink {
  /**
   * Resolves when the stored messages are durable and the store has recorded that they were replayed. Writing the same messages again, after a crash
   * at any point, leaves the same rows.
   *
   * @param batch each message once; its ranges are ignored
   * @param partial messages that the store may already have some rows of: these rows are deleted first, or replaced, where the key alone does not ensure that
   * @param signal aborts the write, which then throws
   */
  write(batch: RecordBatch, partial: ReadonlySet<number>, signal: AbortSignal): Promise<ReplayOutcome>

  /** Records that the messages at these packed positions, whose rows the store has, were replayed. Idempotent. */
  note(positions: ReadonlySet<bigint>, signal: AbortSignal): Promise<void>
}
