// The registry of JSON formats: which table holds which, made when it is first needed, within a cap, by one process at a time.
//
// What is beyond the cap, or may not be made, is found out without the lock, and remembered for moments: a device that names new formats without
// end must not have all workers wait for each other.
//
// A table is made before its format is registered: a crash between leaves an empty table that the next message of the format finds.

import { unlessAborted } from '../../config/aborting.ts'
import { admitFormats, type FormatRefusal, type RegisteredFormat, type WantedFormat } from '../format-registry.ts'
import { RefusedFormats } from '../refused-formats.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { guardrailOf, isDenied } from './errors.ts'
import { makeIndex } from './indexes.ts'
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

/**
 * @param onDenied told what the role may not do
 * @param nowMs of a clock that only goes forward
 */
export function openFormats(
  connection: Connection,
  options: SinkOptions,
  onDenied: (sentence: string) => void,
  nowMs: () => number = () => performance.now(),
): Formats {
  const known = new Set<string>()
  const refusedLately = new RefusedFormats(nowMs)

  /** Of formats of which nothing is known. */
  async function look(unknown: readonly WantedFormat[], signal: AbortSignal): Promise<ReadonlyMap<string, FormatRefusal>> {
    if (known.size > knownMax) known.clear()
    for (const format of await unlessAborted(findTables(connection, unknown), signal)) known.add(format)
    const missing = unknown.filter(({ format }) => !known.has(format))
    if (missing.length === 0) return new Map()
    // What is registered meanwhile only makes fewer formats admissible.
    const registered = await unlessAborted(readFormats(connection), signal)
    const { refused } = admitFormats(registered, missing, options)
    const admissible = missing.filter(({ format }) => !refused.has(format))
    if (admissible.length === 0) return refused
    const work = withSchemaLock(connection, lock => makeTables(connection, admissible, options, lock, signal), signal)
    const made = await unlessAborted(work, signal)
    for (const format of made.made) known.add(format)
    for (const sentence of made.denied) onDenied(sentence)
    return new Map([...refused, ...made.refused])
  }

  return {
    async resolve(wanted, signal) {
      const { refused, missing } = refusedLately.sort(wanted, format => known.has(format))
      if (missing.length === 0) return refused
      for (const [format, refusal] of await look(missing, signal)) {
        refused.set(format, refusal)
        refusedLately.add(missing.find(one => one.format === format)!, refusal)
      }
      return refused
    },
    forget() {
      known.clear()
      refusedLately.clear()
    },
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
  })
  return new Set(rows.map(row => row['table_name'] as string))
}

interface MadeTables {
  readonly made: readonly string[]
  readonly refused: ReadonlyMap<string, FormatRefusal>
  /** What the role may not do, and what to do about it. */
  readonly denied: readonly string[]
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
  const denied: string[] = []
  for (const { format } of wanted) {
    if (refused.has(format)) continue
    signal.throwIfAborted()
    await lock.renew()
    const name = physicalName(format)
    if (!tables.has(name)) {
      const error = await makeTable(connection, formatTable(name)).catch((error: unknown) => error)
      // A device names formats, so that no limit of theirs stops the writer.
      if (['tables', 'keyspaces'].includes(guardrailOf(error) ?? '')) {
        refused.set(format, beyondGuardrail(error as Error))
        continue
      }
      if (error instanceof SinkError && isDenied(error.cause)) {
        refused.set(format, notAllowed(connection, error.cause))
        denied.push(
          `the writer's role may make no tables for JSON formats: messages of new formats become dead letters (rule format-not-allowed). Allow it by GRANT CREATE ON KEYSPACE "${connection.keyspace}"`,
        )
        continue
      }
      if (error !== undefined) throw error
    }
    const channel = channels.get(format)
    // One that is not registered may have a maker who has died, or lost the lock, between the table and its index.
    if (options.publisherIndex && (channel !== undefined || !tables.has(name))) {
      await lock.renew()
      const unindexed = await makeIndex(connection, name)
      if (unindexed !== undefined) denied.push(unindexed)
    }
    if (channel !== undefined) await register(connection, format, name, channel)
    made.push(format)
  }
  return { made, refused, denied }
}

export async function readFormats(connection: Connection): Promise<RegisteredFormat[]> {
  const formats: RegisteredFormat[] = []
  const rows = await connection.query(`SELECT format, channel FROM ${connection.table('sluice_formats')}`)
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

function beyondGuardrail({ message }: Error): FormatRefusal {
  return {
    rule: 'format-not-allowed',
    reason: `the format has no table, and the cluster takes no more: ${message}`,
    hint: 'raise the limit of tables in the cassandra.yaml of the nodes, or lower formats_max; then replay the message',
  }
}
