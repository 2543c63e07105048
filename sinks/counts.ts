// Counts what became of a batch's messages, range by range. Every sink reports these counts, and they have to add up.

import { type LogPartition, partitionName } from '../transformers/log-partition.ts'
import { type MessageColumns, Outcome, type Range } from '../transformers/record-batch.ts'
import type { MessageCounts, Positions } from './sink.ts'

/** The message columns that counting needs: a sink need not keep the others until the batch is written. */
export type CountedMessages = Pick<MessageColumns, 'length' | 'at' | 'offset' | 'outcome'>

/**
 * Counts the messages of each range, in the order of the ranges. Every message must be in one of them.
 *
 * @param rejected the messages that the store refused, by their index
 * @param next by log and partition, the offset below which everything was settled before this batch; absent where nothing was. Messages below it are
 * duplicates, and gaps below it are not counted again.
 * @param duplicates other messages that are in the store already, by their index
 */
export function countMessages(
  messages: CountedMessages,
  ranges: readonly Range[],
  rejected: { has(message: number): boolean },
  next?: Positions,
  duplicates?: { has(message: number): boolean },
): MessageCounts[] {
  const counts: MessageCounts[] = []
  const byPartition = new Map<LogPartition, MessageCounts>()
  for (const { at, from, to, lost } of ranges) {
    const begin = Math.min(to, Math.max(from, next?.get(at) ?? from))
    const nothing = { received: 0, stored: 0, empty: 0, filtered: 0, duplicate: 0, deadLettered: 0 }
    const count = { ...nothing, skipped: to - begin, lost: Math.max(0, Math.min(to, from + lost) - begin) }
    counts.push(count)
    byPartition.set(at, count)
  }
  let at: LogPartition | undefined
  let count: MessageCounts | undefined
  let settledBelow = 0
  for (let message = 0; message < messages.length; message++) {
    if (messages.at[message] !== at) {
      at = messages.at[message]!
      count = byPartition.get(at)
      settledBelow = next?.get(at) ?? 0
    }
    if (count === undefined)
      throw new RangeError(`message ${message} is of ${partitionName(messages.at[message]!)}, which no range of its batch covers`)
    count.received++
    const settled = messages.offset[message]! < settledBelow
    if (!settled) count.skipped--
    if (settled || duplicates?.has(message) === true) count.duplicate++
    else if (rejected.has(message)) count.deadLettered++
    else add(count, messages.outcome[message]!)
  }
  return counts
}

function add(count: MessageCounts, outcome: number): void {
  if (outcome === Outcome.stored) count.stored++
  else if (outcome === Outcome.empty) count.empty++
  else if (outcome === Outcome.filtered) count.filtered++
  else count.deadLettered++
}
