// What a person does about an answer of PostgreSQL that no retry changes: a login, a missing database, a right, tables that are not ours.

import type { DatabaseError } from './database.ts'

/** Who asks the server, as its option and its rights say. */
export interface DatabaseUser {
  /** The option with its variable: `store.url (SVC_RELATIONAL_URL)`. */
  readonly option: string
  /** Its value, of which a sentence names the user and nothing else. */
  readonly url: string
  /** What it needs on schemas. */
  readonly schemaRights: 'USAGE' | 'USAGE, CREATE'
  /** What it needs on a table, as a GRANT says it: `SELECT ON public.messages`. */
  readonly tableRights: (table: string) => string
}

/** One sentence: what was refused, with the SQLSTATE and the server's words, and what to do, with the option that names the server. */
export function refusalSentence({ sqlState, message, constraint }: DatabaseError, user: DatabaseUser): string {
  const { option } = user
  const said = `(SQLSTATE ${sqlState}: ${message})`
  if (sqlState.startsWith('28')) return `PostgreSQL refused the login ${said}: correct the user, the password or sslmode in ${option}`
  if (sqlState.startsWith('3D')) return `PostgreSQL does not have the database ${said}: create it, or name another in ${option}`
  if (sqlState === '42501') return `PostgreSQL refused ${deniedIn(message)} ${said}: ${grant(message, user)}`
  if (/^(42|22P0)/.test(sqlState)) {
    return `the tables in the database are not those of this version ${said}: bring them back, or name an empty database in ${option}`
  }
  if (sqlState.startsWith('23')) {
    return `a constraint that is not sluice's refused rows ${said}: drop the constraint ${JSON.stringify(constraint)} from the database of ${option}`
  }
  return `PostgreSQL refused a statement ${said}: correct the database of ${option}`
}

/** `permission denied for schema public`, `must be owner of table messages` */
const denied = /permission denied for (schema|table|database|sequence) (\S+)$/

function deniedIn(message: string): string {
  const [, kind, name] = denied.exec(message) ?? []
  return kind === undefined ? 'a statement' : `access to the ${kind} ${name}`
}

function grant(message: string, { option, url, schemaRights, tableRights }: DatabaseUser): string {
  const [, kind, name = ''] = denied.exec(message) ?? []
  if (kind === undefined) return `name the user who owns the tables in ${option}`
  const rights = {
    schema: `${schemaRights} ON SCHEMA ${name}`,
    database: `CREATE ON DATABASE ${name}`,
    table: tableRights(name),
    sequence: `USAGE ON SEQUENCE ${name}`,
  }[kind as 'schema' | 'table' | 'database' | 'sequence']
  return `grant it to the user of ${option}: GRANT ${rights} TO ${userOf(url)}`
}

function userOf(url: string): string {
  const name = URL.canParse(url) ? decodeURIComponent(new URL(url).username) : ''
  return name === '' ? '<user>' : `"${name.replaceAll('"', '""')}"`
}
