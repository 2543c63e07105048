// What became of a batch's messages, range by range: the arithmetic that every sink reports, and that has to add up.

import { type MessageColumns, Outcome, type Range } from '../transformers/record-batch.ts'
import type { MessageCounts, Positions } from './sink.ts'

/** What of the message columns is counted: a sink need not keep the rest until the batch is written. */
export type CountedMessages = Pick<MessageColumns, 'length' | 'partition' | 'offset' | 'outcome'>

/**
 * Counts the messages of each range, in the order of the ranges. Every message lies in one of them.
 *
 * @param rejected the messages that the store refused, by their index
 * @param next by partition, the offset below which all was settled before this batch; absent: nothing was. Messages below are
 *   duplicates, and gaps below are not counted a second time.
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
  const byPartition = new Map<number, MessageCounts>()
  for (const { partition, from, to, lost } of ranges) {
    const begin = Math.min(to, Math.max(from, next?.get(partition) ?? from))
    const nothing = { received: 0, stored: 0, empty: 0, filtered: 0, duplicate: 0, deadLettered: 0 }
    const count = { ...nothing, skipped: to - begin, lost: Math.max(0, Math.min(to, from + lost) - begin) }
    counts.push(count)
    byPartition.set(partition, count)
  }
  let partition = -1
  let count: MessageCounts | undefined
  let settledBelow = 0
  for (let message = 0; message < messages.length; message++) {
    if (messages.partition[message] !== partition) {
      partition = messages.partition[message]!
      count = byPartition.get(partition)
      settledBelow = next?.get(partition) ?? 0
    }
    if (count === undefined) throw new RangeError(`message ${message} is of partition ${partition}, which no range of its batch covers`)
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
