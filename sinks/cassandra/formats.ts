// The registry of JSON formats: which table holds which, made when it is first needed, within a cap, by one process at a time.
//
// A table is made before its format is registered: a crash between leaves an empty table that the next message of the format finds.

import { admitFormats, type FormatRefusal, type RegisteredFormat, type WantedFormat } from '../format-registry.ts'
import { SinkError } from '../sink-error.ts'
import { unlessAborted } from './aborting.ts'
import type { Connection } from './connection.ts'
import { isDenied } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { physicalName } from './physical-name.ts'
import { makeTable } from './schema.ts'
import { type HeldLock, withSchemaLock } from './schema-lock.ts'
import { formatTable } from './statements.ts'

/** Beyond it what is known is forgotten, and read again. */
const knownMax = 200_000

export interface Formats {
  /** Which of these formats have no table and get none; the tables of the others are there. Costs nothing for formats that were asked for before. */
  resolve(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<ReadonlyMap<string, FormatRefusal>>
  /** Forgets what is known: a table may have turned out to be gone. */
  forget(): void
}

/** @param onDenied told what the role may not do */
export function openFormats(connection: Connection, options: SinkOptions, onDenied: (sentence: string) => void): Formats {
  const known = new Set<string>()
  const none: ReadonlyMap<string, FormatRefusal> = new Map()

  return {
    async resolve(wanted, signal) {
      const unknown = wanted.filter(({ format }) => !known.has(format))
      if (unknown.length === 0) return none
      if (known.size > knownMax) known.clear()
      for (const format of await unlessAborted(findTables(connection, unknown), signal)) known.add(format)
      const missing = unknown.filter(({ format }) => !known.has(format))
      if (missing.length === 0) return none
      const work = withSchemaLock(connection, lock => makeTables(connection, missing, options, lock, signal), signal)
      const { made, refused, denied } = await unlessAborted(work, signal)
      for (const format of made) known.add(format)
      if (denied !== undefined) onDenied(denied)
      return refused
    },
    forget: () => known.clear(),
  }
}

/** Those that are registered and whose table is there. */
async function findTables(connection: Connection, wanted: readonly WantedFormat[]): Promise<string[]> {
  const tables = await tableNames(connection)
  const registered = new Set<string>()
  const select = `SELECT format FROM ${connection.table('sluice_formats')} WHERE format = ?`
  for (const { format } of wanted) {
    if (!tables.has(physicalName(format))) continue
    const [row] = await connection.query(select, [format])
    if (row !== undefined) registered.add(format)
  }
  return [...registered]
}

async function tableNames(connection: Connection): Promise<Set<string>> {
  const rows = await connection.query('SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?', [connection.keyspace], {
    consistency: 1,
    fetchSize: 100_000,
  })
  return new Set(rows.map(row => row['table_name'] as string))
}

interface MadeTables {
  readonly made: readonly string[]
  readonly refused: ReadonlyMap<string, FormatRefusal>
  readonly denied: string | undefined
}

/** A format that is registered and whose table was dropped gets it anew. */
async function makeTables(
  connection: Connection,
  wanted: readonly WantedFormat[],
  options: SinkOptions,
  lock: HeldLock,
  signal: AbortSignal,
): Promise<MadeTables> {
  const registered = await readFormats(connection)
  const { added, refused: overLimit } = admitFormats(registered, wanted, options)
  const channels = new Map(added.map(({ format, channel }) => [format, channel]))
  const tables = await tableNames(connection)
  const refused = new Map(overLimit)
  const made: string[] = []
  let denied: string | undefined
  for (const { format } of wanted) {
    if (refused.has(format)) continue
    signal.throwIfAborted()
    await lock.renew()
    const name = physicalName(format)
    if (!tables.has(name)) {
      const error = await makeTable(connection, formatTable(name)).catch((error: unknown) => error)
      if (error instanceof SinkError && isDenied(error.cause)) {
        refused.set(format, notAllowed(connection, error.cause))
        denied = `the writer's role may make no tables for JSON formats: messages of new formats become dead letters (rule format-not-allowed). Allow it by GRANT CREATE ON KEYSPACE "${connection.keyspace}"`
        continue
      }
      if (error !== undefined) throw error
    }
    const channel = channels.get(format)
    if (channel !== undefined) await register(connection, format, name, channel)
    made.push(format)
  }
  return { made, refused, denied }
}

export async function readFormats(connection: Connection): Promise<RegisteredFormat[]> {
  const formats: RegisteredFormat[] = []
  const rows = await connection.query(`SELECT format, channel FROM ${connection.table('sluice_formats')}`, [], { fetchSize: 200_000 })
  for (const row of rows) formats.push({ format: row['format'] as string, channel: row['channel'] as string })
  return formats
}

async function register(connection: Connection, format: string, name: string, channel: string): Promise<void> {
  const insert = `INSERT INTO ${connection.table('sluice_formats')} (format, table_name, channel, created_at) VALUES (?, ?, ?, ?) IF NOT EXISTS`
  await connection.query(insert, [format, name, channel, new Date()], { isIdempotent: false })
}

/**
 * A role that may make no table gets messages of new formats rejected, not the writer stopped: a device names its formats, and one of
 * them must not keep the others' messages from being stored. A replay stores them, once an operator has allowed it.
 */
function notAllowed({ keyspace }: Connection, { message }: Error): FormatRefusal {
  return {
    rule: 'format-not-allowed',
    reason: `the format has no table, and the writer's role may not make one: ${message}`,
    hint: `GRANT CREATE ON KEYSPACE "${keyspace}" to the role of the writer, then replay the message`,
  }
}
