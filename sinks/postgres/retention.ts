// Deletes what is older than the option `retention_months` allows: whole months of `messages`, and row by row where there are no months.

import type { Database } from '../../config/postgres/database.ts'

/** One statement deletes at most so many rows, so that none holds its locks for long. */
const rowsAtOnce = 10_000
/** Dropping a month waits for its readers and writers, and those that come later wait behind it. */
const lockTimeoutMs = 5_000

/** The names of partitions, as schema.ts makes them. */
const monthName = /^messages_(\d{4})_(\d{2})$/

/**
 * Everything before the first instant of the oldest month that is kept: months of `messages`, odd clocks in its default partition,
 * documents by the time they were created, and the days of publishers.
 *
 * @param keep the oldest month that is kept
 * @returns the names of the partitions dropped
 * @throws DatabaseError, transient where a lock was not had in time: the next call goes on
 */
export async function dropBefore(database: Database, keep: Date): Promise<string[]> {
  const dropped: string[] = []
  for (const table of await attachedMonths(database)) {
    const [, year, month] = monthName.exec(table)!
    if (Date.UTC(Number(year), Number(month) - 1) >= keep.getTime()) continue
    await database.transaction(async transaction => {
      await transaction.execute(`SET LOCAL lock_timeout = ${lockTimeoutMs}; DROP TABLE IF EXISTS sluice.${table}`)
    })
    dropped.push(table)
  }
  const iso = keep.toISOString()
  await deleteRows(database, 'sluice.messages_default', `time < '${iso}'`)
  const formats = await database.query<{ name: string }>(
    `SELECT format('formats.%I', table_name) AS name FROM sluice.formats WHERE to_regclass(format('formats.%I', table_name)) IS NOT NULL`,
  )
  for (const { name } of formats) await deleteRows(database, name, `created < ${BigInt(keep.getTime()) * 1_000_000n}`)
  await deleteRows(database, 'sluice.publisher_days', `day < '${iso.slice(0, 10)}'`)
  return dropped
}

/** The months that `messages` is divided into at present, without the default partition. */
export async function attachedMonths(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `SELECT child.relname AS name FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
     WHERE inhparent = 'public.messages'::regclass ORDER BY 1`,
  )
  return rows.map(row => row.name).filter(name => monthName.test(name))
}

async function deleteRows(database: Database, table: string, condition: string): Promise<void> {
  for (;;) {
    const deleted = await database.transaction(async transaction => {
      // One process at a time: two that delete the same rows in another order would wait for each other.
      await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.retention', 0))`)
      const [result] = await transaction.query<{ count: number }>(
        `WITH deleted AS (
           DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${table} WHERE ${condition} LIMIT ${rowsAtOnce})) RETURNING 1
         ) SELECT count(*)::int AS count FROM deleted`,
      )
      return result?.count ?? 0
    })
    if (deleted < rowsAtOnce) return
  }
}
