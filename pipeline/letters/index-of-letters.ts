// What is the last word about each dead-lettered message: one pass over the topic of a writer's dead letters.

import type { Original } from '../../transformers/record-batch.ts'
import type { LogPosition } from '../log.ts'
import type { MessageId } from '../message-id.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import { entryAt } from './entry.ts'

/** Open: the writer has put it aside, and nobody has done anything about it since. */
export type LetterState = 'open' | 'replayed' | 'dropped'

export interface LetterIndex {
  /** Of the topic of dead letters, as far as it was read. */
  readonly bounds: ReadonlyMap<number, TopicBounds>
  /** Undefined: it has no letter. */
  stateOf(original: Original): LetterState | undefined
  /** Whether the letter at this place of the topic is the last one about its message. */
  isLast(original: Original, partition: number, offset: number): boolean
  /** By offset, the letters of one partition of a log. */
  of(log: number, partition: number): ReadonlyMap<number, LetterState>
  /** The numbers of the logs that have a letter of this id, ascending: an id without a number may be of several. */
  logsOf(id: MessageId): number[]
}

/** Of one partition of a log, by offset: the last word, and where the last letter lies. */
interface LastWords {
  readonly log: number
  readonly partition: number
  /** The name of the log. */
  topic: string
  readonly states: Map<number, LetterState>
  readonly places: Map<number, number>
}

/** Reads all of the topic. A settlement without a letter, which only a topic that lost its beginning has, is passed over. */
export async function openLetterIndex(reader: TopicReader): Promise<LetterIndex> {
  const bounds = await reader.bounds()
  const byPartition = new Map<number, LastWords>()

  function wordsOf({ log, partition }: Original): LastWords {
    const key = log * 4096 + partition
    let found = byPartition.get(key)
    if (found === undefined) byPartition.set(key, (found = { log, partition, topic: '', states: new Map(), places: new Map() }))
    return found
  }

  for (const [partition, { start, end }] of bounds) {
    for await (const run of reader.read(partition, start, end)) {
      const cursor = run.cursor()
      while (cursor.next()) {
        const entry = entryAt(cursor)
        if (entry === undefined) continue
        const words = wordsOf(entry.original)
        const { offset } = entry.original
        if (entry.kind === 'letter') {
          words.topic = entry.topic
          words.states.set(offset, 'open')
          words.places.set(offset, placeOf(partition, cursor.message.offset))
        } else if (words.states.has(offset) && settlesAt(entry.settles, words.places.get(offset)!)) {
          words.states.set(offset, entry.settled)
        }
      }
    }
  }

  return {
    bounds,
    stateOf: original => wordsOf(original).states.get(original.offset),
    isLast: (original, partition, offset) => wordsOf(original).places.get(original.offset) === placeOf(partition, offset),
    of: (log, partition) => wordsOf({ log, partition, offset: 0 }).states,
    logsOf: ({ log, partition, offset }) =>
      [...byPartition.values()]
        .filter(words => words.partition === partition && words.states.has(offset))
        .filter(words => log === '' || log === String(words.log) || log === words.topic)
        .map(words => words.log)
        .sort((one, other) => one - other),
  }
}

/** Of 2^12 partitions and 2^41 letters in each. */
function placeOf(partition: number, offset: number): number {
  return offset * 4096 + partition
}

/** A letter that was put while an older one was being settled lies behind the place that the settlement names: it stays open. */
function settlesAt(settles: LogPosition | undefined, place: number): boolean {
  if (settles === undefined) return true
  return place % 4096 === settles.partition && place <= placeOf(settles.partition, settles.offset)
}
