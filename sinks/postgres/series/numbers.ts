// The numbers of series that a worker has looked up, for the encoder: its hot path looks up each message and each record.
//
// The cache is bounded in bytes, in two halves: when the first one is full it becomes the second, and what is used again moves from there into a new one.
// It belongs to one generation of the store's dictionary, and knows the largest number in it: the transaction of each batch compares both, so numbers of a
// store that went back, or of series that were removed, are never written.
//
// It keeps the texts of batches as they are: decoders give the same text of a device as the same object, which is compared without reading it.

import { Outcome, type RecordBatch, senmlFormat } from '../../../transformers/record-batch.ts'
import { longIdentifiers, type Rejections } from '../../rejections.ts'
import type { DictionaryState, FindNumbers, WantedSeries } from './store.ts'

/**
 * Most bytes of channel, publisher and format together. Channel and publisher are part of index rows, which hold at most 2,704 bytes, and so is the
 * format's name.
 */
export const identifiersBytesMax = 2048
/** Most bytes in UTF-8 of publisher, subtopic, protocol, name and unit of a series that has a name: they are one entry of an index. */
const keyBytesMax = 2400
/** How many series one statement looks up. */
const lookedUpAtOnce = 5_000

/**
 * How many names of things in full channels are looked up for one batch: with ever new names each batch would wait for thousands of looks that find nothing.
 * Rows of the others belong to the rest this time, also of the few that have a number and are not in the cache.
 */
const unlikelyMax = 200

const unknown = -1
/** The number of a series that the store has no number for: its rows belong to the rest of the thing. */
const none = 0

/** A thing in one channel. */
interface Thing {
  readonly channel: string
  readonly publisher: string
  /** The number of the channel: 0 until one of its series is known. */
  channelNumber: number
  /** Of rows whose series has no number. */
  readonly rest: Series
  /** By name: the first of those with other units, subtopics or protocols. */
  readonly names: Map<string, Series>
  /** Whether the store had no number for one of its names, since the channel has its most series. */
  isFull: boolean
  /** The one that was looked up last: most things have few. */
  recent: Series | undefined
  bytes: number
  /** The same publisher in another channel. */
  next: Thing | undefined
}

interface Series {
  /** Undefined for the rest of a thing. */
  readonly name: string | undefined
  readonly unit: string | undefined
  readonly subtopic: string
  readonly protocol: string
  number: number
  next: Series | undefined
}

/** The records of a batch with their numbers. */
export interface RecordNumbers {
  /** How many messages have rows. */
  readonly length: number
  /** By message with rows: its index in the message columns, its first record and the one behind its last. */
  readonly message: Uint32Array
  readonly start: Uint32Array
  readonly end: Uint32Array
  /** By message with rows. */
  readonly channel: Int32Array
  /** By record: the number of its series; of the rest of its thing with a minus, since the row has its texts. */
  readonly series: Int32Array
  /** What the numbers depend on. */
  readonly state: DictionaryState | undefined
}

export interface SeriesNumbers {
  /** The numbers of all records, or undefined if some have to be looked up first. Rejects messages whose ids are too long. */
  known(batch: RecordBatch, rejected: Rejections['rejected']): RecordNumbers | undefined
  /**
   * Looks up the series of a batch, adding those that are missing.
   *
   * @throws DatabaseError, the signal's reason
   */
  resolved(batch: RecordBatch, rejected: Rejections['rejected'], signal: AbortSignal): Promise<RecordNumbers>
  /** Clears the cache: the store may have been put back to an older state. */
  forget(): void
}

/** @param bytesMax about how many bytes the cache may take; one batch may exceed it */
export function openSeriesNumbers(find: FindNumbers, bytesMax: number): SeriesNumbers {
  /** By publisher. */
  let things = new Map<string, Thing>()
  /** The second half. */
  let older = new Map<string, Thing>()
  /** Of the first half. */
  let bytes = 0
  let state: DictionaryState | undefined
  /** Changes whenever what was looked up before is no longer to be used. */
  let forgotten = 0
  /** Of `unlikelyMax`, for the present batch. */
  let unlikelyLeft = unlikelyMax

  function forget(): void {
    things = new Map()
    older = new Map()
    bytes = 0
    state = undefined
    forgotten++
  }

  function startHalf(): void {
    older = things
    things = new Map()
    bytes = 0
  }

  function thingOf(channel: string, publisher: string): Thing {
    let first = things.get(publisher)
    if (first === undefined) {
      first = older.get(publisher)
      if (first !== undefined) {
        older.delete(publisher)
        first = used(first)
        if (first !== undefined) things.set(first.publisher, first)
      }
    }
    let found = first
    while (found !== undefined && found.channel !== channel) found = found.next
    return found ?? newThing(channel, publisher, first)
  }

  /** What moves into the first half. One with so many names that they could be all of it is looked up again. */
  function used(first: Thing): Thing | undefined {
    let kept: Thing | undefined
    for (let thing: Thing | undefined = first, next; thing !== undefined; thing = next) {
      next = thing.next
      if (thing.bytes > bytesMax / 8) continue
      thing.next = kept
      kept = thing
      bytes += thing.bytes
    }
    return kept
  }

  function newThing(channel: string, publisher: string, next: Thing | undefined): Thing {
    const rest: Series = { name: undefined, unit: undefined, subtopic: '', protocol: '', number: unknown, next: undefined }
    const thing: Thing = {
      channel,
      publisher,
      channelNumber: 0,
      rest,
      names: new Map(),
      isFull: false,
      recent: undefined,
      bytes: 0,
      next,
    }
    things.set(thing.publisher, thing)
    count(thing, 450 + channel.length + publisher.length)
    return thing
  }

  function count(thing: Thing, size: number): void {
    thing.bytes += size
    bytes += size
  }

  function seriesOf(thing: Thing, name: string, unit: string | undefined, subtopic: string, protocol: string): Series {
    let found = thing.recent
    if (found?.name === name && isSame(found, unit, subtopic, protocol)) return found
    found = thing.names.get(name)
    while (found !== undefined && !isSame(found, unit, subtopic, protocol)) found = found.next
    if (found === undefined) return newSeries(thing, name, unit, subtopic, protocol)
    thing.recent = found
    return found
  }

  function newSeries(thing: Thing, name: string, unit: string | undefined, subtopic: string, protocol: string): Series {
    const series: Series = { name, unit, subtopic, protocol, number: none, next: thing.names.get(name) }
    // Not kept, since each may be large.
    if (!isKey([thing.publisher, subtopic, protocol, name, unit ?? ''])) return series
    if (thing.isFull && unlikelyLeft-- <= 0) return series
    series.number = unknown
    thing.names.set(name, series)
    count(thing, 250 + name.length + (unit?.length ?? 0) + subtopic.length + protocol.length)
    return series
  }

  /** The numbers, or what is missing of them. */
  function lookUp({ messages, records }: RecordBatch, rejected: Rejections['rejected']): RecordNumbers | Map<Series, Thing> {
    const message = new Uint32Array(messages.length)
    const start = new Uint32Array(messages.length)
    const end = new Uint32Array(messages.length)
    const channel = new Int32Array(messages.length)
    const series = new Int32Array(records.length)
    const missing = new Map<Series, Thing>()
    let length = 0
    let current = -1
    let isRefused = false
    let thing: Thing | undefined
    for (let at = 0; at < records.length; at++) {
      if (records.message[at] !== current) {
        current = records.message[at]!
        if (messages.outcome[current] !== Outcome.stored) throw new RangeError(`message ${current} has rows and is not to be stored`)
        const refusal = longIdentifiers(messages, current, senmlFormat, identifiersBytesMax)
        isRefused = refusal !== undefined
        if (refusal !== undefined) rejected.set(current, { message: current, ...refusal })
        else {
          const publisher = messages.publisher[current]!
          if (thing?.publisher !== publisher || thing.channel !== messages.channel[current]) {
            thing = thingOf(messages.channel[current]!, publisher)
          }
          message[length] = current
          start[length] = at
          channel[length] = thing.channelNumber
          length++
        }
      }
      if (isRefused) continue
      end[length - 1] = at + 1
      let found = seriesOf(thing!, records.name[at]!, records.unit[at], messages.subtopic[current]!, messages.protocol[current]!)
      if (found.number === none) {
        found = thing!.rest
        series[at] = -found.number
      } else series[at] = found.number
      if (found.number === unknown) missing.set(found, thing!)
    }
    return missing.size > 0 ? missing : { length, message, start, end, channel, series, state }
  }

  async function add(missing: Map<Series, Thing>, signal: AbortSignal): Promise<void> {
    const all = [...missing]
    for (let from = 0; from < all.length; from += lookedUpAtOnce) {
      const some = all.slice(from, from + lookedUpAtOnce)
      const before = forgotten
      const found = await find(some.map(wantedOf), signal)
      if (forgotten !== before) return
      if (state !== undefined && state.generation !== found.generation) {
        forget()
        return
      }
      for (const [nth, [series, thing]] of some.entries()) {
        const own = found.series[nth]
        series.number = own?.id ?? none
        if (own === undefined) {
          thing.isFull = true
          continue
        }
        thing.channelNumber = own.channel
        if (state === undefined || own.id > state.witness)
          state = { generation: found.generation, witness: own.id, witnessAddedUs: own.addedUs }
      }
    }
  }

  return {
    known(batch, rejected) {
      unlikelyLeft = unlikelyMax
      const numbers = lookUp(batch, rejected)
      return numbers instanceof Map ? undefined : numbers
    },

    async resolved(batch, rejected, signal) {
      if (bytes > bytesMax / 2) startHalf()
      for (;;) {
        const numbers = lookUp(batch, rejected)
        if (!(numbers instanceof Map)) return numbers
        await add(numbers, signal)
      }
    },

    forget,
  }
}

function isSame(series: Series, unit: string | undefined, subtopic: string, protocol: string): boolean {
  return series.unit === unit && series.subtopic === subtopic && series.protocol === protocol
}

function wantedOf([{ name, unit, subtopic, protocol }, { channel, publisher }]: readonly [Series, Thing]): WantedSeries {
  if (name === undefined) return { channel, publisher, subtopic: undefined, protocol: undefined, name, unit }
  return { channel, publisher, subtopic, protocol, name, unit }
}

/** False if it does not fit into the index, or has what PostgreSQL refuses: then the row has it, and is refused alone. */
function isKey(texts: readonly string[]): boolean {
  let length = 0
  for (const text of texts) {
    if (text.includes('\0') || !text.isWellFormed()) return false
    length += text.length
  }
  if (length * 3 <= keyBytesMax) return true
  return length <= keyBytesMax && texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0) <= keyBytesMax
}
