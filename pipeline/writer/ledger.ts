// The ledger of one writer, in messages and by partition: accounts for every received message at any time.

import type { MessageCounts } from '../../sinks/sink.ts'
import type { LogPartition } from '../../transformers/log-partition.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'

/**
 * received = stored + empty + filtered + duplicate + deadLettered + inFlight. Skipped offsets had no message and are counted in addition; lost
 * messages, which the log deleted unread, are among the skipped.
 */
export interface PartitionCounts extends Readonly<MessageCounts> {
  readonly inFlight: number
  readonly lost: number
}

export interface Ledger {
  /** The batch was taken from the log. */
  taken(batch: RecordBatch): void
  /** The batch was settled by the store, with a count for each of its ranges, in their order. */
  settled(batch: RecordBatch, counts: readonly MessageCounts[]): void
  /** What was in flight was dropped, and will be received again. */
  dropped(): void
  lost(at: LogPartition, messages: number): void
  counts(): ReadonlyMap<LogPartition, PartitionCounts>
}

type Account = { -readonly [Name in keyof PartitionCounts]: number }

export function openLedger(): Ledger {
  const accounts = new Map<LogPartition, Account>()

  function account(at: LogPartition): Account {
    let found = accounts.get(at)
    if (found === undefined) {
      found = { received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, inFlight: 0, lost: 0 }
      accounts.set(at, found)
    }
    return found
  }

  function add(batch: RecordBatch, sign: 1 | -1): void {
    const { length, at } = batch.messages
    for (let message = 0; message < length; message++) account(at[message]!).inFlight += sign
  }

  return {
    taken(batch) {
      for (const { at } of batch.ranges) account(at)
      add(batch, 1)
    },

    settled(batch, counts) {
      add(batch, -1)
      for (const [nth, range] of batch.ranges.entries()) {
        const to = account(range.at)
        const settled = counts[nth]
        if (settled === undefined) continue
        to.received += settled.received
        to.stored += settled.stored
        to.empty += settled.empty
        to.filtered += settled.filtered
        to.skipped += settled.skipped
        to.duplicate += settled.duplicate
        to.deadLettered += settled.deadLettered
      }
    },

    dropped() {
      for (const to of accounts.values()) to.inFlight = 0
    },

    lost(at, messages) {
      account(at).lost += messages
    },

    counts() {
      return new Map([...accounts].map(([at, counts]) => [at, { ...counts, received: counts.received + counts.inFlight }]))
    },
  }
}
