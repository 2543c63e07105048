// The store's schema: its migrations, and the months that the table `messages` is divided into.

import { fileURLToPath } from 'node:url'
import type { Database, Transaction } from '../../config/postgres/database.ts'
import { migrate } from '../../config/postgres/migrate.ts'
import { attachedMonths, dropBefore } from './retention.ts'

const monthsBack = 2
const monthsAhead = 3
/** Whoever inserts waits behind a month that waits to be attached, so that one does not wait for long. */
const lockTimeoutMs = 5_000

/** Brings the store to this version's schema. */
export async function migrateStore(database: Database): Promise<void> {
  await migrate(database, { folder: fileURLToPath(new URL('migrations', import.meta.url)), schema: 'sluice', table: 'migrations' })
}

export interface Maintenance {
  /** Months of messages that are kept beside the current one; 0 keeps all. */
  readonly retentionMonths?: number
  readonly now?: Date
}

/**
 * Makes the partitions of the months from two back to three ahead (UTC) that are not there yet, each in a transaction of its own, and
 * deletes what is older than the retention allows. Rows of other times lie in the default partition, and what a new month finds of
 * its own there moves over. To be called at the start of a process and daily; several processes may. Opening a sink makes the months too.
 *
 * @returns the names of the partitions made
 * @throws DatabaseError, transient where a lock was not had in time: the next call goes on; 42501 where the role may not, and then
 * it is for the owner of the tables to call
 */
export async function maintain(database: Database, { retentionMonths = 0, now = new Date() }: Maintenance = {}): Promise<string[]> {
  const attached = new Set(await attachedMonths(database))
  const made: string[] = []
  for (const month of monthsAround(now, retentionMonths === 0 ? monthsBack : Math.min(monthsBack, retentionMonths))) {
    if (attached.has(month.table)) continue
    if (await database.transaction(transaction => attachMonth(transaction, month))) made.push(month.table)
  }
  if (retentionMonths > 0) await dropBefore(database, monthStart(now, -retentionMonths))
  return made
}

function monthStart(now: Date, distance: number): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + distance))
}

interface Month {
  /** `messages_2026_11` */
  readonly table: string
  /** ISO 8601; the end is exclusive. */
  readonly start: string
  readonly end: string
}

function monthsAround(now: Date, back: number): Month[] {
  const months: Month[] = []
  for (let distance = -back; distance <= monthsAhead; distance++) {
    const start = monthStart(now, distance)
    const end = monthStart(now, distance + 1)
    const name = start.toISOString().slice(0, 7).replace('-', '_')
    months.push({ table: `messages_${name}`, start: start.toISOString(), end: end.toISOString() })
  }
  return months
}

/** Returns false where another process was faster. */
async function attachMonth(transaction: Transaction, { table, start, end }: Month): Promise<boolean> {
  await transaction.execute(
    `SET LOCAL lock_timeout = ${lockTimeoutMs}; SELECT pg_advisory_xact_lock(hashtextextended('sluice.partitions', 0))`,
  )
  const [found] = await transaction.query<{ exists: boolean }>(`SELECT to_regclass('sluice.${table}') IS NOT NULL AS exists`)
  if (found?.exists === true) return false
  // No insert may be under way: one that had chosen the default partition before this month was attached would fail there
  // after it (23514). So they wait at the parent, and choose when they hold it.
  await transaction.execute(`
    LOCK TABLE ONLY public.messages IN SHARE ROW EXCLUSIVE MODE;
    CREATE TABLE sluice.${table} (LIKE public.messages INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
    WITH moved AS (DELETE FROM sluice.messages_default WHERE time >= '${start}' AND time < '${end}' RETURNING *)
      INSERT INTO sluice.${table} SELECT * FROM moved;
    CREATE INDEX ${table}_channel_time ON sluice.${table} (channel, time DESC);
    ALTER TABLE public.messages ATTACH PARTITION sluice.${table} FOR VALUES FROM ('${start}') TO ('${end}')`)
  return true
}
