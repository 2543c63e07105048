// The dead letters of one writer: listed, shown, replayed and dropped, by reading their topic and adding to its end.
//
// Nothing in the topic is ever changed. What is last about a message counts: a letter is open until a settlement of it comes, and
// open again when the message fails once more, after a replay. So a letter that a crash doubled is one, everything survives a restart,
// and any number of tools may work at once. To know the last word the topic is read twice: about 150 bytes of memory for each letter.

import { type Log, MessageRefusedError, messageSize, type OutgoingMessage } from '../log.ts'
import { type MessageId, parseMessageId } from '../message-id.ts'
import type { RawCursor } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicReader } from '../topic-reader.ts'
import { entryAt, type LetterEntry, replay, type Settled, settlement } from './entry.ts'
import { type LetterIndex, type LetterState, openLetterIndex } from './index-of-letters.ts'
import { type Found, type FullLetter, fullLetterOf, idOf, type Letter, letterOf } from './letter.ts'

/** Which letters; what is given must all be so. Without ids only those that are open, unless `all` is true. */
export interface Selection {
  /** Ids of messages: `<log or topic>-<partition>-<offset>` or `<partition>-<offset>`. */
  readonly ids?: readonly string[]
  readonly rule?: string
  readonly channel?: string
  readonly all?: boolean
}

/** Every method throws LogUnavailableError, SystemicError, and RangeError for an id that is none. */
export interface Letters {
  /** Those that came last, at most `limit`, in the order in which they came; and how many there are. */
  list(selection: Selection, limit: number): Promise<{ readonly letters: readonly Letter[]; readonly total: number }>
  /** All of them, in the order in which they came, each as it is asked for. */
  each(selection: Selection): AsyncGenerator<Letter>
  /** More than one where an id that names no log is of several. */
  show(id: string): Promise<readonly FullLetter[]>
  /**
   * Hands messages to the writer once more; it stores them where they were at first.
   *
   * @throws SystemicError for an id that is of letters of several logs, as `drop` does
   */
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
  /** The ids of letters whose messages the log of replays refuses, since they are too large for it. They stay as they are. */
  readonly refused: readonly string[]
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
  async function* selected(selection: Selection, ids = idsOf(selection), opened?: LetterIndex): AsyncGenerator<Found> {
    const index = opened ?? (await openLetterIndex(reader))
    const wanted = wantedBy(selection, ids)
    for await (const { cursor, partition } of messagesOf(reader, index)) {
      const entry = entryAt(cursor)
      if (entry?.kind !== 'letter' || !index.isLast(entry.original, partition, cursor.message.offset)) continue
      const state = index.stateOf(entry.original)!
      if (wanted(entry, cursor, state)) yield { entry, cursor, partition, state }
    }
  }

  async function settle(selection: Selection, as: Settled): Promise<Settlement> {
    const ids = idsOf(selection)
    const index = await openLetterIndex(reader)
    for (const [text, id] of ids ?? []) checkOneLog(text, id, index)
    const missing = new Map(ids)
    const nowUs = clock() * 1000
    const target = as === 'replayed' ? await replays() : undefined
    const [shortened, refused]: [string[], string[]] = [[], []]
    let settled = 0
    let group: Settling[] = []
    let bytes = 0
    // A crash between the two leaves a letter open that was replayed: it is stored once, however often it is replayed.
    const flush = async (): Promise<void> => {
      const taken = target === undefined ? group : await replayed(target, group, refused)
      if (taken.length > 0) await log.append(taken.map(({ word }) => word))
      settled += taken.length
      group = []
      bytes = 0
    }
    for await (const { entry, cursor, partition } of selected(selection, ids, index)) {
      for (const [text, id] of missing) if (names(id, entry)) missing.delete(text)
      if (target !== undefined && entry.shortenedBytes !== undefined) {
        shortened.push(idOf(entry))
        continue
      }
      const found = { message: cursor.message, key: cursor.key() }
      const word = settlement(entry, found, { partition, offset: cursor.message.offset }, as, nowUs)
      const message = replay(entry, found)
      group.push({ id: idOf(entry), word, message })
      bytes += messageSize(word) + messageSize(message)
      if (bytes >= appendBytesMax) await flush()
    }
    await flush()
    return { settled, missing: [...missing.keys()], shortened, refused }
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

    async *each(selection) {
      for await (const found of selected(selection)) yield letterOf(found)
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

/** A letter with the word that settles it, and its message as it is replayed. */
interface Settling {
  readonly id: string
  readonly word: OutgoingMessage
  readonly message: OutgoingMessage
}

/**
 * Those whose messages the log has taken. What it refuses for good it refuses as part of a group, too, whose others may be there then:
 * a message that is replayed twice is stored once.
 */
async function replayed(log: Log, group: readonly Settling[], refused: string[]): Promise<readonly Settling[]> {
  try {
    if (group.length > 0) await log.append(group.map(({ message }) => message))
    return group
  } catch (error) {
    if (!(error instanceof MessageRefusedError)) throw error
    if (group.length === 1) {
      refused.push(group[0]!.id)
      return []
    }
    const taken: Settling[] = []
    for (const one of group) taken.push(...(await replayed(log, [one], refused)))
    return taken
  }
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

/** By their texts; undefined where none are given. @throws RangeError for an id that is none */
function idsOf({ ids }: Selection): ReadonlyMap<string, MessageId> | undefined {
  if (ids === undefined) return undefined
  return new Map(
    ids.map(text => {
      const id = parseMessageId(text)
      if (id === undefined) throw new RangeError(`${JSON.stringify(text)} is no id of a message`)
      return [text, id]
    }),
  )
}

/** A topic that was made anew gives its offsets again, so that an id without the log's number can be of a message of each. */
function checkOneLog(text: string, id: MessageId, index: LetterIndex): void {
  const logs = index.logsOf(id)
  if (logs.length < 2) return
  const each = logs.map(log => `${log}-${id.partition}-${id.offset}`).join(' or ')
  throw new SystemicError(`the id ${text} is of letters of several logs: give ${each}`)
}

function wantedBy(
  { rule, channel, all = false }: Selection,
  ids: ReadonlyMap<string, MessageId> | undefined,
): (entry: LetterEntry, cursor: RawCursor, state: LetterState) => boolean {
  const listed = ids === undefined ? undefined : [...ids.values()]
  return (entry, { message }, state) =>
    (listed === undefined ? all || state === 'open' : listed.some(id => names(id, entry))) &&
    (rule === undefined || entry.rule === rule) &&
    (channel === undefined || message.channel === channel)
}

function names({ log, partition, offset }: MessageId, { original, topic }: LetterEntry): boolean {
  if (partition !== original.partition || offset !== original.offset) return false
  return log === '' || log === String(original.log) || log === topic
}
