// The store's schema: its migrations, its maintenance with the retention, and what happens if the role may not create partitions.

import { fileURLToPath } from 'node:url'
import { type Database, DatabaseError } from '../../database/database.ts'
import { type MigrateOptions, migrate, pendingMigrations } from '../../database/migrate.ts'
import { type RetentionNote, retentionNotes } from '../erasure.ts'
import { UnpreparedStoreError } from '../sink-error.ts'
import { deleteRows, openErasure } from './erase.ts'
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
export async function maintain(database: Database, options: Maintenance = {}): Promise<string[]> {
  const { retentionMonths = 0, now = new Date() } = options
  const { made, failure } = await makeMonths(database, { retentionMonths, now })
  const failures = failure === undefined ? [] : [failure]
  const attempt = failuresInto(failures)
  const keep = retentionMonths === 0 ? undefined : monthStart(now, -retentionMonths)
  const notes = retentionNotes(options, now.getTime(), keep?.getTime())
  for (const note of notes) await attempt(deleteBefore(database, note, attempt))
  if (notes.length > 0) await attempt(removeUnusedSeries(database))
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
 * Deletes everything before the oldest month that is kept, rows with odd clocks in the default partitions too; or rows of a channel, or months and rows
 * of a format. If one part fails, the others are still deleted.
 */
async function deleteBefore(database: Database, note: RetentionNote, attempt: Attempt): Promise<void> {
  const erasure = openErasure(database)
  await erasure.note(note)
  const { channel, format, beforeMs } = note
  const keep = monthStart(new Date(beforeMs), 0)
  const attached = await attachedMonths(database)
  for (const table of channel === undefined ? await monthlyTables(database) : []) {
    if (format === undefined) {
      await attempt(dropMonths(database, table, attached, keep))
      await attempt(deleteRows(database, `sluice.${table.prefix}_default`, `${table.column} < '${table.boundOf(keep)}'`))
    } else if (format === table.format) await dropMonths(database, table, attached, keep)
  }
  if (channel !== undefined || format !== undefined) await erasure.erase(note, new AbortController().signal, async () => undefined)
}

type Attempt = (work: Promise<unknown>) => Promise<void>

function failuresInto(failures: DatabaseError[]): Attempt {
  return async work => {
    try {
      await work
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      failures.push(error)
    }
  }
}
