// The registry of JSON formats: which table holds which, made when it is first needed, within a cap.
//
// A format is named by a device, so it is hostile: one device must not make tables without end. Tables are made in
// transactions of their own, by one writer at a time in the whole store, and used only after the commit.

import { createHash } from 'node:crypto'
import type { Database, Queries, Transaction } from '../../config/postgres/database.ts'
import { admitFormats, type FormatRefusal, type WantedFormat } from '../format-registry.ts'
import type { SinkOptions } from './options.ts'
import { physicalName } from './physical-name.ts'
import { publisherKey } from './publisher-key.ts'
import { isDenied } from './rights.ts'

/** A transaction holds about five locks for each table that it makes, and the server's lock table is bounded. */
const createdAtOnceMax = 50

export interface FormatTables {
  /** By format, the quoted name of its table. */
  readonly names: ReadonlyMap<string, string>
  readonly refused: ReadonlyMap<string, FormatRefusal>
}

export interface Formats {
  /** The tables of these formats, made where they are missing. Costs nothing for formats that were asked for before. */
  resolve(wanted: readonly WantedFormat[], cut: AbortSignal): Promise<FormatTables>
  /** Forgets what is known: a table has turned out to be gone. */
  forget(): void
}

export function openFormats(database: Database, options: SinkOptions): Formats {
  const known = new Map<string, string>()

  async function resolve(wanted: readonly WantedFormat[], cut: AbortSignal): Promise<FormatTables> {
    const names = new Map<string, string>()
    const refused = new Map<string, FormatRefusal>()
    let missing: WantedFormat[] = []
    for (const want of wanted) {
      const name = known.get(want.format)
      if (name !== undefined) names.set(want.format, name)
      else if (isText(want.format)) missing.push(want)
      else refused.set(want.format, unwritable)
    }
    if (missing.length > 0) {
      for (const [format, name] of await database.transaction(transaction => findTables(transaction, missing), cut)) {
        known.set(format, name)
        names.set(format, name)
      }
      missing = missing.filter(({ format }) => !names.has(format))
    }
    for (let start = 0; start < missing.length; start += createdAtOnceMax) {
      const some = missing.slice(start, start + createdAtOnceMax)
      const created = await database.transaction(transaction => createTables(transaction, some, options), cut).catch(refusedAll(some))
      for (const [format, name] of created.names) {
        known.set(format, name)
        names.set(format, name)
      }
      for (const [format, refusal] of created.refused) refused.set(format, refusal)
    }
    return { names, refused }
  }

  return { resolve, forget: () => known.clear() }
}

/** PostgreSQL's text takes neither. */
function isText(format: string): boolean {
  return !format.includes('\0') && format.isWellFormed()
}

const unwritable: FormatRefusal = {
  rule: 'store-refused',
  reason: 'the format holds a NUL or half a surrogate pair, which PostgreSQL cannot store',
  hint: 'use letters, digits, "-" and "_" in the last part of the subtopic',
}

/**
 * A role that may make no table gets messages of new formats rejected, not the writer stopped: a device names its formats, and one of
 * them must not keep the others' messages from being stored. A replay stores them, once an operator has allowed it.
 */
function refusedAll(wanted: readonly WantedFormat[]): (error: unknown) => FormatTables {
  return error => {
    if (!isDenied(error)) throw error
    const refusal: FormatRefusal = {
      rule: 'format-not-allowed',
      reason: `the format has no table, and the writer's role may not make one (SQLSTATE ${error.sqlState}): ${error.message}`,
      hint: 'grant CREATE on the schema "formats" to the role of the writer, then replay the message',
    }
    return { names: new Map(), refused: new Map(wanted.map(({ format }) => [format, refusal])) }
  }
}

/** Those that are registered and whose table is there. */
async function findTables(queries: Queries, wanted: readonly WantedFormat[]): Promise<[format: string, name: string][]> {
  const rows = await queries.query<{ format: string; table_name: string }>(
    `SELECT format, table_name FROM sluice.formats
     WHERE format = ANY ($1::text[]) AND to_regclass(format('formats.%I', table_name)) IS NOT NULL`,
    [wanted.map(({ format }) => format)],
  )
  return rows.map(row => [row.format, quoted(row.table_name)])
}

async function createTables(transaction: Transaction, wanted: readonly WantedFormat[], options: SinkOptions): Promise<FormatTables> {
  await transaction.query(`SELECT set_config('lock_timeout', $1, true)`, [String(options.lockTimeoutMs)])
  await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.formats', 0))`)
  const registered = await transaction.query<{ format: string; table_name: string; channel: string }>(
    'SELECT format, table_name, channel FROM sluice.formats',
  )
  const tables = new Map(registered.map(row => [row.format, row.table_name]))
  // A channel with a NUL, which PostgreSQL's text cannot hold, brings no format: its messages are refused.
  const writable = wanted.map(({ format, channels }) => ({ format, channels: new Set([...channels].filter(one => !one.includes('\0'))) }))
  const { added, refused } = admitFormats(registered, writable, options)
  for (const { format } of added) tables.set(format, physicalName(format))

  const names = new Map<string, string>()
  const statements: string[] = []
  for (const { format } of wanted) {
    const table = tables.get(format)
    if (table === undefined) continue
    // A registered format whose table was dropped gets it anew.
    statements.push(tableStatements(table))
    names.set(format, quoted(table))
  }
  if (statements.length > 0) await transaction.execute(statements.join(''))
  if (added.length > 0) {
    await transaction.query(
      'INSERT INTO sluice.formats (format, table_name, channel) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])',
      [added.map(({ format }) => format), added.map(({ format }) => physicalName(format)), added.map(({ channel }) => channel)],
    )
  }
  return { names, refused }
}

/** Makes what is missing of a format's table. */
export function tableStatements(table: string): string {
  return `
    CREATE TABLE IF NOT EXISTS ${quoted(table)} (
      created bigint NOT NULL, channel text NOT NULL, subtopic text NOT NULL, publisher text NOT NULL, protocol text NOT NULL,
      payload jsonb NOT NULL, position bigint NOT NULL, index integer NOT NULL
    );
    CREATE INDEX IF NOT EXISTS "$${table}" ON ${quoted(table)} (channel, created DESC);
    CREATE INDEX IF NOT EXISTS "${publisherIndexName(table)}" ON ${quoted(table)} (${publisherKey()}, created DESC);`
}

/** A table's name may have 62 of the 63 bytes that names have, and the other index is called `$` and the table. */
function publisherIndexName(table: string): string {
  return `$$publisher$${createHash('sha256').update(table).digest('hex').slice(0, 32)}`
}

/** Names made by physicalName hold no quote. */
function quoted(table: string): string {
  return `formats."${table}"`
}
