// Erases rows of a Cassandra store, day by day of a channel: all of a day, those before a time, or those of one publisher, for which it reads the day.
//
// The days stay noted, since writers do not note a day again that they have in memory.

import { eachAtOnce } from '../../config/each-at-once.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { ErasureFilter, OnErased, StoreErasure } from '../erasure.ts'
import type { Connection, Row } from './connection.ts'
import { dayMs, dayOfDate } from './day-registry.ts'
import { isSchemaFault } from './errors.ts'
import { messagesTable, noteErasure } from './schema.ts'

/** Rows of a publisher are deleted at once only if they were written so long ago: clocks of machines differ by less. */
const settledMs = 600_000
const deletesAtOnce = 32

/** The rows of a format, a channel and a day that meet the conditions, except for the publisher. */
interface Bucket {
  readonly format: string
  /** Quoted, with its keyspace. */
  readonly table: string
  readonly time: 'time_us' | 'created'
  readonly condition: string
  readonly values: readonly unknown[]
}

/** @param nowMs milliseconds since 1970 */
export function openErasure(connection: Connection, nowMs: () => number = Date.now): StoreErasure {
  const atRows = { consistency: connection.levels.rows }

  return {
    async count(filter, signal) {
      const counts = new Map<string, number>()
      await eachBucket(filter, signal, async bucket => {
        const rows = await countRows(bucket, filter.publisher, signal)
        if (rows > 0) counts.set(bucket.format, (counts.get(bucket.format) ?? 0) + rows)
      })
      return counts
    },

    async erase(filter, signal, onErased) {
      const { publisher } = filter
      let erased = 0
      const onRows: OnErased = async rows => {
        erased += rows
        await onErased(rows)
      }
      await eachBucket(filter, signal, async bucket => {
        if (publisher !== undefined) return erasePublisher(bucket, publisher, signal, onRows)
        const rows = await countRows(bucket, undefined, signal)
        if (rows === 0) return
        await connection.query(`DELETE FROM ${bucket.table} WHERE ${bucket.condition}`, bucket.values, atRows)
        await onRows(rows)
      })
      return erased
    },

    note: erasure => noteErasure(connection, erasure),

    close: () => connection.close(),
  }

  async function eachBucket(filter: ErasureFilter, signal: AbortSignal, work: (bucket: Bucket) => Promise<void>): Promise<void> {
    for await (const bucket of bucketsOf(filter)) {
      signal.throwIfAborted()
      try {
        await work(bucket)
      } catch (error) {
        // The table of a format that an operator dropped has no rows.
        if (bucket.format === senmlFormat || !isSchemaFault(error)) throw error
      }
    }
  }

  async function* bucketsOf({ channel, publisher, format: onlyFormat, beforeMs }: ErasureFilter): AsyncGenerator<Bucket> {
    const tables = new Map([[senmlFormat, messagesTable.name]])
    for (const row of await connection.query(`SELECT format, table_name FROM ${connection.table('sluice_formats')}`)) {
      tables.set(row['format'] as string, row['table_name'] as string)
    }
    for await (const { format, day, channel: noted } of daysOf(channel, publisher, tables.keys())) {
      const name = tables.get(format as string)
      if (name === undefined || (onlyFormat !== undefined && format !== onlyFormat)) continue
      if (beforeMs !== undefined && dayOfDate(day as { toBuffer(): Buffer }) * dayMs >= beforeMs) continue
      const isRecord = format === senmlFormat
      const time = isRecord ? 'time_us' : 'created'
      const [before, ...bound] = beforeMs === undefined ? [''] : [` AND ${time} < ?`, BigInt(beforeMs) * (isRecord ? 1_000n : 1_000_000n)]
      const condition = `channel = ? AND day = ?${before}`
      yield { format: format as string, table: connection.table(name), time, condition, values: [noted, day, ...bound] }
    }
  }

  /** Rows of the registries of days: `channel`, `format` and `day`. */
  async function* daysOf(channel: string | undefined, publisher: string | undefined, formats: Iterable<string>): AsyncGenerator<Row> {
    const channelDays = connection.table('sluice_channel_days')
    const publisherDays = connection.table('sluice_publisher_days')
    if (publisher !== undefined) {
      for await (const each of channel === undefined ? channelsOf(publisher) : [channel]) {
        const days = `SELECT channel, format, day FROM ${publisherDays} WHERE channel = ? AND publisher = ?`
        for await (const rows of connection.pages(days, [each, publisher], atRows)) yield* rows
      }
    } else if (channel === undefined) {
      for await (const rows of connection.pages(`SELECT channel, format, day FROM ${channelDays}`, [], atRows)) yield* rows
    } else {
      const days = `SELECT channel, format, day FROM ${channelDays} WHERE channel = ? AND format = ?`
      for (const format of formats) for await (const rows of connection.pages(days, [channel, format], atRows)) yield* rows
    }
  }

  /** Reads one row for each publisher of each channel. */
  async function* channelsOf(publisher: string): AsyncGenerator<string> {
    const all = `SELECT DISTINCT channel, publisher FROM ${connection.table('sluice_publisher_days')}`
    for await (const rows of connection.pages(all, [], atRows)) {
      for (const row of rows) if (row['publisher'] === publisher) yield row['channel'] as string
    }
  }

  async function countRows({ table, condition, values }: Bucket, publisher: string | undefined, signal: AbortSignal): Promise<number> {
    let found = 0
    const select = `SELECT "index"${publisher === undefined ? '' : ', publisher'} FROM ${table} WHERE ${condition}`
    for await (const rows of connection.pages(select, values, atRows)) {
      signal.throwIfAborted()
      found += publisher === undefined ? rows.length : rows.filter(row => row['publisher'] === publisher).length
    }
    return found
  }

  /**
   * Rows that follow each other are deleted by one tombstone: one for each row would make the day unreadable from 100,000 on. It has the time of the last
   * write of these rows, so that it cannot take a row of another publisher that is written between them meanwhile.
   */
  async function erasePublisher(bucket: Bucket, publisher: string, signal: AbortSignal, onRows: OnErased): Promise<void> {
    const { table, time, condition, values } = bucket
    const select = `SELECT ${time}, position, "index", publisher, writetime(protocol) AS written FROM ${table} WHERE ${condition}`
    const key = `(${time}, position, "index")`
    const [channel, day] = values
    const inBucket = `DELETE FROM ${table} WHERE channel = ? AND day = ?`
    for await (const rows of connection.pages(select, values, atRows)) {
      signal.throwIfAborted()
      const runs = runsOf(rows, publisher)
      await eachAtOnce(runs, deletesAtOnce, async run => {
        const written = run.reduce((latest, row) => Math.max(latest, Number(row['written'])), 0)
        if (run.length > 1 && written < (nowMs() - settledMs) * 1000) {
          // The newest come first.
          const ends = [run.at(-1)!, run[0]!].flatMap(row => [row[time], row['position'], row['index']])
          const between = `${inBucket} AND ${key} >= (?, ?, ?) AND ${key} <= (?, ?, ?)`
          await connection.query(between, [channel, day, ...ends], { ...atRows, timestamp: written })
          return
        }
        for (const row of run) {
          const isIt = `${inBucket} AND ${time} = ? AND position = ? AND "index" = ?`
          await connection.query(isIt, [channel, day, row[time], row['position'], row['index']], atRows)
        }
      })
      const erased = runs.reduce((sum, run) => sum + run.length, 0)
      if (erased > 0) await onRows(erased)
    }
  }
}

/** The rows of a publisher, those together that follow each other. */
function runsOf(rows: readonly Row[], publisher: string): Row[][] {
  const runs: Row[][] = []
  let run: Row[] | undefined
  for (const row of rows) {
    if (row['publisher'] !== publisher) run = undefined
    else if (run === undefined) runs.push((run = [row]))
    else run.push(row)
  }
  return runs
}
