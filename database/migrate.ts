// Migrates a schema: node-pg-migrate runs plain .sql files through the database interface, all in one transaction.

import { readdir } from 'node:fs/promises'
import type { ClientBase } from 'pg'
import { type Database, DatabaseError, type Queries, type Transaction } from './database.ts'

/** A newer release has migrated the database; the message says what to do. */
export class NewerSchemaError extends Error {
  override readonly name = 'NewerSchemaError'
}

export interface MigrateOptions {
  /** Absolute. Contains `0001-what-it-does.sql` and so on; other files are ignored. */
  folder: string
  /** Created if missing. It is the search path of every migration, so that files name no schema. */
  schema: string
  /** Where the applied migrations are recorded, in that schema. */
  table: string
}

/**
 * Applies the pending migrations and resolves with their names, in order. Several processes may start at once: one applies them, the
 * others wait for it and find none left. If none is pending this costs one query, and the role only needs the right to
 * read `table`. A statement timeout of the database also applies to migrations.
 *
 * @throws NewerSchemaError if the database has migrations that the folder does not: it belongs to a newer release
 * @throws DatabaseError that names the failed migration; none of the pending ones is then applied
 */
export async function migrate(database: Database, { folder, schema, table }: MigrateOptions): Promise<string[]> {
  // node-pg-migrate puts both into SQL unescaped.
  for (const name of [schema, table]) {
    if (!/^[\p{L}\p{N}_ -]+$/u.test(name))
      throw new Error(`"${name}" cannot be the name of a schema or of its migrations table: use letters, digits, spaces, _ and -`)
  }
  const known = await namesIn(folder)
  if ((await pendingMigrations(database, { folder, schema, table })).length === 0) return []
  return database.transaction(async transaction => {
    // Other processes hold the lock as long as their migrations run, which must not make this one fail: a waiting connection that it gave up would stay on
    // the server, one more with each attempt. Changing a large table takes longer than a request may.
    const lock = `SELECT pg_advisory_xact_lock(hashtextextended('migrations of ${schema}.${table}', 0))`
    await transaction.execute(`SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; ${lock}`, { unhurried: true })
    const applied = (await tableExists(transaction, schema, table)) ? await namesRecorded(transaction, schema, table) : []
    const pending = pendingOf(known, applied, schema)
    if (pending.length > 0) await apply(transaction, { folder, schema, table }, pending)
    return pending
  })
}

/**
 * The names of the migrations that `migrate` would apply, in order; changes nothing.
 *
 * @throws NewerSchemaError like `migrate`
 */
export async function pendingMigrations(database: Queries, { folder, schema, table }: MigrateOptions): Promise<string[]> {
  return pendingOf(await namesIn(folder), await recorded(database, schema, table), schema)
}

async function apply(transaction: Transaction, { folder, schema, table }: MigrateOptions, pending: readonly string[]): Promise<void> {
  // Loaded on demand, because loading takes as long as opening a connection.
  const { runner } = await import('node-pg-migrate')
  const [{ made } = { made: false }] = await transaction.query('SELECT to_regnamespace(quote_ident($1)) IS NOT NULL AS made', [schema])
  // Not with IF NOT EXISTS, which requires the right to create schemas even if the schema exists.
  if (made !== true) await transaction.execute(`CREATE SCHEMA ${quoted(schema)}`)
  await transaction.execute(`SET LOCAL search_path TO ${quoted(schema)}`)
  let failure: DatabaseError | undefined
  let current = pending[0]
  const client = {
    query: async (sql: string) => {
      // The caller owns the transaction, whose end releases the lock.
      if (/^(BEGIN|COMMIT|ROLLBACK)$/.test(sql)) return { rows: [] }
      try {
        if (/^SELECT (table_name|constraint_name|name) FROM /.test(sql)) return { rows: await transaction.query(sql) }
        await transaction.execute(sql, { unhurried: true })
        return { rows: [] }
      } catch (error) {
        if (error instanceof DatabaseError) failure ??= error
        throw error
      }
    },
  }
  try {
    await runner({
      dbClient: client as unknown as ClientBase,
      dir: folder,
      ignorePattern: '(?!.*\\.sql$).*',
      direction: 'up',
      migrationsSchema: schema,
      migrationsTable: table,
      singleTransaction: true,
      noLock: true,
      logger: {
        info: line => {
          current = /### MIGRATION (.+) \(UP\) ###/.exec(line)?.[1] ?? current
        },
        warn: () => undefined,
        error: () => undefined,
      },
    })
  } catch (error) {
    if (failure === undefined || failure.transient) throw failure ?? error
    const { sqlState, line, detail, constraint } = failure
    throw new DatabaseError(`the migration ${current} of the schema ${schema} failed: ${failure.message}`, {
      sqlState,
      line,
      detail,
      constraint,
      cause: failure,
    })
  }
}

async function namesIn(folder: string): Promise<string[]> {
  const files = await readdir(folder)
  return files
    .filter(file => file.endsWith('.sql'))
    .map(file => file.slice(0, -'.sql'.length))
    .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10) || (a < b ? -1 : 1))
}

/** The names in `known` that follow those in `applied`; `applied` must be a prefix of `known`. */
function pendingOf(known: readonly string[], applied: readonly string[], schema: string): string[] {
  const stranger = applied.find(name => !known.includes(name))
  if (stranger !== undefined) {
    throw new NewerSchemaError(
      `the schema ${schema} has the migration ${stranger}, which this release does not know: a newer release applied it. Start that release, or restore a backup of the database from before it`,
    )
  }
  return known.filter(name => !applied.includes(name))
}

/** Empty if the table or the schema is missing (42P01). */
async function recorded(database: Queries, schema: string, table: string): Promise<string[]> {
  try {
    return await namesRecorded(database, schema, table)
  } catch (error) {
    if (error instanceof DatabaseError && error.sqlState === '42P01') return []
    throw error
  }
}

async function namesRecorded(queries: Queries, schema: string, table: string): Promise<string[]> {
  const rows = await queries.query<{ name: string }>(`SELECT name FROM ${quoted(schema)}.${quoted(table)} ORDER BY id`)
  return rows.map(row => row.name)
}

async function tableExists(transaction: Transaction, schema: string, table: string): Promise<boolean> {
  const rows = await transaction.query(`SELECT to_regclass(quote_ident($1) || '.' || quote_ident($2)) IS NOT NULL AS exists`, [
    schema,
    table,
  ])
  return rows[0]?.['exists'] === true
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
