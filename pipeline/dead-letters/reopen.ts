// Upgrade from releases that replayed through a separate topic: reopens the letters of messages that wait unread in it.

import { envelopeHeaderNames } from '../envelope-headers.ts'
import type { Log, OutgoingMessage } from '../log.ts'
import type { RawCursor } from '../source.ts'
import type { TopicReader } from '../topic-reader.ts'
import { selectDeadLetters } from './filter.ts'
import { replayedOf } from './headers.ts'
import { appendGrouped } from './queue.ts'
import { idOf } from './summary.ts'

export interface ReopenParts {
  /** Reader of the dead-letter topic, and the log that it reads. */
  readonly deadLetters: TopicReader
  readonly log: Log
  /** Reader of the old replays topic, and by partition the offset below which it was consumed. */
  readonly replays: TopicReader
  readonly committed: ReadonlyMap<number, number>
}

/**
 * Appends each letter again that counts as replayed but whose message waits unread. If a message was stored anyway, the next replay detects that.
 *
 * @returns how many letters were reopened
 * @throws LogUnavailableError, SystemicError
 */
export async function reopenDeadLetters({ deadLetters, log, replays, committed }: ReopenParts): Promise<number> {
  const waiting = await waitingIds(replays, committed)
  if (waiting.size === 0) return 0
  async function* copies(): AsyncGenerator<OutgoingMessage> {
    for await (const { deadLetter, cursor, state } of selectDeadLetters(deadLetters, { all: true })) {
      if (state === 'replayed' && waiting.has(idOf(deadLetter))) yield copyOf(cursor)
    }
  }
  return appendGrouped(log, copies())
}

/** For the operator. */
export function reopenedSentence(deadLetters: number): string {
  return `${deadLetters} dead ${deadLetters === 1 ? 'letter was' : 'letters were'} reopened, because an earlier release had not finished replaying: store them with ./sluice dlq replay`
}

async function waitingIds(replays: TopicReader, committed: ReadonlyMap<number, number>): Promise<Set<string>> {
  const ids = new Set<string>()
  for (const [partition, { start, end }] of await replays.bounds()) {
    const from = Math.max(start, committed.get(partition) ?? start)
    if (from >= end) continue
    for await (const chunk of replays.read(partition, from, end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const original = replayedOf(cursor.headers())
        if (original !== undefined) ids.add(`${original.log}-${original.partition}-${original.offset}`)
      }
    }
  }
  return ids
}

/** A copy of the message, to append it to the same log. */
function copyOf(cursor: RawCursor): OutgoingMessage {
  const { fault, channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs } = cursor.message
  const payload = new Uint8Array(cursor.message.payload)
  const envelope = { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload }
  if (fault !== undefined) return { ...envelope, headers: cursor.headers(), key: cursor.key() }
  return { ...envelope, headers: cursor.headers().filter(({ key }) => !envelopeHeaderNames.has(key)) }
}
