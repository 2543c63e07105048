// Erases rows of a PostgreSQL store: along an index by time, some at once; and whole months where only a time is given.

import type { Database, SqlValue, Transaction } from '../../database/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { type ErasureFilter, erasureText, type OnErased, type StoreErasure } from '../erasure.ts'
import { denied, isAnswer, lockTimeout } from './errors.ts'
import { attachedMonths, dropMonths, type MonthlyTable, monthlyTables, monthStart, startOfMonth } from './months.ts'
import { rowTables } from './registry.ts'
import { deleteRows, publisherKey } from './schema.ts'

/** How many rows one transaction deletes: the embedded database runs nothing beside it. */
const rowsAtOnce = { server: 5_000, embedded: 1_000 }

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
      for await (const { format, table, time, condition, values } of walksOf(database, filter)) {
        signal.throwIfAborted()
        const before = filter.beforeMs === undefined ? '' : ` AND ${time} < ${boundOf(time, filter.beforeMs)}`
        const sql = `SELECT count(*) AS rows FROM ${table} WHERE ${condition}${before}`
        const [found] = await database.query<{ rows: bigint }>(sql, values, { signal })
        const rows = Number(found?.rows ?? 0)
        if (rows > 0) counts.set(format, (counts.get(format) ?? 0) + rows)
      }
      return counts
    },

    async erase(filter, signal, onErased) {
      const { channel, publisher, beforeMs } = filter
      if (channel === undefined && publisher === undefined && beforeMs !== undefined) return eraseBefore(beforeMs, signal, onErased)
      let erased = 0
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

  /** Step by step, each from where the one before ended: the index entries of deleted rows stay until a VACUUM, and would be passed again. */
  async function eraseAlong(
    { table, time, type, condition, values }: Walk,
    beforeMs: number | undefined,
    signal: AbortSignal,
    onErased: OnErased,
  ): Promise<number> {
    const before = beforeMs === undefined ? '' : ` AND ${time} < ${boundOf(time, beforeMs)}`
    const next = `$${values.length + 1}::${type}`
    let erased = 0
    for (let last: string | undefined; ; ) {
      signal.throwIfAborted()
      const [behind, from]: [string, readonly SqlValue[]] =
        last === undefined ? ['', values] : [` AND ${time} > ${next}`, [...values, last]]
      const step = await database.transaction(async transaction => {
        await erasing(transaction)
        const [end] = await transaction.query<{ last: string | null }>(
          `SELECT max(${time})::text AS last
           FROM (SELECT ${time} FROM ${table} WHERE ${condition}${before}${behind} ORDER BY ${time} LIMIT ${rowsAtOnce[database.kind]}) AS step`,
          from,
        )
        if (end === undefined || end.last === null) return undefined
        const upTo = `${time} <= $${from.length + 1}::${type}`
        const [gone] = await transaction.query<{ rows: bigint }>(
          `WITH gone AS (DELETE FROM ${table} WHERE ${condition}${before}${behind} AND ${upTo} RETURNING 1) SELECT count(*) AS rows FROM gone`,
          [...from, end.last],
        )
        return { last: end.last, rows: Number(gone?.rows ?? 0) }
      }, signal)
      if (step === undefined) return erased
      last = step.last
      erased += step.rows
      await onErased(step.rows)
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
        if (isWhole && (await dropMonth(table, name, keep, onRows))) continue
        await deleteRows(database, `sluice.${name}`, isOld, { signal, onRows })
      }
      await deleteRows(database, `sluice.${table.prefix}_default`, isOld, { signal, onRows })
    }
    return erased
  }

  /** Returns false if the role may not drop it, or something holds a lock. */
  async function dropMonth(table: MonthlyTable, name: string, keep: Date, onRows: OnErased): Promise<boolean> {
    const [found] = await database.query<{ rows: bigint }>(`SELECT count(*) AS rows FROM sluice.${name}`)
    try {
      await dropMonths(database, table, [name], keep)
    } catch (error) {
      if (isAnswer(error, denied) || isAnswer(error, lockTimeout)) return false
      throw error
    }
    await onRows(Number(found?.rows ?? 0))
    return true
  }
}

/** One at a time, and not beside the retention: two that delete the same rows in different orders would deadlock. */
async function erasing(transaction: Transaction): Promise<void> {
  // The index by time has the rows in order, whatever the planner thinks of their number.
  await transaction.execute('SET LOCAL enable_seqscan = off; SET LOCAL jit = off')
  await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.retention', 0))`)
}

async function* walksOf(database: Database, { channel, publisher }: ErasureFilter): AsyncGenerator<Walk> {
  const byTime = { format: senmlFormat, table: 'sluice.records', time: 'time', type: 'timestamptz' } as const
  if (publisher !== undefined) {
    const ofChannel = channel === undefined ? '' : ' AND channel = (SELECT id FROM sluice.channels WHERE channels.channel = $2)'
    const values = channel === undefined ? [publisher] : [publisher, channel]
    const series = await database.query<{ id: number }>(`SELECT id FROM sluice.series WHERE publisher = $1${ofChannel} ORDER BY id`, values)
    for (const { id } of series) yield { ...byTime, condition: 'series = $1', values: [id] }
  } else if (channel !== undefined) {
    const [known] = await database.query<{ id: number }>('SELECT id FROM sluice.channels WHERE channel = $1', [channel])
    if (known !== undefined) yield { ...byTime, condition: 'channel = $1', values: [known.id] }
  } else yield { ...byTime, condition: 'true', values: [] }

  for (const { format, table } of await rowTables(database)) {
    if (format === senmlFormat) continue
    const byCreated = { format, table, time: 'created', type: 'bigint' } as const
    if (publisher !== undefined) {
      const isIt = `${publisherKey()} = ${publisherKey('$2::text', '$1::text')} AND channel = $1 AND publisher = $2`
      const channels = channel === undefined ? channelsOf(database, table) : [channel]
      for await (const each of channels) yield { ...byCreated, condition: isIt, values: [each, publisher] }
    } else if (channel !== undefined) yield { ...byCreated, condition: 'channel = $1', values: [channel] }
    else yield { ...byCreated, condition: 'true', values: [] }
  }
}

/** The channels of a format's table. Its index begins with the channel, so the next one is a seek away. */
async function* channelsOf(database: Database, table: string): AsyncGenerator<string> {
  for (let last: string | undefined; ; ) {
    const behind = last === undefined ? '' : 'WHERE channel > $1'
    const [next] = await database.query<{ channel: string }>(
      `SELECT channel FROM ${table} ${behind} ORDER BY channel LIMIT 1`,
      last === undefined ? [] : [last],
    )
    if (next === undefined) return
    last = next.channel
    yield last
  }
}

/** A time as SQL. */
function boundOf(time: Walk['time'], ms: number): string {
  return time === 'time' ? `'${new Date(ms).toISOString()}'::timestamptz` : String(BigInt(ms) * 1_000_000n)
}
