// The store's schema: its migrations, its maintenance with the retention, and what happens if the role may not create partitions.

import { fileURLToPath } from 'node:url'
import { type Database, DatabaseError } from '../../database/database.ts'
import { type MigrateOptions, migrate, pendingMigrations } from '../../database/migrate.ts'
import { UnpreparedStoreError } from '../sink-error.ts'
import { denied, isAnswer } from './errors.ts'
import { attachedMonths, dropMonths, type Maintenance, makeMonths, monthlyTables, monthStart } from './months.ts'
import { removeUnusedSeries } from './series/unused.ts'

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
  throw new UnpreparedStoreError(
    `the store lacks the migrations ${pending.join(', ')}: start its writer of this version first, which applies them`,
  )
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

/**
 * Creates the missing months, if the role may and nothing (such as a dump) holds a lock. Until they exist, their rows go to the default partitions,
 * so no writer waits for a month.
 *
 * @returns a sentence for each thing that cannot be done, with its consequence
 * @throws DatabaseError if the table `sluice.records` is missing or the server is down
 */
export async function shortcomings(database: Database, retentionMonths: number): Promise<string[]> {
  const sentences: string[] = []
  const { failure } = await makeMonths(database, { retentionMonths })
  if (failure !== undefined) {
    const until = isAnswer(failure, denied)
      ? 'the owner of the tables starts a writer, which creates them'
      : 'they are created, which is retried every six hours and when a writer starts'
    sentences.push(
      `partitions by month cannot be created (${failure.message}): their rows go to the default partitions, such as sluice.records_default, until ${until}`,
    )
  }
  const [right] = await database.query<{ create: boolean; role: string }>(
    `SELECT has_schema_privilege('formats', 'CREATE') AND has_schema_privilege('sluice', 'CREATE') AS create, current_user::text AS role`,
  )
  if (right?.create !== true) {
    sentences.push(
      `the role "${right?.role}" may not create tables for JSON formats: messages of new formats become dead letters (rule format-not-allowed). To allow it, run GRANT CREATE ON SCHEMA formats, sluice TO "${right?.role}"`,
    )
  }
  return sentences
}

/**
 * Deletes everything before the oldest month that is kept: months of records and of documents, and rows with odd clocks in the default partitions. If
 * one part fails, the others are still deleted.
 *
 * @returns what failed; the next call continues
 */
async function dropBefore(database: Database, now: Date, retentionMonths: number): Promise<DatabaseError[]> {
  const keep = monthStart(now, -retentionMonths)
  const failures: DatabaseError[] = []
  const attempt = failuresInto(failures)
  const attached = await attachedMonths(database)
  for (const table of await monthlyTables(database)) {
    await attempt(dropMonths(database, table, attached, keep))
    await attempt(deleteRows(database, `sluice.${table.prefix}_default`, `${table.column} < '${table.boundOf(keep)}'`))
  }
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

/**
 * The key by which the documents of one publisher in one channel are indexed: an eight-byte hash of both texts, which costs the index half of what the
 * texts would. A search by it compares the texts too.
 *
 * Returned as SQL, of columns or values. PostgreSQL never changes this hash function, since its own hash partitions depend on it.
 */
export function publisherKey(publisher = 'publisher', channel = 'channel'): string {
  return `hashtextextended(${publisher}, hashtextextended(${channel}, 0))`
}
