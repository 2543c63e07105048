// Checks what a start of a role needs of a PostgreSQL server besides a connection, and changes nothing: rights on tables, and the clock.

import { DatabaseError, type Queries } from './database.ts'

/**
 * Checks the rights on tables of the schema, but on that of its migrations. A partition needs none of its own.
 *
 * @param rights as in GRANT: `SELECT`, `INSERT`
 * @param tables by default all
 * @throws DatabaseError (42501) as the server would throw it at the first statement that needs the right
 */
export async function checkTableRights(
  database: Queries,
  schema: string,
  rights: readonly string[],
  tables?: readonly string[],
): Promise<void> {
  const [denied] = await database.query<{ name: string }>(
    `SELECT relname::text AS name FROM pg_class
     WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'migrations'
       AND ($3::text[] IS NULL OR relname = ANY ($3))
       AND NOT (SELECT bool_and(has_table_privilege(pg_class.oid, needed)) FROM unnest($2::text[]) AS needed)
     ORDER BY relname LIMIT 1`,
    [schema, rights, tables ?? null],
  )
  if (denied !== undefined) throw lacking(`table ${denied.name}`)
}

/** @throws DatabaseError (42501) if the schema is missing, and the user may not create it */
export async function checkMayCreate(database: Queries, schema: string): Promise<void> {
  const [found] = await database.query<{ name: string; may: boolean }>(
    `SELECT current_database()::text AS name,
       to_regnamespace($1) IS NOT NULL OR has_database_privilege(current_database(), 'CREATE') AS may`,
    [schema],
  )
  if (found?.may !== true) throw lacking(`database ${found?.name}`)
}

/** In the words of the server, from which `refusalSentence` finds what to grant. */
function lacking(what: string): DatabaseError {
  return new DatabaseError(`permission denied for ${what}`, { sqlState: '42501', cause: undefined })
}

const clockSecondsMax = 5

/**
 * Compares the clocks of this machine and the server.
 *
 * @returns the version of the server
 */
export async function checkServer(database: Queries, warn: (sentence: string) => void): Promise<string> {
  const beforeMs = Date.now()
  const [server] = await database.query<{ version: string; ms: number }>(
    `SELECT current_setting('server_version') AS version, (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms`,
  )
  const { version, ms } = server!
  const aheadSeconds = ms < beforeMs ? (beforeMs - ms) / 1000 : Math.min(0, (Date.now() - ms) / 1000)
  if (Math.abs(aheadSeconds) > clockSecondsMax) {
    const which = aheadSeconds > 0 ? 'ahead of' : 'behind'
    warn(
      `the clock of this machine is ${Math.abs(aheadSeconds).toFixed(1)} s ${which} that of PostgreSQL: synchronize both, by which messages get their times`,
    )
  }
  return `PostgreSQL ${version}`
}
