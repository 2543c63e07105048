// The tables that are partitioned by month: records by their time, the documents of each JSON format by their creation. Their partitions are in the
// schema "sluice", named by the table and the month: `records_2026_11`, `format_7_2026_11`, `format_7_default`.

import { type Database, DatabaseError, type Queries, type Transaction } from '../../database/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { RetentionOptions } from '../erasure.ts'
import { denied, isAnswer } from './errors.ts'

const monthsBack = 2
const monthsAhead = 3
/** How long the creation of a month waits for another process that creates one; nothing else waits behind it. */
const turnTimeoutMs = 5_000
/** Short, since inserts, and reads of the default partition or an old month, wait behind a month that waits to be attached or dropped. */
const lockTimeoutMs = 2_000

export interface Maintenance extends RetentionOptions {
  readonly now?: Date
}

/** A table that is partitioned by month. */
export interface MonthlyTable {
  /** Quoted, with its schema. */
  readonly parent: string
  /** Of the names of its partitions. */
  readonly prefix: string
  /** The column that it is partitioned by. */
  readonly column: string
  /** A time as a value of the column, for SQL in quotes. */
  readonly boundOf: (time: Date) => string
}

const records: MonthlyTable = { parent: 'sluice.records', prefix: 'records', column: 'time', boundOf: time => time.toISOString() }

/**
 * The table of a format.
 *
 * @param parent quoted, with its schema
 * @param prefix `format_7` for the format with the id 7: the name of a table may have as many bytes as that of a partition
 */
export function formatTable(parent: string, prefix: string): MonthlyTable {
  return { parent, prefix, column: 'created', boundOf: time => String(BigInt(time.getTime()) * 1_000_000n) }
}

/** A table of a format: `messages` for SenML. */
interface FormatTable extends MonthlyTable {
  readonly format: string
}

/**
 * The table of records, then those of formats. These are known by the name of their default partition, which stays what it was if a format is registered
 * again with another id.
 */
export async function monthlyTables(queries: Queries): Promise<FormatTable[]> {
  const formats = await queries.query<{ format: string; parent: string; prefix: string }>(
    `SELECT format, format('formats.%I', table_name) AS parent, left(rest.relname, -length('_default')) AS prefix
     FROM sluice.formats JOIN pg_partitioned_table ON partrelid = to_regclass(format('formats.%I', table_name))
       JOIN pg_class AS rest ON rest.oid = partdefid
     WHERE rest.relname ~ '^format_\\d+_default$' ORDER BY formats.id`,
  )
  return [{ ...records, format: senmlFormat }, ...formats.map(({ format, parent, prefix }) => ({ ...formatTable(parent, prefix), format }))]
}

interface MadeMonths {
  /** The names of the partitions created. */
  readonly made: string[]
  /** Why not all were created. */
  readonly failure: DatabaseError | undefined
}

/**
 * Creates the missing partitions from two months back to three months ahead (UTC) that the retention keeps, each in a transaction of its own. Rows of
 * other times are in the default partition; a new month takes over its rows from there.
 *
 * If the role may not create those of one table, it goes on with the next, which may have another owner. It stops at any other error: what holds a lock
 * for long, such as a dump, mostly holds those of all tables.
 *
 * @throws DatabaseError if the table `sluice.records` is missing
 */
export async function makeMonths(database: Database, maintenance: Maintenance = {}): Promise<MadeMonths> {
  const attached = new Set(await attachedMonths(database))
  const made: string[] = []
  let failure: DatabaseError | undefined
  for (const table of await monthlyTables(database)) {
    try {
      for (const month of monthsOf(table, maintenance)) {
        if (attached.has(month.name)) continue
        if (await database.transaction(transaction => attachMonth(transaction, table, month))) made.push(month.name)
      }
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      failure ??= error
      if (!isAnswer(error, denied)) break
    }
  }
  return { made, failure }
}

/** Creates the partitions of a table that has none: the default one, and the same months as `makeMonths`. */
export function firstPartitions(table: MonthlyTable, maintenance: Maintenance = {}): string {
  const months = monthsOf(table, maintenance).map(
    ({ name, start, end }) =>
      `CREATE TABLE IF NOT EXISTS sluice.${name} PARTITION OF ${table.parent} FOR VALUES FROM ('${start}') TO ('${end}');`,
  )
  return [`CREATE TABLE IF NOT EXISTS sluice.${table.prefix}_default PARTITION OF ${table.parent} DEFAULT;`, ...months].join('\n')
}

interface Month {
  /** Of the partition. */
  readonly name: string
  /** As values of the table's column; the end is exclusive. */
  readonly start: string
  readonly end: string
}

function monthsOf({ prefix, boundOf }: MonthlyTable, { retentionMonths = 0, now = new Date() }: Maintenance): Month[] {
  const back = retentionMonths === 0 ? monthsBack : Math.min(monthsBack, retentionMonths)
  const months: Month[] = []
  for (let distance = -back; distance <= monthsAhead; distance++) {
    const start = monthStart(now, distance)
    const name = `${prefix}_${start.toISOString().slice(0, 7).replace('-', '_')}`
    months.push({ name, start: boundOf(start), end: boundOf(monthStart(now, distance + 1)) })
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
async function attachMonth(
  transaction: Transaction,
  { parent, prefix, column }: MonthlyTable,
  { name, start, end }: Month,
): Promise<boolean> {
  await transaction.execute(
    `SET LOCAL lock_timeout = ${turnTimeoutMs}; SELECT pg_advisory_xact_lock(hashtextextended('sluice.partitions', 0))`,
  )
  // A row cannot be inserted with its generated columns.
  const [found] = await transaction.query<{ exists: boolean; columns: string }>(
    `SELECT to_regclass('sluice.${name}') IS NOT NULL AS exists, string_agg(quote_ident(attname), ', ') AS columns
     FROM pg_attribute WHERE attrelid = 'sluice.${prefix}_default'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
  )
  if (found?.exists === true) return false
  const inMonth = `${column} >= '${start}' AND ${column} < '${end}'`
  const move = `
    WITH moved AS (DELETE FROM sluice.${prefix}_default WHERE ${inMonth} RETURNING ${found?.columns})
      INSERT INTO sluice.${name} (${found?.columns}) SELECT * FROM moved;`
  await transaction.execute(
    `SET LOCAL lock_timeout = ${lockTimeoutMs}; SET LOCAL statement_timeout = 0;
     CREATE TABLE sluice.${name} (
       LIKE ${parent} INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS INCLUDING INDEXES, CONSTRAINT of_month CHECK (${inMonth})
     );
     ${move}`,
    { unhurried: true },
  )
  // No insert may be in progress: one that chose the default partition before this month was attached would fail there afterwards (23514). So inserts
  // wait for the parent table, and choose their partition after that.
  await transaction.execute(
    `LOCK TABLE ONLY ${parent} IN SHARE ROW EXCLUSIVE MODE;
     ${move}
     ALTER TABLE ${parent} ATTACH PARTITION sluice.${name} FOR VALUES FROM ('${start}') TO ('${end}');
     ALTER TABLE sluice.${name} DROP CONSTRAINT of_month`,
    { unhurried: true },
  )
  return true
}

/** The first instant (UTC) of the month that is `distance` months after that of `now`. */
export function monthStart(now: Date, distance: number): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + distance))
}

/** Matches the names of partitions. */
const monthName = /^(records|format_\d+)_(\d{4})_(\d{2})$/

/** The monthly partitions of all tables at present, without the default partitions. */
export async function attachedMonths(queries: Queries): Promise<string[]> {
  const rows = await queries.query<{ name: string }>(
    `SELECT child.relname AS name FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
     WHERE inhparent = 'sluice.records'::regclass
       OR inhparent IN (SELECT to_regclass(format('formats.%I', table_name)) FROM sluice.formats)
     ORDER BY 1`,
  )
  return rows.map(({ name }) => name).filter(name => monthName.test(name))
}

/** Milliseconds since 1970; infinity for a month of another table. */
export function startOfMonth({ prefix }: MonthlyTable, name: string): number {
  const [, of, year, month] = monthName.exec(name) ?? []
  return of === prefix ? Date.UTC(Number(year), Number(month) - 1) : Number.POSITIVE_INFINITY
}

/** Drops those of a table's months that begin before the oldest one that is kept. */
export async function dropMonths(database: Database, table: MonthlyTable, attached: readonly string[], keep: Date): Promise<void> {
  for (const name of attached) {
    if (startOfMonth(table, name) >= keep.getTime()) continue
    await database.transaction(async transaction => {
      // Not while a month is being created: the two would deadlock.
      await transaction.execute(
        `SET LOCAL lock_timeout = ${lockTimeoutMs}; SELECT pg_advisory_xact_lock(hashtextextended('sluice.partitions', 0));
         DROP TABLE IF EXISTS sluice.${name}`,
      )
    })
  }
}
