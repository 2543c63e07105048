// Deletes what is older than the option `retention_months` allows: whole months of `messages`, and row by row where there are no months.

import { type Database, DatabaseError } from '../../config/postgres/database.ts'

/** One statement looks at so many pages of a table, 2 MB, so that none runs or holds its locks for long. */
const pagesAtOnce = 256
/** Dropping a month waits for its readers and writers, and those that come later wait behind it. */
const lockTimeoutMs = 2_000

/** The names of partitions, as schema.ts makes them. */
const monthName = /^messages_(\d{4})_(\d{2})$/

/** The first instant (UTC) of the month that lies so many months from that of `now`. */
export function monthStart(now: Date, distance: number): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + distance))
}

/** The first instant of the oldest month that is kept. */
export function oldestKept(now: Date, retentionMonths: number): Date {
  return monthStart(now, -retentionMonths)
}

/**
 * Everything before the first instant of the oldest month that is kept: months of `messages`, odd clocks in its default partition, and
 * documents by the time they were created. What fails keeps nothing else from being deleted.
 *
 * @returns what failed: the next call goes on
 */
export async function dropBefore(database: Database, now: Date, retentionMonths: number): Promise<DatabaseError[]> {
  const keep = oldestKept(now, retentionMonths)
  const failures: DatabaseError[] = []
  const attempt = async (work: Promise<unknown>): Promise<void> => {
    try {
      await work
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      failures.push(error)
    }
  }
  await attempt(dropMonths(database, keep))
  await attempt(deleteRows(database, 'sluice.messages_default', `time < '${keep.toISOString()}'`))
  const formats = await database.query<{ name: string }>(
    `SELECT format('formats.%I', table_name) AS name FROM sluice.formats WHERE to_regclass(format('formats.%I', table_name)) IS NOT NULL`,
  )
  for (const { name } of formats) await attempt(deleteRows(database, name, `created < ${BigInt(keep.getTime()) * 1_000_000n}`))
  return failures
}

async function dropMonths(database: Database, keep: Date): Promise<void> {
  for (const table of await attachedMonths(database)) {
    const [, year, month] = monthName.exec(table)!
    if (Date.UTC(Number(year), Number(month) - 1) >= keep.getTime()) continue
    await database.transaction(async transaction => {
      // Not while a month is being made: each would hold what the other wants.
      await transaction.execute(
        `SET LOCAL lock_timeout = ${lockTimeoutMs}; SELECT pg_advisory_xact_lock(hashtextextended('sluice.partitions', 0));
         DROP TABLE IF EXISTS sluice.${table}`,
      )
    })
  }
}

/** The months that `messages` is divided into at present, without the default partition. */
export async function attachedMonths(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `SELECT child.relname AS name FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
     WHERE inhparent = 'public.messages'::regclass ORDER BY 1`,
  )
  return rows.map(row => row.name).filter(name => monthName.test(name))
}

/**
 * Reads the table once, page after page: there is no index of these conditions, and a search for the next rows to delete would pass
 * over all that were deleted before. Rows that are written meanwhile are the next call's.
 */
async function deleteRows(database: Database, table: string, condition: string): Promise<void> {
  const [size] = await database.query<{ pages: number }>(
    `SELECT (pg_relation_size('${table.replaceAll("'", "''")}') / current_setting('block_size')::int)::float8 AS pages`,
  )
  for (let page = 0; page < (size?.pages ?? 0); page += pagesAtOnce) {
    await database.transaction(async transaction => {
      // One process at a time: two that delete the same rows in another order would wait for each other.
      await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.retention', 0))`)
      await transaction.execute(
        `DELETE FROM ${table} WHERE ctid >= '(${page},0)'::tid AND ctid < '(${page + pagesAtOnce},0)'::tid AND ${condition}`,
      )
    })
  }
}
