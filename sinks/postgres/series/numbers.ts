// The numbers of series that a worker has looked up, for the encoder: its hot path looks up each message and each record.
//
// The cache is bounded in bytes, in two halves: when the first one is full it becomes the second, and what is used again moves from there into a new one.
// Names without a number take a small part of their own, so that ever new ones do not displace the series. The cache belongs to one generation of the store's dictionary, and knows the largest number in it: the transaction of each batch compares both, so numbers
// of a store that went back, or of series that were removed, are never written.

import { type MessageColumns, Outcome, type RecordBatch, senmlFormat } from '../../../transformers/record-batch.ts'
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

const unknown = -1
/** The number of a series that the store has no number for: its rows belong to the rest of the thing. */
const none = 0

interface Channel {
  readonly channel: string
  /** 0 until one of its series is known. */
  number: number
  readonly things: Map<string, Thing>
}

interface Thing {
  readonly channel: Channel
  readonly publisher: string
  readonly rest: Series
  readonly branches: Map<string, Branch>
}

/** A subtopic of a thing, by one protocol. */
interface Branch {
  readonly thing: Thing
  readonly subtopic: string
  readonly protocol: string
  readonly names: Map<string, Series>
  /** The same subtopic by another protocol. */
  next: Branch | undefined
}

interface Series {
  readonly wanted: WantedSeries
  readonly of: Channel
  /** Undefined for the rest of a thing, which is not found by a name. */
  readonly branch: Branch | undefined
  readonly unit: string | undefined
  number: number
  /** The same name with another unit. */
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
  let channels = new Map<string, Channel>()
  /** The second half. */
  let older: ReadonlyMap<string, Channel> = new Map()
  /** Of the first half. */
  let bytes = 0
  /** Series that are to be looked up, and those that the store has no number for. */
  let unnumbered = new Map<Branch, Map<string, Series>>()
  let unnumberedBytes = 0
  let state: DictionaryState | undefined
  /** Changes whenever what was looked up before is no longer to be used. */
  let dropped = 0

  function dropUnnumbered(): void {
    unnumbered = new Map()
    unnumberedBytes = 0
    dropped++
  }

  function startHalf(): void {
    older = channels
    channels = new Map()
    bytes = 0
    dropUnnumbered()
  }

  function forget(): void {
    channels = new Map()
    startHalf()
    state = undefined
  }

  function channelOf(channel: string): Channel {
    let found = channels.get(channel)
    if (found === undefined) {
      found = { channel: copyOf(channel), number: older.get(channel)?.number ?? unknown, things: new Map() }
      channels.set(found.channel, found)
      bytes += 200 + channel.length
    }
    return found
  }

  function thingOf(channel: Channel, publisher: string): Thing {
    let found = channel.things.get(publisher)
    if (found === undefined) {
      const key = copyOf(publisher)
      const wanted = {
        channel: channel.channel,
        publisher: key,
        subtopic: undefined,
        protocol: undefined,
        name: undefined,
        unit: undefined,
      }
      const number = older.get(channel.channel)?.things.get(key)?.rest.number ?? unknown
      const rest: Series = { wanted, of: channel, branch: undefined, unit: undefined, number, next: undefined }
      found = { channel, publisher: key, rest, branches: new Map() }
      channel.things.set(key, found)
      bytes += 450 + publisher.length
    }
    return found
  }

  function branchOf(messages: MessageColumns, message: number, before: Branch | undefined): Branch {
    const name = messages.channel[message]!
    const publisher = messages.publisher[message]!
    const subtopic = messages.subtopic[message]!
    const protocol = messages.protocol[message]!
    let thing = before?.thing
    if (thing === undefined || thing.publisher !== publisher || thing.channel.channel !== name) thing = thingOf(channelOf(name), publisher)
    let branch = thing.branches.get(subtopic)
    while (branch !== undefined && branch.protocol !== protocol) branch = branch.next
    if (branch === undefined) {
      branch = { thing, subtopic: copyOf(subtopic), protocol: copyOf(protocol), names: new Map(), next: thing.branches.get(subtopic) }
      thing.branches.set(branch.subtopic, branch)
      bytes += 300 + subtopic.length + protocol.length
    }
    return branch
  }

  /** What is not in the first half. */
  function seriesOf(branch: Branch, name: string, unit: string | undefined): Series {
    const { thing, subtopic, protocol } = branch
    let names = unnumbered.get(branch)
    const found = seriesIn(names, name, unit)
    if (found !== undefined) return found
    // Not kept, since each may be large.
    if (!isKey([thing.publisher, subtopic, protocol, name, unit ?? '']))
      return { wanted: thing.rest.wanted, of: thing.channel, branch, unit, number: none, next: undefined }
    const key = copyOf(name)
    const wanted = { ...thing.rest.wanted, subtopic, protocol, name: key, unit: unit === undefined ? undefined : copyOf(unit) }
    const branchBefore = branchIn(older.get(thing.channel.channel)?.things.get(thing.publisher), subtopic, protocol)
    const number = seriesIn(branchBefore?.names, name, unit)?.number ?? unknown
    const series: Series = { wanted, of: thing.channel, branch, unit: wanted.unit, number, next: names?.get(key) }
    if (number !== unknown) keep(branch, series)
    else {
      if (names === undefined) unnumbered.set(branch, (names = new Map()))
      names.set(key, series)
      unnumberedBytes += bytesOf(series)
    }
    return series
  }

  function keep(branch: Branch, series: Series): void {
    const { wanted, of, unit, number } = series
    // Not spread, so that all have one shape.
    branch.names.set(wanted.name!, { wanted, of, branch, unit, number, next: branch.names.get(wanted.name!) })
    bytes += bytesOf(series)
  }

  /** The numbers, or what is missing of them. */
  function lookUp({ messages, records }: RecordBatch, rejected: Rejections['rejected']): RecordNumbers | Set<Series> {
    const message = new Uint32Array(messages.length)
    const start = new Uint32Array(messages.length)
    const end = new Uint32Array(messages.length)
    const channel = new Int32Array(messages.length)
    const series = new Int32Array(records.length)
    const missing = new Set<Series>()
    let length = 0
    let current = -1
    let isRefused = false
    let branch: Branch | undefined
    for (let at = 0; at < records.length; at++) {
      if (records.message[at] !== current) {
        current = records.message[at]!
        if (messages.outcome[current] !== Outcome.stored) throw new RangeError(`message ${current} has rows and is not to be stored`)
        const refusal = longIdentifiers(messages, current, senmlFormat, identifiersBytesMax)
        isRefused = refusal !== undefined
        if (refusal !== undefined) rejected.set(current, { message: current, ...refusal })
        else {
          branch = branchOf(messages, current, branch)
          message[length] = current
          start[length] = at
          channel[length] = branch.thing.channel.number
          length++
        }
      }
      if (isRefused) continue
      end[length - 1] = at + 1
      const unit = records.unit[at]
      let found = branch!.names.get(records.name[at]!)
      while (found !== undefined && found.unit !== unit) found = found.next
      found ??= seriesOf(branch!, records.name[at]!, unit)
      if (found.number === none) {
        found = branch!.thing.rest
        series[at] = -found.number
      } else series[at] = found.number
      if (found.number === unknown) missing.add(found)
    }
    return missing.size > 0 ? missing : { length, message, start, end, channel, series, state }
  }

  async function add(missing: Set<Series>, signal: AbortSignal): Promise<void> {
    const all = [...missing]
    for (let from = 0; from < all.length; from += lookedUpAtOnce) {
      const some = all.slice(from, from + lookedUpAtOnce)
      const before = dropped
      const found = await find(
        some.map(({ wanted }) => wanted),
        signal,
      )
      if (dropped !== before) return
      if (state !== undefined && state.generation !== found.generation) {
        forget()
        return
      }
      for (const [nth, series] of some.entries()) {
        const own = found.series[nth]
        series.number = own?.id ?? none
        if (own === undefined) continue
        series.of.number = own.channel
        if (series.branch !== undefined) keep(series.branch, series)
        if (state === undefined || own.id > state.witness)
          state = { generation: found.generation, witness: own.id, witnessAddedUs: own.addedUs }
      }
    }
  }

  return {
    known(batch, rejected) {
      const numbers = lookUp(batch, rejected)
      return numbers instanceof Set ? undefined : numbers
    },

    async resolved(batch, rejected, signal) {
      if (bytes > bytesMax / 2) startHalf()
      if (unnumberedBytes > bytesMax / 8) dropUnnumbered()
      for (;;) {
        const numbers = lookUp(batch, rejected)
        if (!(numbers instanceof Set)) return numbers
        await add(numbers, signal)
      }
    },

    forget,
  }
}

function branchIn(thing: Thing | undefined, subtopic: string, protocol: string): Branch | undefined {
  let branch = thing?.branches.get(subtopic)
  while (branch !== undefined && branch.protocol !== protocol) branch = branch.next
  return branch
}

function seriesIn(names: ReadonlyMap<string, Series> | undefined, name: string, unit: string | undefined): Series | undefined {
  let series = names?.get(name)
  while (series !== undefined && series.unit !== unit) series = series.next
  return series
}

function bytesOf({ wanted: { name, unit } }: Series): number {
  return 250 + name!.length + (unit?.length ?? 0)
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

/** Part of a text keeps all of it in memory, and a name is part of a message. */
function copyOf(text: string): string {
  return Buffer.from(text).toString()
}
