// Finds the latest state of each dead-lettered message in one pass over the dead-letter topic of a writer.

import type { LogPosition } from '../log.ts'
import type { MessageId } from '../message-id.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import type { MessagePosition } from './headers.ts'
import { parseAt } from './parse.ts'

/** Open: the writer has dead-lettered the message, and the letter was not resolved since. */
export type DeadLetterState = 'open' | 'replayed' | 'dropped'

export interface DeadLetterIndex {
  /** Bounds of the dead-letter topic, as far as it was read. */
  readonly bounds: ReadonlyMap<number, TopicBounds>
  /** Undefined if the message has no letter. */
  stateOf(original: MessagePosition): DeadLetterState | undefined
  /** Whether the letter at this position of the topic is the last one of its message. */
  isLast(original: MessagePosition, partition: number, offset: number): boolean
  /** The letters of one partition of a log, by offset. */
  of(log: number, partition: number): ReadonlyMap<number, DeadLetterState>
  /**
   * Offsets in one partition of a log for which any letter ever said that the store may have some rows. After a crash the message may be
   * rejected for another reason, with a letter that does not say so, but the rows are still there.
   */
  partialOf(log: number, partition: number): ReadonlySet<number>
  /** The numbers of the logs that have a letter with this id, ascending: an id without a log number may match several. */
  logsOf(id: MessageId): number[]
}

/** For one partition of a log, by offset: the latest state, and the position of the last letter. */
interface Resolutions {
  readonly log: number
  readonly partition: number
  /** The name of the log. */
  topic: string
  readonly states: Map<number, DeadLetterState>
  readonly lastPositions: Map<number, number>
  readonly partial: Set<number>
}

/**
 * Reads the whole topic. Skips a resolution without a letter, which occurs only if the start of the topic was deleted.
 *
 * @param topicId skips letters of a topic with another id: numbers of logs are used again
 */
export async function openDeadLetterIndex(reader: TopicReader, topicId?: string): Promise<DeadLetterIndex> {
  const bounds = await reader.bounds()
  const byPartition = new Map<number, Resolutions>()

  function resolutionsOf({ log, partition }: MessagePosition): Resolutions {
    const key = log * 4096 + partition
    let found = byPartition.get(key)
    if (found === undefined)
      byPartition.set(key, (found = { log, partition, topic: '', states: new Map(), lastPositions: new Map(), partial: new Set() }))
    return found
  }

  for (const [partition, { start, end }] of bounds) {
    for await (const chunk of reader.read(partition, start, end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const parsed = parseAt(cursor)
        if (parsed === undefined || (parsed.kind === 'letter' && topicId !== undefined && parsed.logId !== topicId)) continue
        const resolutions = resolutionsOf(parsed.original)
        const { offset } = parsed.original
        if (parsed.kind === 'letter') {
          resolutions.topic = parsed.topic
          resolutions.states.set(offset, 'open')
          if (parsed.partial) resolutions.partial.add(offset)
          resolutions.lastPositions.set(offset, positionKey(partition, cursor.message.offset))
        } else if (resolutions.states.has(offset) && resolves(parsed.deadLetter, resolutions.lastPositions.get(offset)!)) {
          resolutions.states.set(offset, parsed.resolved)
        }
      }
    }
  }

  return {
    bounds,
    stateOf: original => resolutionsOf(original).states.get(original.offset),
    isLast: (original, partition, offset) => resolutionsOf(original).lastPositions.get(original.offset) === positionKey(partition, offset),
    of: (log, partition) => resolutionsOf({ log, partition, offset: 0 }).states,
    partialOf: (log, partition) => resolutionsOf({ log, partition, offset: 0 }).partial,
    logsOf: ({ log, partition, offset }) =>
      [...byPartition.values()]
        .filter(resolutions => resolutions.partition === partition && resolutions.states.has(offset))
        .filter(resolutions => log === '' || log === String(resolutions.log) || log === resolutions.topic)
        .map(resolutions => resolutions.log)
        .sort((one, other) => one - other),
  }
}

/** Allows 2^12 partitions with 2^41 letters each. */
export function positionKey(partition: number, offset: number): number {
  return offset * 4096 + partition
}

/** A letter written while an older one was being resolved comes after the position in the resolution: it stays open. */
export function resolves(deadLetter: LogPosition, position: number): boolean {
  return position % 4096 === deadLetter.partition && position <= positionKey(deadLetter.partition, deadLetter.offset)
}
