// Erases rows of a PostgreSQL store: along an index by time, some at once; and whole months where only a time is given. The retention of channels and
// formats deletes by it too.

import type { Database, SqlValue, Transaction } from '../../database/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { type ErasureFilter, erasureText, type OnErased, type StoreErasure } from '../erasure.ts'
import { denied, isAnswer, lockTimeout, missingTable } from './errors.ts'
import { attachedMonths, dropMonths, type MonthlyTable, monthlyTables, monthStart, startOfMonth } from './months.ts'
import { publisherKey, rowTables } from './registry.ts'

/** How many rows one transaction deletes: the embedded database runs nothing beside it. */
const rowsAtOnce = { server: 5_000, embedded: 1_000 }
/** How many rows one statement counts. */
const countedAtOnce = 50_000
/** The rows of how many series one statement counts. */
const seriesAtOnce = 1_000
const channelsAtOnce = 1_000

/** Rows of one table that an index has in the order of their times. */
interface Walk {
  readonly format: string
  /** Quoted, with its schema. */
  readonly table: string
  /** The column of its times, and a type for its values. */
  readonly time: 'time' | 'created'
  readonly type: 'timestamptz' | 'bigint'
  /** What begins the index, with the values as $1 and so on. */
  readonly condition: string
  readonly values: readonly SqlValue[]
}

/** @param database opened without a statement timeout where it is a server, since counting may take long */
export function openErasure(database: Database): StoreErasure {
  return {
    async count(filter, signal) {
      const counts = new Map<string, number>()
      for await (const series of countedSeries(filter, signal)) add(counts, senmlFormat, sumOf(series))
      for await (const walk of walksOf(database, filter)) {
        for await (const rows of along(walk, filter.beforeMs, signal, 'SELECT')) add(counts, walk.format, rows)
      }
      if (isBeforeAlone(filter)) {
        for (const { format, table } of await rowTables(database)) {
          const time = format === senmlFormat ? 'time' : 'created'
          const sql = `SELECT count(*) AS rows FROM ${table} WHERE ${time} < ${boundOf(time, filter.beforeMs)}`
          add(counts, format, rowsIn(await database.query(sql, [], { signal })))
        }
      }
      return counts
    },

    async erase(filter, signal, onErased) {
      if (isBeforeAlone(filter)) return eraseBefore(filter.beforeMs, signal, onErased)
      const { beforeMs } = filter
      let erased = 0
      for await (const series of countedSeries(filter, signal)) erased += await eraseSeries(series, beforeMs, signal, onErased)
      for await (const walk of walksOf(database, filter)) erased += await eraseAlong(walk, beforeMs, signal, onErased)
      return erased
    },

    async note(erasure) {
      await database.query(
        'INSERT INTO sluice.erasures (id, erasure) VALUES ($1::uuid, $2::jsonb) ON CONFLICT (id) DO UPDATE SET erasure = excluded.erasure',
        [erasure.id, erasureText(erasure)],
      )
    },

    close: async () => undefined,
  }

  /** The series of a publisher that have rows which meet the conditions, a piece at a time. */
  async function* countedSeries(filter: ErasureFilter, signal: AbortSignal): AsyncGenerator<CountedSeries[]> {
    const { channel, publisher, beforeMs } = filter
    if (publisher === undefined || !isWanted(filter, senmlFormat)) return
    const inChannel = channel === undefined ? '' : ' AND channel = (SELECT id FROM sluice.channels WHERE channels.channel = $2)'
    const values = channel === undefined ? [publisher] : [publisher, channel]
    const known = await database.query<{ id: number }>(`SELECT id FROM sluice.series WHERE publisher = $1${inChannel} ORDER BY id`, values)
    const before = beforeMs === undefined ? '' : ` AND time < ${boundOf('time', beforeMs)}`
    for (let start = 0; start < known.length; start += seriesAtOnce) {
      const ids = known.slice(start, start + seriesAtOnce).map(({ id }) => id)
      const counted = await database.transaction(async transaction => {
        await transaction.execute(byIndex)
        return await transaction.query<{ series: number; rows: bigint }>(
          `SELECT series, count(*) AS rows FROM sluice.records WHERE series = ANY ($1::int[])${before} GROUP BY series`,
          [ids],
        )
      }, signal)
      if (counted.length > 0) yield counted.map(({ series, rows }) => ({ series, rows: Number(rows) }))
    }
  }

  /** Many with few rows at once, and each with many step by step. */
  async function eraseSeries(
    series: readonly CountedSeries[],
    beforeMs: number | undefined,
    signal: AbortSignal,
    onErased: OnErased,
  ): Promise<number> {
    const rowsMax = rowsAtOnce[database.kind]
    const before = beforeMs === undefined ? '' : ` AND time < ${boundOf('time', beforeMs)}`
    let erased = 0
    for (const some of groupsOf(series, rowsMax)) {
      if (sumOf(some) > rowsMax) {
        erased += await eraseAlong({ ...byTime, condition: 'series = $1', values: [some[0]!.series] }, beforeMs, signal, onErased)
        continue
      }
      signal.throwIfAborted()
      const ids = some.map(one => one.series)
      const rows = await database.transaction(async transaction => {
        await erasing(transaction)
        return rowsIn(await transaction.query(deleteSql('sluice.records', `series = ANY ($1::int[])${before}`), [ids]))
      }, signal)
      erased += rows
      await onErased(rows)
    }
    return erased
  }

  async function eraseAlong(walk: Walk, beforeMs: number | undefined, signal: AbortSignal, onErased: OnErased): Promise<number> {
    let erased = 0
    for await (const rows of along(walk, beforeMs, signal, 'DELETE')) {
      erased += rows
      await onErased(rows)
    }
    return erased
  }

  /** Step by step, each from where the one before ended: the index entries of deleted rows stay until a VACUUM, and would be passed again. */
  async function* along(
    { table, time, type, condition, values }: Walk,
    beforeMs: number | undefined,
    signal: AbortSignal,
    what: 'SELECT' | 'DELETE',
  ): AsyncGenerator<number> {
    const before = beforeMs === undefined ? '' : ` AND ${time} < ${boundOf(time, beforeMs)}`
    const rowsMax = what === 'DELETE' ? rowsAtOnce[database.kind] : countedAtOnce
    for (let last: string | undefined; ; ) {
      signal.throwIfAborted()
      const from = last === undefined ? values : [...values, last]
      const rest = `${condition}${before}${last === undefined ? '' : ` AND ${time} > $${from.length}::${type}`}`
      const step = await database.transaction(async transaction => {
        await (what === 'DELETE' ? erasing(transaction) : transaction.execute(byIndex))
        const [end] = await transaction.query<{ last: string | null }>(
          `SELECT max(${time})::text AS last FROM (SELECT ${time} FROM ${table} AS rows WHERE ${rest} ORDER BY ${time} LIMIT ${rowsMax}) AS step`,
          from,
        )
        if (end === undefined || end.last === null) return undefined
        const upTo = `${rest} AND ${time} <= $${from.length + 1}::${type}`
        const sql = what === 'DELETE' ? deleteSql(table, upTo) : `SELECT count(*) AS rows FROM ${table} AS rows WHERE ${upTo}`
        return { last: end.last, rows: rowsIn(await transaction.query(sql, [...from, end.last])) }
      }, signal)
      if (step === undefined) return
      last = step.last
      yield step.rows
    }
  }

  /** Months that end before are dropped; the rest is read page by page, since there is no index by time alone. */
  async function eraseBefore(beforeMs: number, signal: AbortSignal, onErased: OnErased): Promise<number> {
    const keep = monthStart(new Date(beforeMs), 0)
    const attached = await attachedMonths(database)
    let erased = 0
    const onRows: OnErased = async rows => {
      erased += rows
      await onErased(rows)
    }
    for (const table of await monthlyTables(database)) {
      const isOld = `${table.column} < '${table.boundOf(new Date(beforeMs))}'`
      const months = attached.filter(name => startOfMonth(table, name) < beforeMs)
      for (const name of months) {
        signal.throwIfAborted()
        const isWhole = startOfMonth(table, name) < keep.getTime()
        try {
          if (isWhole && (await dropMonth(table, name, keep, onRows))) continue
          await deleteRows(database, `sluice.${name}`, isOld, { signal, onRows })
        } catch (error) {
          // The retention, or another erasure, has dropped it meanwhile.
          if (!isAnswer(error, missingTable)) throw error
        }
      }
      await deleteRows(database, `sluice.${table.prefix}_default`, isOld, { signal, onRows })
    }
    return erased
  }

  /** Returns false if the role may not drop it, or something holds a lock. */
  async function dropMonth(table: MonthlyTable, name: string, keep: Date, onRows: OnErased): Promise<boolean> {
    const rows = rowsIn(await database.query(`SELECT count(*) AS rows FROM sluice.${name}`))
    try {
      await dropMonths(database, table, [name], keep)
    } catch (error) {
      if (isAnswer(error, denied) || isAnswer(error, lockTimeout)) return false
      throw error
    }
    await onRows(rows)
    return true
  }
}

/** The index by time has the rows in order, whatever the planner thinks of their number. */
const byIndex = 'SET LOCAL enable_seqscan = off; SET LOCAL jit = off'

/** One at a time, and not beside the retention: two that delete the same rows in different orders would deadlock. */
async function erasing(transaction: Transaction): Promise<void> {
  await transaction.execute(byIndex)
  await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.retention', 0))`)
}

function deleteSql(table: string, condition: string): string {
  return `WITH gone AS (DELETE FROM ${table} AS rows WHERE ${condition} RETURNING 1) SELECT count(*) AS rows FROM gone`
}

function rowsIn(rows: readonly Readonly<Record<string, unknown>>[]): number {
  return Number(rows[0]?.['rows'] ?? 0)
}

interface CountedSeries {
  readonly series: number
  readonly rows: number
}

function sumOf(series: readonly CountedSeries[]): number {
  return series.reduce((sum, { rows }) => sum + rows, 0)
}

/** Groups of at most so many rows, unless one series has more. */
function* groupsOf(series: readonly CountedSeries[], rowsMax: number): Generator<CountedSeries[]> {
  let group: CountedSeries[] = []
  for (const one of series) {
    if (group.length > 0 && sumOf(group) + one.rows > rowsMax) {
      yield group
      group = []
    }
    group.push(one)
  }
  if (group.length > 0) yield group
}

function add(counts: Map<string, number>, format: string, rows: number): void {
  if (rows > 0) counts.set(format, (counts.get(format) ?? 0) + rows)
}

const byTime = { format: senmlFormat, table: 'sluice.records', time: 'time', type: 'timestamptz' } as const

/** Of a publisher those of its documents only: its series are many. */
async function* walksOf(database: Database, filter: ErasureFilter): AsyncGenerator<Walk> {
  if (isBeforeAlone(filter)) return
  const { channel, publisher } = filter
  if (publisher === undefined && isWanted(filter, senmlFormat)) {
    for await (const id of channelNumbers(database, channel)) yield { ...byTime, condition: 'channel = $1', values: [id] }
  }
  for (const { format, table } of await rowTables(database)) {
    if (format === senmlFormat || !isWanted(filter, format)) continue
    const byCreated = { format, table, time: 'created', type: 'bigint' } as const
    const channels = channel === undefined ? channelsOf(database, table, publisher) : [channel]
    const [condition, ...more] = publisher === undefined ? ['channel = $1'] : [isPublisher('$1', '$2'), publisher]
    for await (const each of channels) yield { ...byCreated, condition, values: [each, ...more] }
  }
}

/** Of one channel or, a piece at a time, of all. */
async function* channelNumbers(database: Database, channel: string | undefined): AsyncGenerator<number> {
  const condition = channel === undefined ? '' : ' AND channel = $2'
  const sql = `SELECT id FROM sluice.channels WHERE id > $1${condition} ORDER BY id LIMIT ${channelsAtOnce}`
  for (let last = 0; ; ) {
    const some = await database.query<{ id: number }>(sql, channel === undefined ? [last] : [last, channel])
    for (const { id } of some) yield (last = id)
    if (some.length < channelsAtOnce) return
  }
}

/** No index has the rows in the order of their times alone. */
function isBeforeAlone(filter: ErasureFilter): filter is { readonly beforeMs: number } {
  return filter.channel === undefined && filter.publisher === undefined && filter.format === undefined && filter.beforeMs !== undefined
}

function isWanted(filter: ErasureFilter, format: string): boolean {
  return filter.format === undefined || filter.format === format
}

function isPublisher(channel: string, publisher: string): string {
  return `${publisherKey('rows.publisher', 'rows.channel')} = ${publisherKey(`${publisher}::text`, `${channel}::text`)} AND rows.channel = ${channel} AND rows.publisher = ${publisher}`
}

/** The channels that have documents of a format, or of one publisher: an index begins with the channel, so the next channel is a seek away. */
async function* channelsOf(database: Database, table: string, publisher: string | undefined): AsyncGenerator<string> {
  const isMeant = publisher === undefined ? '' : ` AND EXISTS (SELECT FROM ${table} AS rows WHERE ${isPublisher('known.channel', '$2')})`
  for (let last: string | undefined; ; ) {
    const found = await database.query<{ channel: string }>(
      `WITH RECURSIVE known AS (
         (SELECT channel FROM ${table} WHERE channel ${last === undefined ? '>=' : '>'} $1 ORDER BY channel LIMIT 1)
         UNION ALL
         SELECT (SELECT channel FROM ${table} WHERE channel > known.channel ORDER BY channel LIMIT 1) FROM known WHERE known.channel IS NOT NULL
       )
       SELECT channel FROM known WHERE channel IS NOT NULL${isMeant} LIMIT ${channelsAtOnce}`,
      [last ?? '', ...(publisher === undefined ? [] : [publisher])],
    )
    for (const { channel } of found) yield (last = channel)
    if (found.length < channelsAtOnce) return
  }
}

/** A time as SQL. */
function boundOf(time: Walk['time'], ms: number): string {
  return time === 'time' ? `'${new Date(ms).toISOString()}'::timestamptz` : String(BigInt(ms) * 1_000_000n)
}

/** How many pages of a table one statement reads, 2 MB, so that none runs or holds its locks for long. */
const pagesAtOnce = 256

interface Deleting {
  readonly signal?: AbortSignal
  /** Called after each statement with the number of rows that it has deleted. */
  readonly onRows?: (rows: number) => Promise<void>
}

/**
 * Reads the table once, page by page: there is no index for these conditions, and a search for the next rows to delete would pass over all those
 * already deleted. Rows that are written meanwhile are left to the next call.
 */
export async function deleteRows(database: Database, table: string, condition: string, { signal, onRows }: Deleting = {}): Promise<void> {
  const [size] = await database.query<{ pages: number }>(
    `SELECT (pg_relation_size('${table}') / current_setting('block_size')::int)::float8 AS pages`,
  )
  for (let page = 0; page < (size?.pages ?? 0); page += pagesAtOnce) {
    signal?.throwIfAborted()
    const deleting = `DELETE FROM ${table} WHERE ctid >= '(${page},0)'::tid AND ctid < '(${page + pagesAtOnce},0)'::tid AND ${condition}`
    const rows = await database.transaction(async transaction => {
      // One process at a time: two that delete the same rows in different orders would deadlock.
      await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.retention', 0))`)
      // Counting reads each deleted row once more.
      if (onRows === undefined) {
        await transaction.execute(deleting)
        return undefined
      }
      const [gone] = await transaction.query<{ rows: bigint }>(`WITH gone AS (${deleting} RETURNING 1) SELECT count(*) AS rows FROM gone`)
      return Number(gone!.rows)
    })
    if (rows !== undefined) await onRows?.(rows)
  }
}
