// Lists, shows and drops the dead letters of one writer, by reading their topic and appending to it.
//
// Entries of the topic are never changed; the last one about a message counts. A letter is open until a resolution follows it, and
// open again when another letter of the message follows. So a letter duplicated by a crash counts once, all state survives a restart,
// and any number of tools may work at once. To find the last entry the topic is read twice, with about 150 bytes of memory per letter.

import { type Log, messageSize, type OutgoingMessage } from '../log.ts'
import type { TopicReader } from '../topic-reader.ts'
import { type DeadLetterFilter, deadLettersToResolve, selectDeadLetters } from './filter.ts'
import { resolutionMessage } from './parse.ts'
import { type DeadLetterSummary, type FullDeadLetter, fullDeadLetterOf, idOf, summaryOf } from './summary.ts'

/** Every method throws LogUnavailableError, SystemicError, and RangeError for an invalid id. */
export interface DeadLetterQueue {
  /** The newest `limit` letters, oldest first, and the total number. */
  list(filter: DeadLetterFilter, limit: number): Promise<{ readonly letters: readonly DeadLetterSummary[]; readonly total: number }>
  /** All letters, oldest first, read on demand. */
  each(filter: DeadLetterFilter): AsyncGenerator<DeadLetterSummary>
  /** Several if the id has no log number and matches several logs. */
  show(id: string): Promise<readonly FullDeadLetter[]>
  /**
   * Drops letters: they stay in their topic, but are no longer listed as open.
   *
   * @throws SystemicError for an id that matches letters of several logs
   */
  drop(filter: DeadLetterFilter): Promise<DropReport>
}

export interface DropReport {
  /** Number of dropped letters. */
  readonly dropped: number
  /** Ids without a letter. */
  readonly missing: readonly string[]
  /** Ids of dropped letters whose messages may have rows in the store, which stay there. */
  readonly partial: readonly string[]
}

export interface DeadLetterQueueParts {
  readonly reader: TopicReader
  /** The log that `reader` reads. */
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

export function openDeadLetterQueue({ reader, log, clock = Date.now }: DeadLetterQueueParts): DeadLetterQueue {
  return {
    async list(filter, limit) {
      const deadLetters: DeadLetterSummary[] = []
      let total = 0
      for await (const found of selectDeadLetters(reader, filter)) {
        total++
        deadLetters.push(summaryOf(found))
        if (deadLetters.length > 2 * limit) deadLetters.splice(0, deadLetters.length - limit)
      }
      return { letters: limit === 0 ? [] : deadLetters.slice(-limit), total }
    },

    async *each(filter) {
      for await (const found of selectDeadLetters(reader, filter)) yield summaryOf(found)
    },

    async show(id) {
      const deadLetters: FullDeadLetter[] = []
      for await (const found of selectDeadLetters(reader, { ids: [id] })) deadLetters.push(fullDeadLetterOf(found))
      return deadLetters
    },

    async drop(filter) {
      const { deadLetters, missing } = await deadLettersToResolve(reader, filter)
      const nowUs = clock() * 1000
      const partial: string[] = []
      async function* resolutions(): AsyncGenerator<OutgoingMessage> {
        for await (const found of deadLetters) {
          if (found.partial) partial.push(idOf(found.deadLetter))
          yield resolutionMessage(found, 'dropped', nowUs)
        }
      }
      const dropped = await appendGrouped(log, resolutions())
      return { dropped, missing: missing(), partial }
    },
  }
}

/** One append holds at most so much, so that it fits through the queue of a log beside others. */
const appendBytesMax = 1024 * 1024

/**
 * Appends the messages in their order, each group as soon as it is full.
 *
 * @returns how many there were
 * @throws LogUnavailableError, MessageRefusedError; the groups before are durable then
 */
export async function appendGrouped(log: Log, messages: AsyncIterable<OutgoingMessage>): Promise<number> {
  let appended = 0
  let group: OutgoingMessage[] = []
  let bytes = 0
  for await (const message of messages) {
    group.push(message)
    bytes += messageSize(message)
    if (bytes < appendBytesMax) continue
    await log.append(group)
    appended += group.length
    group = []
    bytes = 0
  }
  if (group.length > 0) await log.append(group)
  return appended + group.length
}
