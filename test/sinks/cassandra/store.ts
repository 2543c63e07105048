// A Cassandra store for the tests of the sink: a keyspace that is emptied before each, since making it anew takes longer than most of them.

import { randomBytes } from 'node:crypto'
import { openAudit } from '../../../sinks/cassandra/audit.ts'
import { type Connection, openConnection, type Row } from '../../../sinks/cassandra/connection.ts'
import { openErasure } from '../../../sinks/cassandra/erase.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openLogTable } from '../../../sinks/cassandra/registry.ts'
import { maintain } from '../../../sinks/cassandra/schema.ts'
import { openReplaySink, openSink } from '../../../sinks/cassandra/sink.ts'
import { freeLog } from '../../../sinks/logs.ts'
import type { JsonObject } from '../../../transformers/record-batch.ts'
import type { AuditedStore } from '../../conformance/audited-store.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import type { SinkStore, StoredRow } from '../../conformance/sink/index.ts'
import type { TestMessage } from '../batches.ts'

export const defaults: Omit<SinkOptions, 'url'> = {
  tls: false,
  consistency: 'LOCAL_QUORUM',
  serialConsistency: 'SERIAL',
  replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}",
  bucketDays: 1,
  retentionDays: 0,
  publisherIndex: true,
  requestsInFlightMax: 256,
  connectTimeoutMs: 10_000,
  requestTimeoutMs: 12_000,
  formatsMax: 30,
  formatsPerChannelMax: 28,
}

export const identity = { logName: 'messages', logId: 'id-1', writer: 'writer-1' }

/** Of a keyspace that no other test has. */
export function optionsFor(contactPoint: string, some: Partial<SinkOptions> = {}): SinkOptions {
  return { ...defaults, url: `cassandra://${contactPoint}/t${randomBytes(6).toString('hex')}`, ...some }
}

/** The same through a proxy. */
export function through(options: SinkOptions, port: number): SinkOptions {
  return { ...options, url: options.url.replace(/:\d+\//, `:${port}/`) }
}

export async function dropKeyspace(connection: Connection): Promise<void> {
  await connection.change(`DROP KEYSPACE IF EXISTS "${connection.keyspace}"`)
}

/** The first is known to be refused before anything is sent, the others turn out to be too large for the server on the way. */
const nearlyTooLarge = 'x'.repeat(8 * 1024 * 1024 - 150)
const tooLarge = 'y'.repeat(9 * 1024 * 1024)

export const poisons: SinkStore['poisons'] = {
  'a document of the year 2500': offset => ({
    offset,
    documents: [
      { format: 'engine', payload: { a: 1 } },
      { format: 'engine', payload: { a: 2 }, createdUs: Date.UTC(2500, 0) * 1000 },
    ],
  }),
  'a text that is larger than a mutation may be': offset => ({ offset, records: [{ value: 1 }, { stringValue: tooLarge }] }),
  'a document that is larger than a mutation may be': offset => ({
    offset,
    documents: [
      { format: 'engine', payload: { a: 1 } },
      { format: 'engine', payload: { a: tooLarge } },
    ],
  }),
}

/** A mutation that fits by its values alone, and not with what the server adds to them. */
export function refusedByServer(offset: number): TestMessage {
  return { offset, records: [{ value: 1 }, { stringValue: nearlyTooLarge }, { value: 3 }] }
}

/** @param operator reads it, and goes around what may be between the sink and the server */
export function storeOn(operator: Connection, connection: Connection, options: SinkOptions): SinkStore {
  return {
    open: (some = {}) => withNumbers(openSink({ connection, options, logs: logsOf(some) }), some),
    replays: {
      audit: openAudit(connection, options),
      openSink: logNumber => openReplaySink({ connection, options, logNumber }),
    },
    erasure: openErasure(connection),
    maintain: (retention, now) => maintain(connection, { ...options, ...retention }, now),
    rows: () => rowsOf(operator),
    poisons,
    readableDuringWrite: true,
    formatsMax: options.formatsMax,
    formatsPerChannelMax: options.formatsPerChannelMax,
    close: () => connection.close(),
  }
}

export async function openStore(operator: Connection, options: SinkOptions): Promise<SinkStore> {
  await emptyStore(operator)
  return storeOn(operator, await openConnection(options, 'sluice test'), options)
}

export async function openAuditedStore(connection: Connection, options: SinkOptions): Promise<AuditedStore> {
  await emptyStore(connection)
  const rowsAt = (position: bigint, table = 'messages'): Promise<Row[]> =>
    connection.query(`SELECT * FROM ${connection.table(table)} WHERE position = ? ALLOW FILTERING`, [position])
  const removeRow = async (table: string, row: Row): Promise<void> => {
    const key = ['channel', 'day', table === 'messages' ? 'time_us' : 'created', 'position', 'index']
    const isIt = key.map(column => `"${column}" = ?`).join(' AND ')
    await connection.query(
      `DELETE FROM ${connection.table(table)} WHERE ${isIt}`,
      key.map(column => row[column]),
    )
  }
  const moveToOtherDay = async (table: string, position: bigint): Promise<void> => {
    for (const row of await rowsAt(position, table)) {
      await removeRow(table, row)
      const columns = Object.keys(row)
      const insert = `INSERT INTO ${connection.table(table)} (${columns.map(column => `"${column}"`).join(', ')})`
      const values = columns.map(column => (column === 'day' ? '2026-03-02' : row[column]))
      await connection.query(`${insert} VALUES (${columns.map(() => '?').join(', ')})`, values)
      // For `emptyStore`.
      const note = `INSERT INTO ${connection.table('sluice_channel_days')} (channel, format, day) VALUES (?, ?, ?)`
      await connection.query(note, [row['channel'], table, '2026-03-02'])
    }
  }
  return {
    open: some => withNumbers(openSink({ connection, options, logs: logsOf(some) }), some),
    audit: openAudit(connection, options),
    free: number => freeLog(openLogTable(connection), number, openAudit(connection, options)),
    openReplay: logNumber => openReplaySink({ connection, options, logNumber }),
    async double(position) {
      const other = '2026-03-02'
      await connection.query(`INSERT INTO ${connection.table('sluice_channel_days')} (channel, format, day) VALUES (?, 'messages', ?)`, [
        'channel-1',
        other,
      ])
      for (const row of await rowsAt(position)) {
        await connection.query(
          `INSERT INTO ${connection.table('messages')} (channel, day, time_us, position, "index") VALUES (?, ?, ?, ?, ?)`,
          [row['channel'], other, row['time_us'], row['position'], row['index']],
        )
      }
    },
    async remove(position) {
      for await (const formats of connection.pages(`SELECT table_name FROM ${connection.table('sluice_formats')}`)) {
        for (const { table_name: name } of formats) {
          for (const row of await rowsAt(position, name as string)) await removeRow(name as string, row)
        }
      }
      for (const row of await rowsAt(position)) await removeRow('messages', row)
    },
    foreignChanges: {
      'the bucket of a record': { of: 'record', column: 'time', change: position => moveToOtherDay('messages', position) },
      'the bucket of a document': { of: 'document', column: 'created', change: position => moveToOtherDay('engine', position) },
    },
    shown: async statement => (await connection.query(statement)).length,
    dropFormat: async format => void (await connection.change(`DROP TABLE ${connection.table(format)}`)),
    close: async () => undefined,
  }
}

/** What was written is deleted by the days that are listed, and what was registered conditionally by conditions, as it must be. Tables stay. */
export async function emptyStore(connection: Connection): Promise<void> {
  const there = new Set(
    (await connection.query('SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?', [connection.keyspace])).map(
      row => row['table_name'] as string,
    ),
  )
  if (!there.has('sluice_publisher_days')) return
  const all = async (table: string, columns: string): Promise<Row[]> => {
    const rows: Row[] = []
    for await (const page of connection.pages(`SELECT ${columns} FROM ${connection.table(table)}`)) rows.push(...page)
    return rows
  }
  const names = new Map([['messages', 'messages']])
  for (const row of await all('sluice_formats', 'format, table_name')) names.set(row['format'] as string, row['table_name'] as string)
  for (const { channel, format, day } of await all('sluice_channel_days', 'channel, format, day')) {
    const name = names.get(format as string)
    if (name !== undefined && there.has(name))
      await connection.query(`DELETE FROM ${connection.table(name)} WHERE channel = ? AND day = ?`, [channel, day])
    await connection.query(`DELETE FROM ${connection.table('sluice_channel_days')} WHERE channel = ? AND format = ?`, [channel, format])
  }
  for (const { channel, publisher } of await all('sluice_publisher_days', 'DISTINCT channel, publisher')) {
    await connection.query(`DELETE FROM ${connection.table('sluice_publisher_days')} WHERE channel = ? AND publisher = ?`, [
      channel,
      publisher,
    ])
  }
  for (const { position } of await all('sluice_replayed', 'position')) {
    await connection.query(`DELETE FROM ${connection.table('sluice_replayed')} WHERE position = ?`, [position])
  }
  for (const { id } of await all('sluice_erasures', 'id')) {
    await connection.query(`DELETE FROM ${connection.table('sluice_erasures')} WHERE id = ?`, [id])
  }
  for (const { number } of await all('sluice_logs', 'number')) {
    await connection.query(`DELETE FROM ${connection.table('sluice_logs')} WHERE number = ? IF EXISTS`, [number])
  }
  for (const format of names.keys()) {
    if (format !== 'messages')
      await connection.query(`DELETE FROM ${connection.table('sluice_formats')} WHERE format = ? IF EXISTS`, [format])
  }
}

export async function rowsOf(connection: Connection): Promise<StoredRow[]> {
  const rows: StoredRow[] = []
  for await (const page of connection.pages(`SELECT * FROM ${connection.table('messages')}`)) rows.push(...page.map(recordOf))
  for await (const formats of connection.pages(`SELECT format, table_name FROM ${connection.table('sluice_formats')}`)) {
    for (const { format, table_name: name } of formats) {
      for await (const page of connection.pages(`SELECT * FROM ${connection.table(name as string)}`)) {
        for (const row of page) {
          rows.push({
            table: format as string,
            ...originOf(row),
            createdNs: row['created'] as bigint,
            payload: withBigints(row['payload'] as string),
          })
        }
      }
    }
  }
  return rows.sort((one, other) => (one.position === other.position ? one.index - other.index : one.position < other.position ? -1 : 1))
}

function recordOf(row: Row): StoredRow {
  const kept = (name: string): unknown => row[name] ?? undefined
  const data = kept('data_value') as Uint8Array | undefined
  return {
    table: 'messages',
    ...originOf(row),
    name: row['name'] as string,
    unit: kept('unit') as string | undefined,
    timeUs: Number(row['time_us']),
    value: kept('value') as number | undefined,
    stringValue: kept('string_value') as string | undefined,
    boolValue: kept('bool_value') as boolean | undefined,
    dataValue: data === undefined ? undefined : new Uint8Array(data),
    sum: kept('sum') as number | undefined,
    updateTime: kept('update_time') as number | undefined,
  }
}

function originOf(row: Row) {
  return {
    channel: row['channel'] as string,
    subtopic: row['subtopic'] as string,
    publisher: row['publisher'] as string,
    protocol: row['protocol'] as string,
    position: row['position'] as bigint,
    index: row['index'] as number,
  }
}

function withBigints(text: string): JsonObject {
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '') ? BigInt(context!.source!) : value,
  ) as JsonObject
}
