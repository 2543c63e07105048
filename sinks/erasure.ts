// The contract of an erasure, which deletes rows for good, and the note of it, by which `verify`, `trace` and replays know what was erased. A retention
// leaves such notes too.

import { createHash } from 'node:crypto'
import { canonicalId } from '../transformers/uuid.ts'

/** Which rows are erased: those that meet all given conditions, of which there is at least one. */
export interface ErasureFilter {
  /** As it is stored: a UUID in lower case. */
  readonly channel?: string
  /** As it is stored. */
  readonly publisher?: string
  /** `messages` for SenML. */
  readonly format?: string
  /** Whole milliseconds since 1970: rows with an earlier time, which is `time` of records and `created` of documents. */
  readonly beforeMs?: number
}

/** What was erased, without its contents. */
export interface Erasure extends ErasureFilter {
  /** A UUID. */
  readonly id: string
  readonly startedMs: number
  /** Absent while it runs, and after it was killed: running it again goes on with it. */
  readonly endedMs?: number
  /** Without those that a killed run deleted. */
  readonly rows: number
  readonly deadLetters: number
  /** Which messages it may have taken rows of; empty until it has ended. Of logs that are not here it says nothing. */
  readonly logs: readonly ErasedLog[]
  /** It is a retention, which deletes such rows of all logs at any time: `beforeMs` is how far it has come. It counts no rows. */
  readonly retention?: true
}

export interface ErasedLog {
  /** The log's number in the store. */
  readonly number: number
  /** The id of its topic: numbers of logs are used again. */
  readonly id: string
  /** By partition. */
  readonly partitions: Readonly<Record<string, ErasedOffsets>>
}

export interface ErasedOffsets {
  /** Messages below were stored before it began: no row of theirs that meets the conditions may be left. 0 if it failed. */
  readonly stored: number
  /** Messages below may have been stored before it ended: rows of theirs that meet the conditions may be missing. */
  readonly reached: number
}

/** Called after each step with the number of rows that it has deleted. */
export type OnErased = (rows: number) => Promise<void>

/**
 * Erases rows of one store. It may run beside any number of writers and readers.
 *
 * Only rows are deleted: SenML records and JSON documents of all logs and writers that meet the conditions. Positions, offsets, counts, notes of replays
 * and numbers of logs stay: they keep a writer or a replay from storing an erased message again, and hold no content. So do the names of channels,
 * publishers, series and formats that a store keeps beside its rows.
 *
 * Every method throws the errors of the store's driver.
 */
export interface StoreErasure {
  /** The rows that `erase` would delete, by format (`messages` for SenML), without formats that have none. May take as long as reading them. */
  count(filter: ErasureFilter, signal: AbortSignal): Promise<ReadonlyMap<string, number>>

  /**
   * Deletes every row that the store has at the time of the call and that meets the conditions; one that is written meanwhile may be deleted or stay.
   *
   * It deletes in steps of bounded size, none of which holds up a writer for long. What a step has deleted stays deleted if a later one fails or the
   * signal aborts; another call deletes the rest.
   *
   * @returns the number of rows deleted
   */
  erase(filter: ErasureFilter, signal: AbortSignal, onErased: OnErased): Promise<number>

  /** Adds the note of an erasure, or replaces the one with its id. `StoreAudit.erasures` reads it. */
  note(erasure: Erasure): Promise<void>

  close(): Promise<void>
}

/** By which times rows of one message are erased. */
export interface ErasedTimes {
  /** Microseconds since 1970: rows with an earlier time may be missing. */
  readonly missingBelowUs: number
  /** Rows with an earlier time must be missing. */
  readonly goneBelowUs: number
  /** The last one that reaches the message: of a retention, how far it has come counts. */
  readonly erasure: Erasure
}

/** What was erased of one log. */
export interface ErasedMessages {
  /**
   * Undefined for a message that no erasure reaches.
   *
   * @param format of its rows; undefined if it is not known: then it may be any
   */
  of(
    message: { readonly channel: string; readonly publisher: string },
    partition: number,
    offset: number,
    format: string | undefined,
  ): ErasedTimes | undefined
}

/** @param log with its number in the store */
export function erasedMessages(erasures: readonly Erasure[], log: Pick<ErasedLog, 'number' | 'id'>): ErasedMessages {
  const byOrigin = Map.groupBy(erasures, ({ channel, publisher }) => originKey(channel, publisher))

  function ranges(erasure: Erasure, partition: number): ErasedOffsets {
    // It may have taken anything while it runs.
    if (erasure.endedMs === undefined || erasure.retention === true) return { stored: 0, reached: Number.POSITIVE_INFINITY }
    const own = erasure.logs.find(({ number, id }) => number === log.number && id === log.id)
    return own?.partitions[String(partition)] ?? { stored: 0, reached: 0 }
  }

  return {
    of({ channel, publisher }, partition, offset, format) {
      if (byOrigin.size === 0) return undefined
      let times: ErasedTimes | undefined
      const origins = [originKey(channel, publisher), originKey(channel, undefined), originKey(undefined, publisher), originKey()]
      for (const erasure of origins.flatMap(key => byOrigin.get(key) ?? [])) {
        const { stored, reached } = ranges(erasure, partition)
        if (offset >= reached || (erasure.format !== undefined && format !== undefined && erasure.format !== format)) continue
        const belowUs = erasure.beforeMs === undefined ? Number.POSITIVE_INFINITY : erasure.beforeMs * 1000
        const { missingBelowUs = Number.NEGATIVE_INFINITY, goneBelowUs = Number.NEGATIVE_INFINITY } = times ?? {}
        times = {
          missingBelowUs: Math.max(missingBelowUs, belowUs),
          goneBelowUs: offset < stored ? Math.max(goneBelowUs, belowUs) : goneBelowUs,
          erasure: times === undefined || latestMs(times.erasure) < latestMs(erasure) ? erasure : times.erasure,
        }
      }
      return times
    },
  }
}

function latestMs({ retention, beforeMs = 0, startedMs }: Erasure): number {
  return retention === true ? beforeMs : startedMs
}

/** No text of a device has a NUL. */
function originKey(channel = '\0', publisher = '\0'): string {
  return `${channel}\0${publisher}`
}

/** As stores keep it. */
export function erasureText(erasure: Erasure): string {
  return JSON.stringify(erasure)
}

/** @param texts of `erasureText`, in any order */
export function erasuresIn(texts: readonly string[]): Erasure[] {
  return texts.map(text => JSON.parse(text) as Erasure).sort((one, other) => one.startedMs - other.startedMs)
}

/** How long a store keeps rows: all of them, and those of some channels and formats for a shorter time. The shortest counts. */
export interface RetentionOptions {
  /** 0 or absent: without end. A store has days or months, from whose start on it keeps rows. */
  readonly retentionDays?: number
  readonly retentionMonths?: number
  /** `<channel>:<days>`: the days are kept besides the current one (UTC). */
  readonly retentionChannels?: readonly string[]
  /** `<format>:<days>` */
  readonly retentionFormats?: readonly string[]
}

/** An entry of `retentionChannels` or `retentionFormats`. */
export interface KeptDays {
  readonly channel?: string
  readonly format?: string
  readonly days: number
}

export function keptDaysOf({ retentionChannels = [], retentionFormats = [] }: RetentionOptions): KeptDays[] {
  const nameEnd = (entry: string): number => entry.lastIndexOf(':')
  const nameIn = (entry: string): string => entry.slice(0, nameEnd(entry))
  const daysIn = (entry: string): number => Number(entry.slice(nameEnd(entry) + 1))
  return [
    ...retentionChannels.map(entry => ({ channel: canonicalId(nameIn(entry)), days: daysIn(entry) })),
    ...retentionFormats.map(entry => ({ format: nameIn(entry), days: daysIn(entry) })),
  ]
}

const dayMs = 86_400_000

export interface RetentionNote extends Erasure {
  readonly beforeMs: number
}

/**
 * The notes of what the options let go by now: of the store if it has a retention, then of channels and formats. Each is written before rows are deleted
 * by it, and stays when the options change, since what was deleted stays deleted.
 *
 * @param storeBeforeMs what is older is deleted of all channels and formats; undefined if the store keeps everything
 */
export function retentionNotes(options: RetentionOptions, nowMs: number, storeBeforeMs?: number): RetentionNote[] {
  const { retentionDays = 0, retentionMonths = 0 } = options
  const note = (filter: Pick<RetentionNote, 'channel' | 'format' | 'beforeMs'>, kept: string): RetentionNote => {
    const hash = createHash('sha256')
      .update(JSON.stringify([filter.channel, filter.format, kept]))
      .digest('hex')
    const id = hash.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
    return { ...filter, id, startedMs: nowMs, endedMs: nowMs, rows: 0, deadLetters: 0, logs: [], retention: true }
  }
  const store = storeBeforeMs === undefined ? [] : [note({ beforeMs: storeBeforeMs }, `${retentionDays} days, ${retentionMonths} months`)]
  const today = Math.floor(nowMs / dayMs)
  return [
    ...store,
    ...keptDaysOf(options).map(({ days, ...filter }) => note({ ...filter, beforeMs: (today - days) * dayMs }, `${days} days`)),
  ]
}

/** How many days besides the current one are kept; infinity if all are. */
export type DaysKept = (channel: string, format: string) => number

export function daysKeptBy(options: RetentionOptions): DaysKept {
  const storeDays = options.retentionDays || Number.POSITIVE_INFINITY
  const channels = new Map<string | undefined, number>()
  const formats = new Map<string | undefined, number>()
  for (const { channel, format, days } of keptDaysOf(options)) (channel === undefined ? formats : channels).set(channel ?? format, days)
  return (channel, format) => Math.min(storeDays, channels.get(channel) ?? storeDays, formats.get(format) ?? storeDays)
}
