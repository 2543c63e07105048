// The store's schema: its migrations, and the months that the table `messages` is divided into.

import { fileURLToPath } from 'node:url'
import { type Database, DatabaseError, type Transaction } from '../../config/postgres/database.ts'
import { migrate } from '../../config/postgres/migrate.ts'
import { publisherKey } from './publisher-key.ts'
import { attachedMonths, dropBefore, monthStart } from './retention.ts'

const monthsBack = 2
const monthsAhead = 3
/** How long a month waits while another process makes one; nobody waits behind it meanwhile. */
const turnTimeoutMs = 5_000
/** Whoever inserts, or reads the default partition, waits behind a month that waits to be attached, so that one does not wait for long. */
const lockTimeoutMs = 2_000

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
 * Makes the months and deletes what is older than the retention allows; where one thing fails, the others are done all the same. To be called at the start of a
 * process and daily; several processes may.
 *
 * @returns the names of the partitions made
 * @throws DatabaseError, AggregateError of several: transient where a lock was not had in time, and the next call goes on; 42501 where the role
 * may not, and then it is for the owner of the tables to call
 */
export async function maintain(database: Database, { retentionMonths = 0, now = new Date() }: Maintenance = {}): Promise<string[]> {
  const { made, failure } = await makeMonths(database, { retentionMonths, now })
  const failures = failure === undefined ? [] : [failure]
  if (retentionMonths > 0) failures.push(...(await dropBefore(database, now, retentionMonths)))
  if (failures.length > 1) throw new AggregateError(failures, failures.map(({ message }) => message).join('; '))
  if (failures[0] !== undefined) throw failures[0]
  return made
}

export interface MadeMonths {
  /** The names of the partitions made. */
  readonly made: string[]
  /** Why not all were. */
  readonly failure: DatabaseError | undefined
}

/**
 * Makes the partitions of the months from two back to three ahead (UTC) that are not there yet and that the retention keeps, each in a
 * transaction of its own, until one fails. Rows of other times lie in the default partition, and what a new month finds of its own there moves over.
 *
 * @throws DatabaseError where the table `messages` is missing
 */
export async function makeMonths(database: Database, { retentionMonths = 0, now = new Date() }: Maintenance = {}): Promise<MadeMonths> {
  const attached = new Set(await attachedMonths(database))
  const made: string[] = []
  try {
    for (const month of monthsAround(now, retentionMonths === 0 ? monthsBack : Math.min(monthsBack, retentionMonths))) {
      if (attached.has(month.table)) continue
      if (await database.transaction(transaction => attachMonth(transaction, month))) made.push(month.table)
    }
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    return { made, failure: error }
  }
  return { made, failure: undefined }
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

/**
 * Returns false where another process was faster.
 *
 * What lies in the default partition may be much, so it is moved before anybody has to wait, and what came meanwhile under the lock. Only then
 * PostgreSQL reads the rest of the default partition, to see that nothing of the month is left in it. The CHECK spares it reading the month too.
 */
async function attachMonth(transaction: Transaction, { table, start, end }: Month): Promise<boolean> {
  await transaction.execute(
    `SET LOCAL lock_timeout = ${turnTimeoutMs}; SELECT pg_advisory_xact_lock(hashtextextended('sluice.partitions', 0))`,
  )
  const [found] = await transaction.query<{ exists: boolean }>(`SELECT to_regclass('sluice.${table}') IS NOT NULL AS exists`)
  if (found?.exists === true) return false
  const ofMonth = `time >= '${start}' AND time < '${end}'`
  const move = `
    WITH moved AS (DELETE FROM sluice.messages_default WHERE ${ofMonth} RETURNING *)
      INSERT INTO sluice.${table} SELECT * FROM moved;`
  await transaction.execute(
    `SET LOCAL lock_timeout = ${lockTimeoutMs}; SET LOCAL statement_timeout = 0;
     CREATE TABLE sluice.${table} (LIKE public.messages INCLUDING DEFAULTS INCLUDING CONSTRAINTS, CONSTRAINT of_month CHECK (${ofMonth}));
     ${move}
     CREATE INDEX ${table}_channel_time ON sluice.${table} (channel, time DESC);
     CREATE INDEX ${table}_publisher_time ON sluice.${table} (${publisherKey()}, time DESC)`,
    { unhurried: true },
  )
  // No insert may be under way: one that had chosen the default partition before this month was attached would fail there
  // after it (23514). So they wait at the parent, and choose when they hold it.
  await transaction.execute(
    `LOCK TABLE ONLY public.messages IN SHARE ROW EXCLUSIVE MODE;
     ${move}
     ALTER TABLE public.messages ATTACH PARTITION sluice.${table} FOR VALUES FROM ('${start}') TO ('${end}');
     ALTER TABLE sluice.${table} DROP CONSTRAINT of_month`,
    { unhurried: true },
  )
  return true
}
