// Selects dead letters by reading their topic twice: once for the latest state of each message, and once for the letters.

import { canonicalId } from '../../transformers/uuid.ts'
import type { MessageId } from '../message-id.ts'
import { parseMessageId } from '../message-id.ts'
import type { RawCursor } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicReader } from '../topic-reader.ts'
import { type ParsedDeadLetter, parseAt } from './parse.ts'
import { type DeadLetterIndex, type DeadLetterState, openDeadLetterIndex, positionKey } from './state-index.ts'
import type { Found } from './summary.ts'

/** A filter; all given conditions must hold. Without ids it selects only open letters, unless `all` is true. */
export interface DeadLetterFilter {
  /** Ids of messages: `<log or topic>-<partition>-<offset>` or `<partition>-<offset>`. */
  readonly ids?: readonly string[]
  readonly rule?: string
  readonly channel?: string
  readonly all?: boolean
  /** Only letters of the topic with this id. */
  readonly topicId?: string
}

/** Called with the offsets of the topic read so far, and the total. */
export type OnProgress = (done: number, total: number) => void

/** The letters to resolve, and the ids without a letter, which are known after the last letter. */
export interface ToResolve {
  readonly deadLetters: AsyncGenerator<Found>
  readonly missing: () => string[]
}

/** The selected letters, in the order of their topic, each with its cursor, which is valid until the next letter is requested. */
export async function* selectDeadLetters(reader: TopicReader, filter: DeadLetterFilter): AsyncGenerator<Found> {
  const index = openDeadLetterIndex(reader, filter.topicId)
  await index.readOn()
  yield* selected(reader, index, wantedBy(filter, idsOf(filter)))
}

/** @throws SystemicError for an id that matches letters of several logs, RangeError for an invalid id */
export async function deadLettersToResolve(reader: TopicReader, filter: DeadLetterFilter, onProgress?: OnProgress): Promise<ToResolve> {
  const ids = idsOf(filter)
  const index = openDeadLetterIndex(reader)
  await index.readOn()
  for (const [text, id] of ids ?? []) checkOneLog(text, id, index)
  const missing = new Map(ids)
  async function* deadLetters(): AsyncGenerator<Found> {
    for await (const found of selected(reader, index, wantedBy(filter, ids), onProgress)) {
      for (const [text, id] of missing) if (names(id, found.deadLetter)) missing.delete(text)
      yield found
    }
  }
  return { deadLetters: deadLetters(), missing: () => [...missing.keys()] }
}

type IsWanted = (deadLetter: ParsedDeadLetter, cursor: RawCursor, state: DeadLetterState) => boolean

async function* selected(reader: TopicReader, index: DeadLetterIndex, isWanted: IsWanted, onProgress?: OnProgress): AsyncGenerator<Found> {
  let total = 0
  for (const { start, end } of index.bounds().values()) total += end - start
  let done = 0
  for (const [partition, { start, end }] of index.bounds()) {
    for await (const chunk of reader.read(partition, start, end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const parsed = parseAt(cursor)
        if (parsed?.kind !== 'letter') continue
        const { log, partition: of, offset } = parsed.original
        const message = index.of(log, of).get(offset)
        if (message?.position !== positionKey(partition, cursor.message.offset)) continue
        const { state, partial } = message
        if (isWanted(parsed, cursor, state)) yield { deadLetter: parsed, cursor, partition, state, partial }
      }
      onProgress?.(done + chunk.to - start, total)
    }
    done += end - start
  }
}

/** The ids by their text; undefined if none are given. @throws RangeError for an invalid id */
function idsOf({ ids }: DeadLetterFilter): ReadonlyMap<string, MessageId> | undefined {
  if (ids === undefined) return undefined
  return new Map(
    ids.map(text => {
      const id = parseMessageId(text)
      if (id === undefined) throw new RangeError(`${JSON.stringify(text)} is not a message id`)
      return [text, id]
    }),
  )
}

/** A recreated topic reuses offsets, so an id without a log number may match a message of each log. */
function checkOneLog(text: string, id: MessageId, index: DeadLetterIndex): void {
  const logs = index.logsOf(id)
  if (logs.length < 2) return
  const each = logs.map(log => `${log}-${id.partition}-${id.offset}`).join(' or ')
  throw new SystemicError(`the id ${text} matches dead letters of several logs: use ${each}`)
}

function wantedBy({ rule, channel, all = false }: DeadLetterFilter, ids: ReadonlyMap<string, MessageId> | undefined): IsWanted {
  const wantedChannel = channel === undefined ? undefined : canonicalId(channel)
  const listed = ids === undefined ? undefined : [...ids.values()]
  return (deadLetter, { message }, state) =>
    (listed === undefined ? all || state === 'open' : listed.some(id => names(id, deadLetter))) &&
    (rule === undefined || deadLetter.rule === rule) &&
    (wantedChannel === undefined || message.channel === wantedChannel)
}

function names({ log, partition, offset }: MessageId, { original, topic }: ParsedDeadLetter): boolean {
  if (partition !== original.partition || offset !== original.offset) return false
  return log === '' || log === String(original.log) || log === topic
}
