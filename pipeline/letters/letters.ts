// The dead letters of one writer: listed, shown, replayed and dropped, by reading their topic and adding to its end.
//
// Nothing in the topic is ever changed. What is last about a message counts: a letter is open until a settlement comes behind it, and
// open again when the message fails once more, after a replay. So a letter that a crash doubled is one, everything survives a restart,
// and any number of tools may work at once. To know the last word the topic is read twice: about 150 bytes of memory for each letter.

import { type Log, messageSize, type OutgoingMessage } from '../log.ts'
import { parseMessageId } from '../message-id.ts'
import type { RawCursor } from '../source.ts'
import type { TopicReader } from '../topic-reader.ts'
import { entryAt, type LetterEntry, replay, type Settled, settlement } from './entry.ts'
import { type LetterIndex, type LetterState, openLetterIndex } from './index-of-letters.ts'

/** A dead letter without what its device sent. Its texts are the device's all the same: escape them before a terminal sees them. */
export interface Letter {
  /** `<log>-<partition>-<offset>` of the message in its log. */
  readonly id: string
  readonly state: LetterState
  readonly topic: string
  readonly stage: string
  readonly rule: string
  readonly reason: string
  readonly record?: number
  readonly hint?: string
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  readonly content_type: string
  /** Nanoseconds since 1970, decimal; 0 where the message had none that could be read. */
  readonly created: string
  readonly payload_bytes: number
  /** Where the message was too large for its letter, which holds nothing of it: its bytes. Its log has it, while it keeps it. */
  readonly shortened_bytes?: number
}

/** A dead letter with everything. Bytes are base64. */
export interface FullLetter extends Letter {
  readonly key: string | null
  /** As the sender gave them; `base64` is true of a value that is no text. */
  readonly headers: readonly { readonly name: string; readonly value: string | null; readonly base64?: boolean }[]
  readonly payload: string
}

/** Which letters; what is given must all be so. Without ids only those that are open, unless `all` is true. */
export interface Selection {
  /** Ids of messages: `<log or topic>-<partition>-<offset>` or `<partition>-<offset>`. */
  readonly ids?: readonly string[]
  readonly rule?: string
  readonly channel?: string
  readonly all?: boolean
}

export interface Letters {
  /** Those that came last, at most `limit`, in the order in which they came; and how many there are. */
  list(selection: Selection, limit: number): Promise<{ readonly letters: readonly Letter[]; readonly total: number }>
  /** More than one where an id that names no log is of several. */
  show(id: string): Promise<readonly FullLetter[]>
  /** Hands messages to the writer once more; it stores them where they were at first. */
  replay(selection: Selection): Promise<Settlement>
  /** Puts letters aside for good: they stay in their topic and are no longer listed as open. */
  drop(selection: Selection): Promise<Settlement>
}

export interface Settlement {
  /** How many letters. */
  readonly settled: number
  /** The ids that no letter has. */
  readonly missing: readonly string[]
  /** The ids of letters that cannot be replayed, since their messages were too large for them. They stay as they are. */
  readonly shortened: readonly string[]
}

export interface LettersParts {
  readonly reader: TopicReader
  /** The log that `reader` reads. */
  readonly log: Log
  /** The log of replays, which is opened when it is needed. */
  readonly replays: () => Promise<Log>
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

/** One append holds at most so much, so that it fits through the queue of a log beside others. */
const appendBytesMax = 1024 * 1024

export function openLetters({ reader, log, replays, clock = Date.now }: LettersParts): Letters {
  /** The letters that are selected, each with its cursor: read from it before the next one is asked for. */
  async function* selected(selection: Selection): AsyncGenerator<Found> {
    const index = await openLetterIndex(reader)
    const wanted = wantedBy(selection)
    for await (const { cursor, partition } of messagesOf(reader, index)) {
      const entry = entryAt(cursor)
      if (entry?.kind !== 'letter' || !index.isLast(entry.original, partition, cursor.message.offset)) continue
      const state = index.stateOf(entry.original)!
      if (wanted(entry, cursor, state)) yield { entry, cursor, state }
    }
  }

  async function settle(selection: Selection, as: Settled): Promise<Settlement> {
    const missing = new Set(selection.ids)
    const nowUs = clock() * 1000
    const target = as === 'replayed' ? await replays() : undefined
    const shortened: string[] = []
    let settled = 0
    let messages: OutgoingMessage[] = []
    let words: OutgoingMessage[] = []
    let bytes = 0
    // A crash between the two leaves a letter open that was replayed: it is stored once, however often it is replayed.
    const flush = async (): Promise<void> => {
      if (target !== undefined && messages.length > 0) await target.append(messages)
      if (words.length > 0) await log.append(words)
      settled += words.length
      messages = []
      words = []
      bytes = 0
    }
    for await (const { entry, cursor } of selected(selection)) {
      for (const id of missing) if (names(id, entry)) missing.delete(id)
      if (target !== undefined && entry.shortenedBytes !== undefined) {
        shortened.push(idOf(entry))
        continue
      }
      const found = { message: cursor.message, key: cursor.key() }
      const word = settlement(entry, found, as, nowUs)
      words.push(word)
      bytes += messageSize(word)
      if (target !== undefined) {
        const message = replay(entry, found)
        messages.push(message)
        bytes += messageSize(message)
      }
      if (bytes >= appendBytesMax) await flush()
    }
    await flush()
    return { settled, missing: [...missing], shortened }
  }

  return {
    async list(selection, limit) {
      const letters: Letter[] = []
      let total = 0
      for await (const found of selected(selection)) {
        total++
        letters.push(letterOf(found))
        if (letters.length > 2 * limit) letters.splice(0, letters.length - limit)
      }
      return { letters: limit === 0 ? [] : letters.slice(-limit), total }
    },

    async show(id) {
      const letters: FullLetter[] = []
      for await (const found of selected({ ids: [id] })) letters.push(fullLetterOf(found))
      return letters
    },

    replay: selection => settle(selection, 'replayed'),
    drop: selection => settle(selection, 'dropped'),
  }
}

interface Found {
  readonly entry: LetterEntry
  readonly cursor: RawCursor
  readonly state: LetterState
}

/** Every message of the topic as far as the index knows it. */
async function* messagesOf(reader: TopicReader, { bounds }: LetterIndex): AsyncGenerator<{ cursor: RawCursor; partition: number }> {
  for (const [partition, { start, end }] of bounds) {
    for await (const run of reader.read(partition, start, end)) {
      const cursor = run.cursor()
      while (cursor.next()) yield { cursor, partition }
    }
  }
}

/** @throws RangeError for an id that is none */
function wantedBy({ ids, rule, channel, all = false }: Selection): (entry: LetterEntry, cursor: RawCursor, state: LetterState) => boolean {
  for (const id of ids ?? []) if (parseMessageId(id) === undefined) throw new RangeError(`${JSON.stringify(id)} is no id of a message`)
  return (entry, { message }, state) =>
    (ids === undefined ? all || state === 'open' : ids.some(id => names(id, entry))) &&
    (rule === undefined || entry.rule === rule) &&
    (channel === undefined || message.channel === channel)
}

function names(id: string, { original, topic }: LetterEntry): boolean {
  const { log, partition, offset } = parseMessageId(id)!
  if (partition !== original.partition || offset !== original.offset) return false
  return log === '' || log === String(original.log) || log === topic
}

function idOf({ original: { log, partition, offset } }: LetterEntry): string {
  return `${log}-${partition}-${offset}`
}

function letterOf({ entry, cursor, state }: Found): Letter {
  const { topic, stage, rule, reason, record, hint, shortenedBytes } = entry
  const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload } = cursor.message
  return {
    id: idOf(entry),
    state,
    topic,
    stage,
    rule,
    reason,
    ...(record === undefined ? {} : { record }),
    ...(hint === undefined ? {} : { hint }),
    channel,
    subtopic,
    publisher,
    protocol,
    content_type: contentType,
    created: String(BigInt(createdUs) * 1000n + BigInt(createdRestNs)),
    payload_bytes: payload.byteLength,
    ...(shortenedBytes === undefined ? {} : { shortened_bytes: shortenedBytes }),
  }
}

function fullLetterOf(found: Found): FullLetter {
  const { entry, cursor } = found
  const key = cursor.key()
  return {
    ...letterOf(found),
    key: key === null ? null : base64(key),
    headers: entry.headers.map(({ key: name, value }) =>
      value instanceof Uint8Array ? { name, value: base64(value), base64: true } : { name, value },
    ),
    payload: base64(cursor.message.payload),
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}
