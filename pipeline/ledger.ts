// The books of one writer, in messages and by partition: what was received is accounted for, at every moment.

import type { MessageCounts } from '../sinks/sink.ts'
import type { RecordBatch } from '../transformers/record-batch.ts'

/**
 * received = stored + empty + filtered + duplicate + deadLettered + inFlight. Skipped offsets held no message and are counted
 * beside; lost are the messages that the log deleted unread, which are among the skipped.
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
  /** What is in flight was dropped, and will be received again. */
  dropped(): void
  lost(partition: number, messages: number): void
  counts(): ReadonlyMap<number, PartitionCounts>
}

type Account = { -readonly [Name in keyof PartitionCounts]: number }

export function openLedger(): Ledger {
  const accounts = new Map<number, Account>()

  function account(partition: number): Account {
    let found = accounts.get(partition)
    if (found === undefined) {
      found = { received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, inFlight: 0, lost: 0 }
      accounts.set(partition, found)
    }
    return found
  }

  function add(batch: RecordBatch, sign: 1 | -1): void {
    const { length, partition } = batch.messages
    for (let at = 0; at < length; at++) {
      const to = account(partition[at]!)
      to.inFlight += sign
    }
  }

  return {
    taken(batch) {
      for (const { partition } of batch.ranges) account(partition)
      add(batch, 1)
    },

    settled(batch, counts) {
      add(batch, -1)
      for (const [at, range] of batch.ranges.entries()) {
        const to = account(range.partition)
        const settled = counts[at]
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

    lost(partition, messages) {
      account(partition).lost += messages
    },

    counts() {
      return new Map([...accounts].map(([partition, counts]) => [partition, { ...counts, received: counts.received + counts.inFlight }]))
    },
  }
}
