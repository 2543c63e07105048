// What the store keeps besides its rows: logs, JSON formats with their tables, and what was replayed.
//
// The table of a format is created when it is first needed, up to a limit, by one process at a time. Whether a format is over the limit is checked
// without the lock: a device that keeps naming new formats must not make all workers wait for each other. A table is created before its format is
// registered: a crash in between leaves an empty table, which the next message of the format uses.

import { setTimeout as wait } from 'node:timers/promises'
import { unlessAborted } from '../../config/aborting.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { type AddFormats, admitFormats, type FormatRefusal, type RegisteredFormat, type WantedFormat } from '../formats.ts'
import type { KeyedReplays } from '../keyed-replay.ts'
import { currentFirst, type LogTable, type RegisteredLog } from '../logs.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { guardrailOf, isAnswer, isSchemaFault, isUndecided } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { formatTable, logsTable, makeIndex, makeTable, physicalName } from './schema.ts'
import { type HeldLock, withSchemaLock } from './schema-lock.ts'

const scansMax = 8
const scanAgainMs = 30

/**
 * All logs; of those with the same name and writer, the one that is written from now comes first.
 *
 * A scan is not a snapshot: it may pass number 1 before that is added, and then find 2, which was added later. Numbers are given without gaps, so it
 * scans again while one is missing. The number of a log that was freed stays missing.
 */
export async function readLogs(connection: Connection): Promise<readonly RegisteredLog[]> {
  let logs = await scanLogs(connection)
  for (let scan = 1; scan < scansMax && logs.some(({ number }) => number > logs.length); scan++) {
    await wait(scanAgainMs)
    logs = await scanLogs(connection)
  }
  return currentFirst(logs)
}

async function scanLogs(connection: Connection): Promise<RegisteredLog[]> {
  const rows = await connection.query(
    `SELECT number, name, id, writer, accepted_at, content_types FROM ${connection.table(logsTable.name)}`,
  )
  return rows.map(
    (row): RegisteredLog => ({
      number: row['number'] as number,
      name: row['name'] as string,
      id: row['id'] as string,
      writer: row['writer'] as string,
      contentTypes: contentTypesOf(row['content_types']),
      acceptedMs: (row['accepted_at'] as Date).getTime(),
    }),
  )
}

function contentTypesText(contentTypes: readonly string[] | undefined): string | null {
  return contentTypes === undefined ? null : JSON.stringify(contentTypes)
}

function contentTypesOf(text: unknown): readonly string[] | undefined {
  return typeof text === 'string' ? (JSON.parse(text) as string[]) : undefined
}

/** The number is the key, and is added by a conditional write: of several processes that choose the same number, only one gets it. */
export function openLogTable(connection: Connection): LogTable {
  const table = connection.table(logsTable.name)

  async function isApplied(cql: string, values: readonly unknown[]): Promise<boolean> {
    try {
      const [answer] = await connection.query(cql, values, { isIdempotent: false })
      return answer?.['[applied]'] === true
    } catch (error) {
      // It may have been applied all the same: the caller reads again.
      if (!isUndecided(error)) throw error
      return false
    }
  }

  return {
    read: () => readLogs(connection),
    async add({ number, name, id, writer, acceptedMs, contentTypes }) {
      const columns = 'number, name, id, writer, accepted_at, content_types'
      const values = [number, name, id, writer, new Date(acceptedMs), contentTypesText(contentTypes)]
      return isApplied(`INSERT INTO ${table} (${columns}) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS`, values)
    },
    async update({ number, name, acceptedMs, contentTypes }) {
      const update = `UPDATE ${table} SET accepted_at = ?, content_types = ? WHERE number = ? IF name = ?`
      return isApplied(update, [new Date(acceptedMs), contentTypesText(contentTypes), number, name])
    },
    async remove({ number, acceptedMs }) {
      const replayed = connection.table('sluice_replayed')
      for await (const page of connection.pages(`SELECT position FROM ${replayed}`)) {
        const notes = page.filter(({ position }) => Number((position as bigint) >> 56n) === number)
        for (const { position } of notes) await connection.query(`DELETE FROM ${replayed} WHERE position = ?`, [position])
      }
      await isApplied(`DELETE FROM ${table} WHERE number = ? IF accepted_at = ?`, [number, new Date(acceptedMs)])
    },
  }
}

/**
 * Finds the tables of formats, and creates those that are missing.
 *
 * @param onDenied called with what the role may not do, and what to do about it
 */
export function formatAdder(connection: Connection, options: SinkOptions, onDenied: (sentence: string) => void): AddFormats {
  return async (unknown, signal) => {
    const found = new Set(await unlessAborted(findTables(connection, unknown), signal))
    const missing = unknown.filter(({ format }) => !found.has(format))
    if (missing.length === 0) return new Map()
    // Formats that are registered meanwhile only make fewer admissible.
    const registered = await unlessAborted(readFormats(connection), signal)
    const { refused } = admitFormats(registered, missing, options)
    const admissible = missing.filter(({ format }) => !refused.has(format))
    if (admissible.length === 0) return refused
    const work = withSchemaLock(connection, lock => makeTables(connection, admissible, options, lock, signal), signal)
    const made = await unlessAborted(work, signal)
    for (const sentence of made.denied) onDenied(sentence)
    return new Map([...refused, ...made.refused])
  }
}

/** The formats that are registered and whose table exists. */
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
  readonly refused: ReadonlyMap<string, FormatRefusal>
  /** What the role may not do, and what to do about it. */
  readonly denied: readonly string[]
}

/** The table of a registered format is created again if it was dropped. */
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
  const denied: string[] = []
  for (const { format } of wanted) {
    if (refused.has(format)) continue
    signal.throwIfAborted()
    await lock.renew()
    const name = physicalName(format)
    if (!tables.has(name)) {
      const error = await makeTable(connection, formatTable(name)).catch((error: unknown) => error)
      // Devices name formats, so a limit that they reach must not stop the writer.
      if (['tables', 'keyspaces'].includes(guardrailOf(error) ?? '')) {
        refused.set(format, beyondGuardrail(error as Error))
        continue
      }
      if (error instanceof SinkError && isAnswer(error.cause, 'unauthorized')) {
        refused.set(format, notAllowed(connection, error.cause))
        denied.push(
          `the writer's role may not create tables for JSON formats: messages of new formats become dead letters (rule format-not-allowed). To allow it, run GRANT CREATE ON KEYSPACE "${connection.keyspace}"`,
        )
        continue
      }
      if (error !== undefined) throw error
    }
    const channel = channels.get(format)
    // The process that created a table and did not register it may have died, or lost the lock, before it created the index.
    if (options.publisherIndex && (channel !== undefined || !tables.has(name))) {
      await lock.renew()
      const unindexed = await makeIndex(connection, name)
      if (unindexed !== undefined) denied.push(unindexed)
    }
    if (channel !== undefined) await register(connection, format, name, channel)
  }
  return { refused, denied }
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
 * If the role may not create tables, messages of new formats are rejected and the writer goes on: devices name formats, and one device must not keep
 * the messages of others from being stored. A replay stores the rejected ones once an operator has granted the permission.
 */
function notAllowed({ keyspace }: Connection, { message }: Error): FormatRefusal {
  return {
    rule: 'format-not-allowed',
    reason: `the format has no table, and the writer's role may not create one: ${message}`,
    hint: `grant CREATE on the keyspace "${keyspace}" to the role of the writer, then replay the message`,
  }
}

function beyondGuardrail({ message }: Error): FormatRefusal {
  return {
    rule: 'format-not-allowed',
    reason: `the format has no table, and the cluster has reached its limit of tables: ${message}`,
    hint: 'raise the limit in the cassandra.yaml of the nodes, or lower formats_max, then replay the message',
  }
}

/** What a replay needs besides the inserts: records what was replayed, and deletes the rows of a position. */
export function openReplays(connection: Connection): KeyedReplays {
  const atRows = { consistency: connection.levels.rows }

  /** Deletes the rows of this position and format on all days of the channel, since no key begins with the position. */
  async function deleteOf(format: string, position: bigint, channel: string, signal: AbortSignal): Promise<void> {
    const [table, time] =
      format === senmlFormat ? [connection.table(senmlFormat), 'time_us'] : [connection.table(physicalName(format)), 'created']
    const days = `SELECT day FROM ${connection.table('sluice_channel_days')} WHERE channel = ? AND format = ?`
    const find = `SELECT ${time}, "index" FROM ${table} WHERE channel = ? AND day = ? AND position = ? ALLOW FILTERING`
    const remove = `DELETE FROM ${table} WHERE channel = ? AND day = ? AND ${time} = ? AND position = ? AND "index" = ?`
    for await (const page of connection.pages(days, [channel, format], atRows)) {
      for (const { day } of page) {
        signal.throwIfAborted()
        for (const row of await connection.query(find, [channel, day, position], atRows)) {
          await connection.query(remove, [channel, day, row[time], position, row['index']], atRows)
        }
      }
    }
  }

  return {
    async noteReplays(positions, signal) {
      const insert = `INSERT INTO ${connection.table('sluice_replayed')} (position, replayed_at) VALUES (?, ?)`
      for (const position of positions) {
        signal.throwIfAborted()
        await connection.query(insert, [position, new Date()], atRows)
      }
    },

    async deleteRows(position, channel, signal) {
      await deleteOf(senmlFormat, position, channel, signal)
      for await (const page of connection.pages(`SELECT format FROM ${connection.table('sluice_formats')}`)) {
        for (const { format } of page) {
          try {
            await deleteOf(format as string, position, channel, signal)
          } catch (error) {
            // The table of a format that an operator dropped has no rows.
            if (!isSchemaFault(error)) throw error
          }
        }
      }
    },
  }
}
