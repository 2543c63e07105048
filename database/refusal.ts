// Explains permanent errors of PostgreSQL and what to do: a failed login, a missing database or permission, unexpected tables.

import type { DatabaseError } from './database.ts'

/** The user of a connection: its option and the rights that it needs. */
export interface DatabaseUser {
  /** The option with its variable: `store.url (SVC_RELATIONAL_URL)`. */
  readonly option: string
  /** The option's value; messages show only the user in it. */
  readonly url: string
  /** The rights needed on schemas. */
  readonly schemaRights: 'USAGE' | 'USAGE, CREATE'
  /** The rights needed on a table, as in GRANT: `SELECT ON public.messages`. */
  readonly tableRights: (table: string) => string
}

/** One sentence: what was rejected, with the SQLSTATE and the server's message, and what to do, with the server's option. */
export function refusalSentence({ sqlState, message, constraint }: DatabaseError, user: DatabaseUser): string {
  const { option } = user
  const said = `(SQLSTATE ${sqlState}: ${message})`
  if (sqlState.startsWith('28')) return `PostgreSQL rejected the login ${said}: correct the user, the password or sslmode in ${option}`
  if (sqlState.startsWith('3D')) return `the PostgreSQL database does not exist ${said}: create it, or set another one in ${option}`
  if (sqlState === '42501') return `PostgreSQL denied ${deniedIn(message)} ${said}: ${grant(message, user)}`
  if (/^(42|22P0)/.test(sqlState)) {
    return `the tables in the database do not match this release ${said}: restore them, or set an empty database in ${option}`
  }
  if (sqlState.startsWith('23')) {
    return `a constraint that sluice did not create rejected rows ${said}: drop the constraint ${JSON.stringify(constraint)} from the database of ${option}`
  }
  return `PostgreSQL rejected a statement ${said}: check the database in ${option}`
}

/** `permission denied for schema public`, `must be owner of table messages` */
const denied = /permission denied for (schema|table|view|database|sequence) (\S+)$/

function deniedIn(message: string): string {
  const [, kind, name] = denied.exec(message) ?? []
  return kind === undefined ? 'a statement' : `access to the ${kind} ${name}`
}

function grant(message: string, { option, url, schemaRights, tableRights }: DatabaseUser): string {
  const [, kind, name = ''] = denied.exec(message) ?? []
  if (kind === undefined) return `set the user that owns the tables in ${option}`
  const rights = {
    schema: `${schemaRights} ON SCHEMA ${name}`,
    database: `CREATE ON DATABASE ${name}`,
    table: tableRights(name),
    view: tableRights(name),
    sequence: `USAGE ON SEQUENCE ${name}`,
  }[kind as 'schema' | 'table' | 'view' | 'database' | 'sequence']
  return `grant it to the user of ${option}: GRANT ${rights} TO ${userOf(url)}`
}

function userOf(url: string): string {
  const name = URL.canParse(url) ? decodeURIComponent(new URL(url).username) : ''
  return name === '' ? '<user>' : `"${name.replaceAll('"', '""')}"`
}
