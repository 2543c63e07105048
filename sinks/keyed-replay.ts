// The replay for stores without transactions: the same inserts as the writer's, whose keys follow from the position, and a record of what was replayed.

import { type LogPartition, partitionOf } from '../transformers/log-partition.ts'
import { Outcome, type RecordBatch } from '../transformers/record-batch.ts'
import { type KeyedBatch, type KeyedStore, openKeyedSink } from './keyed-sink.ts'
import type { ReplaySink } from './replay.ts'
import { packedPosition, type Rejection } from './sink.ts'

/** What a replay needs from a store besides its inserts. Positions are packed. */
export interface KeyedReplays {
  /** Records that the messages at these positions were replayed and are stored. Idempotent. */
  readonly noteReplays: (positions: ReadonlySet<bigint>, signal: AbortSignal) => Promise<void>
  /** Deletes every row with this position; all of them have this channel. */
  readonly deleteRows: (position: bigint, channel: string, signal: AbortSignal) => Promise<void>
}

/** @param store opened without creating or registering anything */
export function openKeyedReplay<Encoded extends KeyedBatch, Prepared>(
  store: KeyedStore<Encoded, Prepared>,
  { noteReplays, deleteRows }: KeyedReplays,
  logNumber: number,
): ReplaySink {
  const sink = openKeyedSink(store, { logNumbers: [logNumber], takeNumbers: async () => undefined })

  return {
    note: noteReplays,
    async write(batch, partial, signal) {
      const { messages } = batch
      coverAll(batch)
      const position = (message: number): bigint => packedPosition(logNumber, partitionOf(messages.at[message]!), messages.offset[message]!)
      // The key may contain the time, which another version or other options may decode differently: the old rows would then stay beside the new ones.
      for (const message of partial) await deleteRows(position(message), messages.channel[message]!, signal)
      const refused = new Map<number, Rejection>()
      const encoded = sink.encode(batch)
      await sink.write(encoded, async some => some.forEach(rejection => refused.set(rejection.message, rejection)), signal)
      sink.release?.(encoded)
      // The dead letter does not say that rows are stored, so none may stay.
      for (const { message, partial: hasRows } of refused.values()) {
        if (hasRows === true) await deleteRows(position(message), messages.channel[message]!, signal)
      }
      const stored = new Set<bigint>()
      for (let message = 0; message < messages.length; message++) {
        if (messages.outcome[message] === Outcome.stored && !refused.has(message)) stored.add(position(message))
      }
      if (stored.size > 0) await noteReplays(stored, signal)
      return { refused, notPassed: new Set() }
    },
  }
}

/** A sink counts by ranges, a replay by messages: this adds one range for each partition, so that the sink can count. */
function coverAll({ messages, ranges }: RecordBatch): void {
  const covered = new Set<LogPartition>()
  for (let message = 0; message < messages.length; message++) covered.add(messages.at[message]!)
  for (const at of covered) {
    ranges.push({ at, from: 0, to: Number.MAX_SAFE_INTEGER, lost: 0 })
  }
}
