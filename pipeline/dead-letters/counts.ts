// Counts the open dead letters by rule, and reads on from where it stopped: what was read before is not read again.

import type { TopicReader } from '../topic-reader.ts'
import { parseAt } from './parse.ts'
import { positionKey, resolves } from './state-index.ts'

/** About 150 bytes of memory for each open letter. Call `readOn` only after the previous call has ended. */
export interface DeadLetterCounts {
  /** Reads what was written since the last call. @throws LogUnavailableError, SystemicError; the next call goes on from there */
  readOn(): Promise<void>
  byRule(): Readonly<Record<string, number>>
}

interface OpenDeadLetter {
  readonly rule: string
  readonly position: number
}

/** @param topicId skips letters that are surely of a topic with another id */
export function openDeadLetterCounts(reader: TopicReader, topicId: string): DeadLetterCounts {
  const next = new Map<number, number>()
  /** By log and partition of the message, then by its offset. */
  const open = new Map<number, Map<number, OpenDeadLetter>>()
  const counts = new Map<string, { readonly rule: string; open: number }>()

  function add(from: Map<number, OpenDeadLetter>, offset: number, rule: string, position: number): void {
    remove(from, offset)
    let count = counts.get(rule)
    if (count === undefined) counts.set(rule, (count = { rule, open: 0 }))
    count.open++
    // The same text for all letters of a rule.
    from.set(offset, { rule: count.rule, position })
  }

  function remove(from: Map<number, OpenDeadLetter>, offset: number): void {
    const deadLetter = from.get(offset)
    if (deadLetter === undefined) return
    from.delete(offset)
    counts.get(deadLetter.rule)!.open--
  }

  return {
    async readOn() {
      for (const [partition, { start, end }] of await reader.bounds()) {
        for await (const chunk of reader.read(partition, Math.max(start, next.get(partition) ?? start), end)) {
          const cursor = chunk.cursor()
          while (cursor.next()) {
            const parsed = parseAt(cursor)
            if (parsed === undefined || (parsed.kind === 'letter' && parsed.logId !== topicId)) continue
            const { log, partition: of, offset } = parsed.original
            const key = log * 4096 + of
            let openInPartition = open.get(key)
            if (openInPartition === undefined) open.set(key, (openInPartition = new Map()))
            if (parsed.kind === 'letter') add(openInPartition, offset, parsed.rule, positionKey(partition, cursor.message.offset))
            else if (openInPartition.has(offset) && resolves(parsed.deadLetter, openInPartition.get(offset)!.position))
              remove(openInPartition, offset)
          }
          next.set(partition, chunk.to)
        }
      }
    },
    byRule: () => Object.fromEntries([...counts.values()].filter(({ open }) => open > 0).map(({ rule, open }) => [rule, open])),
  }
}
