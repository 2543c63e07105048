// Which channel and which publisher have rows on which day. The days of a batch are written before its rows, and remembered once the rows are
// durable; they are deleted with the rows when the retention ends.
//
// A batch keeps all its days, as objects that all batches share. Which of them have to be written is decided at the time of the write: a batch whose
// write fails may be retried for days, and days that were known when it was encoded may have been deleted since. Usually a row costs two comparisons.
// A day here is the first day of its bucket.

import { type DaysKept, daysKeptBy } from '../erasure.ts'
import type { Connection } from './connection.ts'
import { isSchemaFault } from './errors.ts'
import type { SinkOptions } from './options.ts'

export const dayMs = 86_400_000
/** Days this close to the end of the retention are not remembered: another process, with another clock, may be about to delete them. */
const marginDays = 3

/** A row of sluice_publisher_days, for which there is also one of sluice_channel_days. `day` counts from 1970-01-01. */
export interface NotedDay {
  readonly channel: string
  readonly publisher: string
  readonly format: string
  readonly day: number
}

/** A day, and whether it is in the tables. */
interface KnownDay extends NotedDay {
  /** The generation in which it was written: while that is the current one, the day is surely in the tables. */
  writtenIn: number
  /** The last batch that has this day. */
  notedIn: number
}

interface State {
  /** Increases when all days are forgotten. */
  generation: number
  /** The number of the batch that is being encoded. */
  batch: number
  /** The number of days, and of publishers of channels, in memory. */
  held: number
}

/** The days of one publisher in one channel and format. */
export class DaysOfPublisher {
  readonly channel: string
  readonly publisher: string
  readonly format: string
  readonly #state: State
  readonly #known = new Map<number, KnownDay>()
  /** The day found last, since rows come in order of time. */
  #latest: KnownDay | undefined

  constructor(channel: string, publisher: string, format: string, state: State) {
    this.channel = channel
    this.publisher = publisher
    this.format = format
    this.#state = state
  }

  /** Adds a row's day to `days`, the list of the whole batch, unless it is in it already. */
  note(day: number, days: NotedDay[]): void {
    const latest = this.#latest
    const known = latest !== undefined && latest.day === day ? latest : this.#find(day)
    if (known.notedIn === this.#state.batch) return
    known.notedIn = this.#state.batch
    days.push(known)
  }

  #find(day: number): KnownDay {
    let known = this.#known.get(day)
    if (known === undefined) {
      const { channel, publisher, format } = this
      known = { channel, publisher, format, day, writtenIn: -1, notedIn: -1 }
      this.#known.set(day, known)
      this.#state.held++
    }
    this.#latest = known
    return known
  }
}

export interface DayRegistry {
  /** Called before each batch is encoded. */
  begin(): void
  of(channel: string, publisher: string, format: string): DaysOfPublisher
  /** Returns those of these days that may not be in the tables. The days must come from this object. */
  unwritten(days: readonly NotedDay[]): readonly NotedDay[]
  /** Records that these days are in the tables. The days must come from this object. */
  remember(days: readonly NotedDay[]): void
  /** Forgets all days, since the tables may have been replaced. Each is then written again, also the days of batches that are already encoded. */
  forget(): void
}

interface DayRegistryOptions {
  /** Beyond this number all days are forgotten, and written again. */
  readonly rememberedMax?: number
  /** The same as for `maintain`; absent if everything is kept. */
  readonly keptDays?: DaysKept
  readonly bucketDays?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

/** The first day of which anything is kept: buckets that end before it are deleted. Minus infinity if everything is kept. */
export function oldestKeptDay(nowMs: number, keptDays: number): number {
  return Math.floor(nowMs / dayMs) - keptDays
}

export function openDayRegistry({
  rememberedMax = 200_000,
  keptDays = () => Number.POSITIVE_INFINITY,
  bucketDays = 1,
  now = Date.now,
}: DayRegistryOptions = {}): DayRegistry {
  const formats = new Map<string, Map<string, Map<string, DaysOfPublisher>>>()
  const state: State = { generation: 0, batch: 0, held: 0 }
  let today = oldestKeptDay(now(), 0)

  function forget(): void {
    formats.clear()
    state.held = 0
    state.generation++
  }

  /** Days may have been deleted since the retention moved on, which it does with each day. */
  function forgetOld(): void {
    const day = oldestKeptDay(now(), 0)
    if (day === today) return
    today = day
    forget()
  }

  return {
    begin() {
      state.batch++
      // Days whose rows never become durable also take memory, so they must not accumulate.
      if (state.held > rememberedMax) forget()
      forgetOld()
    },
    of(channel, publisher, format) {
      let channels = formats.get(format)
      if (channels === undefined) formats.set(format, (channels = new Map()))
      let publishers = channels.get(channel)
      if (publishers === undefined) channels.set(channel, (publishers = new Map()))
      let days = publishers.get(publisher)
      if (days === undefined) {
        publishers.set(publisher, (days = new DaysOfPublisher(channel, publisher, format, state)))
        state.held++
      }
      return days
    },
    unwritten(days) {
      forgetOld()
      return days.filter(day => (day as KnownDay).writtenIn !== state.generation)
    },
    remember(days) {
      for (const day of days) {
        const oldestDay = today - keptDays(day.channel, day.format)
        if (day.day + bucketDays - 1 >= oldestDay + marginDays) (day as KnownDay).writtenIn = state.generation
      }
    },
    forget,
  }
}

/** CQL's dates are an unsigned 32-bit number of days, where 2^31 is 1970-01-01. */
const origin = 0x8000_0000

/** @param day since 1970-01-01 */
export function dateBytes(day: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(day + origin)
  return bytes
}

/** Converts a date, as the driver returns it, to days since 1970-01-01. */
export function dayOfDate(date: { toBuffer(): Buffer }): number {
  return date.toBuffer().readUInt32BE() - origin
}

/**
 * Deletes the partitions of days that are no longer kept, each by one tombstone. A time to live would not do: it counts from the write, so a row that
 * comes late would outlive the others of its day. All deletes have the same timestamp, so rows that come later, and their days, stay until the next
 * call.
 */
export async function deleteOldDays(connection: Connection, sinkOptions: SinkOptions, nowMs = Date.now()): Promise<void> {
  const keptDays = daysKeptBy(sinkOptions)
  /** A bucket is deleted when all its days are old. Empty, which is before each date, if all are kept. */
  const beforeOf: BeforeOf = (channel, format) => {
    const days = keptDays(channel as string, format as string)
    return days === Number.POSITIVE_INFINITY ? '' : dateOf(oldestKeptDay(nowMs, days) - sinkOptions.bucketDays + 1)
  }
  const channelDays = connection.table('sluice_channel_days')
  const options = { consistency: connection.levels.rows, timestamp: nowMs * 1000 }
  const names = new Map<string, string>([['messages', connection.table('messages')]])
  for await (const rows of connection.pages(`SELECT format, table_name FROM ${connection.table('sluice_formats')}`)) {
    for (const row of rows) names.set(row['format'] as string, connection.table(row['table_name'] as string))
  }
  // The oldest day of each channel comes first, so a channel without old days costs one row.
  const oldest = `SELECT channel, format, day FROM ${channelDays} PER PARTITION LIMIT 1`
  for await (const rows of connection.pages(oldest)) {
    for (const { channel, format, day } of rows) {
      const before = beforeOf(channel, format)
      if (String(day) >= before) continue
      const table = names.get(format as string)
      const days = connection.pages(`SELECT day FROM ${channelDays} WHERE channel = ? AND format = ? AND day < ?`, [
        channel,
        format,
        before,
      ])
      for await (const some of days) {
        for (const { day } of some) if (table !== undefined) await deletePartition(connection, table, channel, day, options)
      }
      // Only after the rows: a day that has rows must always be listed.
      await connection.query(`DELETE FROM ${channelDays} WHERE channel = ? AND format = ? AND day < ?`, [channel, format, before], options)
    }
  }
  await deletePublisherDays(connection, beforeOf, options)
}

/** The date before which days are deleted. */
type BeforeOf = (channel: unknown, format: unknown) => string

async function deletePartition(
  connection: Connection,
  table: string,
  channel: unknown,
  day: unknown,
  options: { consistency: number; timestamp: number },
): Promise<void> {
  try {
    await connection.query(`DELETE FROM ${table} WHERE channel = ? AND day = ?`, [channel, day], options)
  } catch (error) {
    // The table of a format that an operator dropped has nothing to delete.
    if (!isSchemaFault(error)) throw error
  }
}

async function deletePublisherDays(
  connection: Connection,
  beforeOf: BeforeOf,
  options: { consistency: number; timestamp: number },
): Promise<void> {
  const table = connection.table('sluice_publisher_days')
  const remove = `DELETE FROM ${table} WHERE channel = ? AND publisher = ? AND format = ? AND day < ?`
  let last = ''
  for await (const rows of connection.pages(`SELECT channel, publisher, format, day FROM ${table}`)) {
    for (const { channel, publisher, format, day } of rows) {
      const before = beforeOf(channel, format)
      if (String(day) >= before) continue
      const key = JSON.stringify([channel, publisher, format])
      if (key === last) continue
      last = key
      await connection.query(remove, [channel, publisher, format, before], options)
    }
  }
}

/** `2026-03-01` */
function dateOf(day: number): string {
  return new Date(day * dayMs).toISOString().slice(0, 10)
}
