// The store's schema: its migrations, the monthly partitions of the table `sluice.records`, what happens if the role may not create them, and the retention.

import { fileURLToPath } from 'node:url'
import { type Database, DatabaseError, type Transaction } from '../../database/database.ts'
import { type MigrateOptions, migrate, pendingMigrations } from '../../database/migrate.ts'
import { SinkError } from '../sink-error.ts'
import { denied, isAnswer } from './errors.ts'
import { removeUnusedSeries } from './series/unused.ts'

const monthsBack = 2
const monthsAhead = 3
/** How long the creation of a month waits for another process that creates one; nothing else waits behind it. */
const turnTimeoutMs = 5_000
/** Short, since inserts, and reads of the default partition or an old month, wait behind a month that waits to be attached or dropped. */
const lockTimeoutMs = 2_000

const migrations: MigrateOptions = {
  folder: fileURLToPath(new URL('migrations', import.meta.url)),
  schema: 'sluice',
  table: 'migrations',
}

/** Migrates the store to this version's schema. */
export async function migrateStore(database: Database): Promise<void> {
  await migrate(database, migrations)
}

/**
 * Checks the schema and changes nothing.
 *
 * @throws SinkError (systemic) if the store does not have this version's schema
 */
export async function checkStore(database: Database): Promise<void> {
  const pending = await pendingMigrations(database, migrations)
  if (pending.length === 0) return
  throw new SinkError(
    'systemic',
    `the store lacks the migrations ${pending.join(', ')}: start its writer of this version first, which applies them`,
  )
}

interface Maintenance {
  /** Months of messages to keep besides the current one; 0 keeps all. */
  readonly retentionMonths?: number
  readonly now?: Date
}

/**
 * Creates the months, and deletes what is older than the retention allows, with the series that have no rows any longer; if one part fails, the others
 * are done all the same. Called when a process starts and every six hours; several processes may call it at once.
 *
 * @returns the names of the partitions created
 * @throws DatabaseError, AggregateError of several: transient if a lock timed out, and the next call continues; 42501 if the role lacks the
 * permission: the owner of the tables has to call it
 */
export async function maintain(database: Database, { retentionMonths = 0, now = new Date() }: Maintenance = {}): Promise<string[]> {
  const { made, failure } = await makeMonths(database, { retentionMonths, now })
  const failures = failure === undefined ? [] : [failure]
  if (retentionMonths > 0) {
    failures.push(...(await dropBefore(database, now, retentionMonths)))
    await failuresInto(failures)(removeUnusedSeries(database))
  }
  if (failures.length > 1) throw new AggregateError(failures, failures.map(({ message }) => message).join('; '))
  if (failures[0] !== undefined) throw failures[0]
  return made
}

interface MadeMonths {
  /** The names of the partitions created. */
  readonly made: string[]
  /** Why not all were created. */
  readonly failure: DatabaseError | undefined
}

/**
 * Creates the missing partitions from two months back to three months ahead (UTC) that the retention keeps, each in a transaction of its own, until
 * one fails. Rows of other times are in the default partition; a new month takes over its rows from there.
 *
 * @throws DatabaseError if the table `sluice.records` is missing
 */
async function makeMonths(database: Database, { retentionMonths = 0, now = new Date() }: Maintenance = {}): Promise<MadeMonths> {
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
  /** `records_2026_11` */
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
    months.push({ table: `records_${name}`, start: start.toISOString(), end: end.toISOString() })
  }
  return months
}

/**
 * Returns false if another process was faster.
 *
 * The default partition may hold many rows of the month, so most are moved before the lock is taken, and only those that came meanwhile under it.
 * PostgreSQL then reads the rest of the default partition to verify that no row of the month is left. The CHECK saves it from reading the month too.
 * Its indexes are those of the table, also where an operator has replaced one.
 */
async function attachMonth(transaction: Transaction, { table, start, end }: Month): Promise<boolean> {
  await transaction.execute(
    `SET LOCAL lock_timeout = ${turnTimeoutMs}; SELECT pg_advisory_xact_lock(hashtextextended('sluice.partitions', 0))`,
  )
  const [found] = await transaction.query<{ exists: boolean }>(`SELECT to_regclass('sluice.${table}') IS NOT NULL AS exists`)
  if (found?.exists === true) return false
  const inMonth = `time >= '${start}' AND time < '${end}'`
  const move = `
    WITH moved AS (DELETE FROM sluice.records_default WHERE ${inMonth} RETURNING *)
      INSERT INTO sluice.${table} SELECT * FROM moved;`
  await transaction.execute(
    `SET LOCAL lock_timeout = ${lockTimeoutMs}; SET LOCAL statement_timeout = 0;
     CREATE TABLE sluice.${table} (
       LIKE sluice.records INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES, CONSTRAINT of_month CHECK (${inMonth})
     );
     ${move}`,
    { unhurried: true },
  )
  // No insert may be in progress: one that chose the default partition before this month was attached would fail there afterwards (23514). So inserts
  // wait for the parent table, and choose their partition after that.
  await transaction.execute(
    `LOCK TABLE ONLY sluice.records IN SHARE ROW EXCLUSIVE MODE;
     ${move}
     ALTER TABLE sluice.records ATTACH PARTITION sluice.${table} FOR VALUES FROM ('${start}') TO ('${end}');
     ALTER TABLE sluice.${table} DROP CONSTRAINT of_month`,
    { unhurried: true },
  )
  return true
}

/**
 * Creates the missing months, if the role may and nothing (such as a dump) holds a lock. Until they exist, their rows go to the default partition, so
 * no writer waits for a month.
 *
 * @returns a sentence for each thing that cannot be done, with its consequence
 * @throws DatabaseError if the table `sluice.records` is missing or the server is down
 */
export async function shortcomings(database: Database, retentionMonths: number): Promise<string[]> {
  const sentences: string[] = []
  const { failure } = await makeMonths(database, { retentionMonths })
  if (failure !== undefined) {
    const until = isAnswer(failure, denied)
      ? 'the owner of the table starts a writer, which creates them'
      : 'they are created, which is retried every six hours and when a writer starts'
    sentences.push(
      `partitions of the table sluice.records cannot be created (${failure.message}): their rows go to sluice.records_default until ${until}`,
    )
  }
  const [right] = await database.query<{ create: boolean; role: string }>(
    `SELECT has_schema_privilege('formats', 'CREATE') AS create, current_user::text AS role`,
  )
  if (right?.create !== true) {
    sentences.push(
      `the role "${right?.role}" may not create tables for JSON formats: messages of new formats become dead letters (rule format-not-allowed). To allow it, run GRANT CREATE ON SCHEMA formats TO "${right?.role}"`,
    )
  }
  return sentences
}

/** How many pages of a table one statement reads, 2 MB, so that none runs or holds its locks for long. */
const pagesAtOnce = 256
/** Matches the names of partitions. */
const monthName = /^records_(\d{4})_(\d{2})$/

/** The first instant (UTC) of the month that is `distance` months after that of `now`. */
function monthStart(now: Date, distance: number): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + distance))
}

/** The first instant of the oldest month that is kept. */
function oldestKept(now: Date, retentionMonths: number): Date {
  return monthStart(now, -retentionMonths)
}

/**
 * Deletes everything before the oldest month that is kept: months of records, rows with odd clocks in its default partition, and documents by
 * their creation time. If one part fails, the others are still deleted.
 *
 * @returns what failed; the next call continues
 */
async function dropBefore(database: Database, now: Date, retentionMonths: number): Promise<DatabaseError[]> {
  const keep = oldestKept(now, retentionMonths)
  const failures: DatabaseError[] = []
  const attempt = failuresInto(failures)
  await attempt(dropMonths(database, keep))
  await attempt(deleteRows(database, 'sluice.records_default', `time < '${keep.toISOString()}'`))
  const formats = await database.query<{ name: string }>(
    `SELECT format('formats.%I', table_name) AS name FROM sluice.formats WHERE to_regclass(format('formats.%I', table_name)) IS NOT NULL`,
  )
  for (const { name } of formats) await attempt(deleteRows(database, name, `created < ${BigInt(keep.getTime()) * 1_000_000n}`))
  return failures
}

function failuresInto(failures: DatabaseError[]): (work: Promise<unknown>) => Promise<void> {
  return async work => {
    try {
      await work
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      failures.push(error)
    }
  }
}

async function dropMonths(database: Database, keep: Date): Promise<void> {
  for (const table of await attachedMonths(database)) {
    const [, year, month] = monthName.exec(table)!
    if (Date.UTC(Number(year), Number(month) - 1) >= keep.getTime()) continue
    await database.transaction(async transaction => {
      // Not while a month is being created: the two would deadlock.
      await transaction.execute(
        `SET LOCAL lock_timeout = ${lockTimeoutMs}; SELECT pg_advisory_xact_lock(hashtextextended('sluice.partitions', 0));
         DROP TABLE IF EXISTS sluice.${table}`,
      )
    })
  }
}

/** The monthly partitions at present, without the default partition. */
async function attachedMonths(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `SELECT child.relname AS name FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
     WHERE inhparent = 'sluice.records'::regclass ORDER BY 1`,
  )
  return rows.map(row => row.name).filter(name => monthName.test(name))
}

/**
 * Reads the table once, page by page: there is no index for these conditions, and a search for the next rows to delete would pass over all those
 * already deleted. Rows that are written meanwhile are left to the next call.
 */
async function deleteRows(database: Database, table: string, condition: string): Promise<void> {
  const [size] = await database.query<{ pages: number }>(
    `SELECT (pg_relation_size('${table.replaceAll("'", "''")}') / current_setting('block_size')::int)::float8 AS pages`,
  )
  for (let page = 0; page < (size?.pages ?? 0); page += pagesAtOnce) {
    await database.transaction(async transaction => {
      // One process at a time: two that delete the same rows in different orders would deadlock.
      await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.retention', 0))`)
      await transaction.execute(
        `DELETE FROM ${table} WHERE ctid >= '(${page},0)'::tid AND ctid < '(${page + pagesAtOnce},0)'::tid AND ${condition}`,
      )
    })
  }
}

/**
 * The key by which the documents of one publisher in one channel are indexed: an eight-byte hash of both texts, which costs the index half of what the
 * texts would. A search by it compares the texts too.
 *
 * Returned as SQL, of columns or values. PostgreSQL never changes this hash function, since its own hash partitions depend on it.
 */
export function publisherKey(publisher = 'publisher', channel = 'channel'): string {
  return `hashtextextended(${publisher}, hashtextextended(${channel}, 0))`
}
