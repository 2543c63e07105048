// The store's tables: creates those that are missing, each with its index, checks the existing ones, and names the tables of formats.

import { named } from '../../config/options/variable.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { type Erasure, erasureText, retentionNotes } from '../erasure.ts'
import { physicalName as nameBy } from '../formats.ts'
import { SinkError, UnpreparedStoreError } from '../sink-error.ts'
import { type Connection, quoted, type Row } from './connection.ts'
import { dayMs, deleteOldDays, oldestKeptDay } from './day-registry.ts'
import { isAnswer, isUnchangeable } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { withSchemaLock } from './schema-lock.ts'

export interface Column {
  readonly name: string
  readonly type: string
  readonly kind: 'partition' | 'clustering' | 'regular'
  readonly order?: 'DESC'
}

export interface Table {
  readonly name: string
  readonly columns: readonly Column[]
}

const partition = (name: string, type: string): Column => ({ name, type, kind: 'partition' })
const ascending = (name: string, type: string): Column => ({ name, type, kind: 'clustering' })
const descending = (name: string, type: string): Column => ({ name, type, kind: 'clustering', order: 'DESC' })
const regular = (name: string, type: string): Column => ({ name, type, kind: 'regular' })

/** In the order of a record's values in encode.ts. */
export const messagesTable: Table = {
  name: senmlFormat,
  columns: [
    partition('channel', 'text'),
    partition('day', 'date'),
    descending('time_us', 'bigint'),
    descending('position', 'bigint'),
    descending('index', 'int'),
    regular('subtopic', 'text'),
    regular('publisher', 'text'),
    regular('protocol', 'text'),
    regular('name', 'text'),
    regular('unit', 'text'),
    regular('value', 'double'),
    regular('string_value', 'text'),
    regular('bool_value', 'boolean'),
    regular('data_value', 'blob'),
    regular('sum', 'double'),
    regular('update_time', 'double'),
  ],
}

/** In the order of a document's values in encode.ts. */
export function formatTable(name: string): Table {
  return {
    name,
    columns: [
      partition('channel', 'text'),
      partition('day', 'date'),
      descending('created', 'bigint'),
      descending('position', 'bigint'),
      descending('index', 'int'),
      regular('subtopic', 'text'),
      regular('publisher', 'text'),
      regular('protocol', 'text'),
      regular('payload', 'text'),
    ],
  }
}

/** The settings of the schema, by name. The lock for changing it is one more row. */
export const schemaTable: Table = { name: 'sluice_schema', columns: [partition('name', 'text'), regular('value', 'text')] }

export const logsTable: Table = {
  name: 'sluice_logs',
  columns: [
    partition('number', 'int'),
    regular('name', 'text'),
    regular('id', 'text'),
    regular('writer', 'text'),
    regular('accepted_at', 'timestamp'),
    // A JSON array of media types; null: all.
    regular('content_types', 'text'),
  ],
}

/** What was erased, as JSON (`erasureText`). */
export const erasuresTable: Table = { name: 'sluice_erasures', columns: [partition('id', 'text'), regular('erasure', 'text')] }

export const ownTables: readonly Table[] = [
  messagesTable,
  logsTable,
  erasuresTable,
  {
    name: 'sluice_formats',
    columns: [partition('format', 'text'), regular('table_name', 'text'), regular('channel', 'text'), regular('created_at', 'timestamp')],
  },
  { name: 'sluice_replayed', columns: [partition('position', 'bigint'), regular('replayed_at', 'timestamp')] },
  { name: 'sluice_channel_days', columns: [partition('channel', 'text'), partition('format', 'text'), ascending('day', 'date')] },
  {
    name: 'sluice_publisher_days',
    columns: [partition('channel', 'text'), partition('publisher', 'text'), ascending('format', 'text'), ascending('day', 'date')],
  },
]

function createTable(keyspace: string, { name, columns }: Table): string {
  const named = (kind: Column['kind']): Column[] => columns.filter(column => column.kind === kind)
  const list = (some: readonly Column[]): string => some.map(column => quoted(column.name)).join(', ')
  const clustering = named('clustering')
  const key = clustering.length === 0 ? `(${list(named('partition'))})` : `(${list(named('partition'))}), ${list(clustering)}`
  const order = clustering.some(column => column.order === 'DESC')
    ? ` WITH CLUSTERING ORDER BY (${clustering.map(column => `${quoted(column.name)} ${column.order ?? 'ASC'}`).join(', ')})`
    : ''
  const defined = columns.map(column => `${quoted(column.name)} ${column.type}`).join(', ')
  return `CREATE TABLE IF NOT EXISTS ${quoted(keyspace)}.${quoted(name)} (${defined}, PRIMARY KEY (${key}))${order}`
}

/** By publisher, within the partition that a statement names. Cassandra chooses the index's name. */
function createIndex(keyspace: string, table: string): string {
  return `CREATE INDEX IF NOT EXISTS ON ${quoted(keyspace)}.${quoted(table)} ("publisher") USING 'sai'`
}

/** Inserts a row into `messages`, or into the table of a format, with the values of all columns in their order. */
export function insertStatement(keyspace: string, format: string): string {
  const { name, columns } = format === senmlFormat ? messagesTable : formatTable(physicalName(format))
  const names = columns.map(column => quoted(column.name)).join(', ')
  return `INSERT INTO ${quoted(keyspace)}.${quoted(name)} (${names}) VALUES (${columns.map(() => '?').join(', ')})`
}

/**
 * Cassandra's names have letters, digits and `_`, at most 48, and in quotes they are case-sensitive. Sluice's own tables are `messages` and those
 * that begin with `sluice_`. The separator may also occur in formats, so a format that ends like a name that is made here is not harmless.
 */
const rule = {
  harmless: /^(?!messages$)(?!sluice_)(?!.*_[0-9a-f]{32}$)[A-Za-z0-9_]{1,48}$/,
  foreign: /[^a-z0-9_]+/g,
  separator: '_',
  prefixLengthMax: 14,
}

/** The table that a JSON format is stored in: no two formats share one. */
export function physicalName(format: string): string {
  return nameBy(format, rule)
}

/** Increases when the tables change in a way that an older sluice would not understand. */
const schemaVersion = '1'

/** The tables of the system's schema are local to each node and have no replicas, so a level such as `TWO` could not be reached. */
const local = { consistency: 1 }

/**
 * Called from time to time by one process.
 *
 * @throws the driver's errors
 */
export async function maintain(connection: Connection, options: SinkOptions, now = new Date()): Promise<void> {
  const { retentionDays } = options
  const nowMs = now.getTime()
  const notes = retentionNotes(options, nowMs, retentionDays === 0 ? undefined : oldestKeptDay(nowMs, retentionDays) * dayMs)
  for (const note of notes) await noteErasure(connection, note)
  if (notes.length > 0) await deleteOldDays(connection, options, nowMs)
}

export async function noteErasure(connection: Connection, erasure: Erasure): Promise<void> {
  const insert = `INSERT INTO ${connection.table(erasuresTable.name)} (id, erasure) VALUES (?, ?)`
  await connection.query(insert, [erasure.id, erasureText(erasure)])
}

/**
 * Creates the keyspace and the missing tables, and checks the existing ones. Several processes may call it at once.
 *
 * @throws SinkError (systemic) if a table has other columns, if the bucket size or the version differs, or if something is missing and may not be
 *   created
 */
export async function prepareSchema(connection: Connection, { replication, bucketDays }: SinkOptions): Promise<void> {
  await makeKeyspace(connection, replication)
  if ((await tablesOf(connection)).get(schemaTable.name) === undefined) await makeTable(connection, schemaTable)
  const isMissing = ({ name }: Table, tables: ReadonlyMap<string, unknown>): boolean => !tables.has(name)
  const before = await tablesOf(connection)
  if (ownTables.some(table => isMissing(table, before))) {
    await withSchemaLock(connection, async lock => {
      const tables = await tablesOf(connection)
      for (const table of ownTables) {
        await lock.renew()
        if (isMissing(table, tables)) await makeTable(connection, table)
      }
    })
  }
  await checkTables(connection)
  for (const { name, value, explain } of settingsOf(connection, bucketDays)) {
    const found = (await readSetting(connection, name)) ?? (await noteSetting(connection, name, value))
    if (found !== value) throw new SinkError('systemic', explain(String(found)))
  }
}

/**
 * Checks the schema and changes nothing.
 *
 * @throws SinkError (systemic) if the keyspace is not a store of this version
 */
export async function checkStore(connection: Connection, { bucketDays }: SinkOptions): Promise<void> {
  await checkTables(connection)
  for (const { name, value, explain } of settingsOf(connection, bucketDays)) {
    const found = await readSetting(connection, name)
    if (found !== value) throw new SinkError('systemic', explain(String(found)))
  }
}

interface Setting {
  readonly name: string
  readonly value: string
  /** What to do if the store has another value. */
  readonly explain: (found: string) => string
}

function settingsOf({ keyspace }: Connection, bucketDays: number): Setting[] {
  return [
    {
      name: 'version',
      value: schemaVersion,
      explain: found =>
        `the tables of the keyspace "${keyspace}" have schema ${found}, and this version needs ${schemaVersion}: start the version that created them, or use another keyspace`,
    },
    {
      name: 'bucket_days',
      value: String(bucketDays),
      explain: found =>
        `the partitions of the keyspace "${keyspace}" have ${found} days each, but ${named('store.bucket_days')} is ${bucketDays}: set it to ${found}, or use another keyspace`,
    },
  ]
}

/** Also called while a sink is open, to find a table that was dropped. */
export async function checkTables(connection: Connection): Promise<void> {
  const found = await tablesOf(connection)
  for (const table of [schemaTable, ...ownTables]) {
    const columns = found.get(table.name)
    const described = `the table "${table.name}" of the keyspace "${connection.keyspace}"`
    if (columns === undefined)
      throw new UnpreparedStoreError(`${described} is missing: restart the writer, which creates it, or restore it`)
    const wrong = wrongColumn(table, columns)
    if (wrong !== undefined)
      throw new SinkError(
        'systemic',
        `${described} was not created by sluice: ${wrong}. Use a separate keyspace in ${named('store.url', 'SVC_WIDECOLUMN_URL')}`,
      )
  }
}

/** The columns of each existing table. */
async function tablesOf(connection: Connection): Promise<Map<string, Map<string, Row>>> {
  const sql = 'SELECT table_name, column_name, kind, type, clustering_order FROM system_schema.columns WHERE keyspace_name = ?'
  const tables = new Map<string, Map<string, Row>>()
  for await (const rows of connection.pages(sql, [connection.keyspace], local)) {
    for (const row of rows) {
      const name = row['table_name'] as string
      let columns = tables.get(name)
      if (columns === undefined) tables.set(name, (columns = new Map()))
      columns.set(row['column_name'] as string, row)
    }
  }
  return tables
}

/** Additional columns do no harm, unless they are part of the key. */
function wrongColumn(table: Table, columns: ReadonlyMap<string, Row>): string | undefined {
  for (const { name, type, kind } of table.columns) {
    const found = columns.get(name)
    const kindFound = found?.['kind'] === 'partition_key' ? 'partition' : found?.['kind']
    if (found === undefined) return `it has no column "${name}"`
    if (found['type'] !== type) return `its column "${name}" has the type ${String(found['type'])} instead of ${type}`
    if (kindFound !== kind) return `its column "${name}" is ${String(kindFound)} instead of ${kind}`
  }
  const own = new Set(table.columns.map(({ name }) => name))
  const foreign = [...columns].find(([name, { kind }]) => !own.has(name) && kind !== 'regular' && kind !== 'static')
  return foreign === undefined ? undefined : `its key has the column "${foreign[0]}"`
}

async function makeKeyspace(connection: Connection, replication: string): Promise<void> {
  const [found] = await connection.query(
    'SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?',
    [connection.keyspace],
    local,
  )
  if (found !== undefined) return
  await change(
    connection,
    `CREATE KEYSPACE IF NOT EXISTS ${quoted(connection.keyspace)} WITH replication = ${replication}`,
    `the keyspace "${connection.keyspace}" is missing, and the writer's role may not create it: create it, or grant the role CREATE ON ALL KEYSPACES`,
  )
}

/** @throws SinkError (systemic) if the role may not create it */
export async function makeTable(connection: Connection, table: Table): Promise<void> {
  await change(
    connection,
    createTable(connection.keyspace, table),
    `the table "${table.name}" is missing, and the writer's role may not create it: grant the role CREATE, SELECT, MODIFY ON KEYSPACE "${connection.keyspace}"`,
  )
}

async function change(connection: Connection, cql: string, denied: string): Promise<void> {
  try {
    await changeSchema(connection, cql)
  } catch (error) {
    if (isAnswer(error, 'unauthorized')) throw new SinkError('systemic', denied, { cause: error })
    throw error
  }
}

/**
 * @throws SinkError (transient) if not all nodes have the change in time
 * @throws the driver's errors
 */
async function changeSchema(connection: Connection, cql: string): Promise<void> {
  try {
    if (await connection.change(cql)) return
  } catch (error) {
    // Another process was faster, through another node.
    if (isAnswer(error, 'alreadyExists')) return
    throw error
  }
  throw new SinkError('transient', 'the nodes of the cluster have not agreed on the schema in time: check whether one of them is down')
}

async function readSetting(connection: Connection, name: string): Promise<string | undefined> {
  const [row] = await connection.query(`SELECT value FROM ${connection.table(schemaTable.name)} WHERE name = ?`, [name])
  return row?.['value'] as string | undefined
}

/** Stores a setting unless another writer has stored it at the same time; only a serial read is sure to see that. */
async function noteSetting(connection: Connection, name: string, value: string): Promise<string | undefined> {
  const table = connection.table(schemaTable.name)
  await connection.query(`INSERT INTO ${table} (name, value) VALUES (?, ?) IF NOT EXISTS`, [name, value], { isIdempotent: false })
  const [row] = await connection.query(`SELECT value FROM ${table} WHERE name = ?`, [name], { consistency: connection.levels.serial })
  return row?.['value'] as string | undefined
}

/** The prefix of sluice's tables without rows. */
const ownPrefix = 'sluice_'

/**
 * Creates the missing indexes by publisher: of tables that another version created, or whose creator died. Without the index, finding one publisher's
 * rows means reading all rows of a day. Nodes index existing rows in the background, and refuse queries that need the index until it is built.
 *
 * @returns if they cannot be created (the role may not, or the cluster has no such index): why, and what to do about it. Readers then walk through
 *   the days. Undefined if all indexes exist
 */
export async function prepareIndexes(connection: Connection): Promise<string | undefined> {
  if ((await unindexedTables(connection)).length === 0) return undefined
  return await withSchemaLock(connection, async lock => {
    for (const name of await unindexedTables(connection)) {
      await lock.renew()
      const denied = await makeIndex(connection, name)
      if (denied !== undefined) return denied
    }
    return undefined
  })
}

/**
 * The caller holds the schema lock.
 *
 * @returns why the index cannot be created, and what to do about it; undefined if it exists
 */
export async function makeIndex(connection: Connection, table: string): Promise<string | undefined> {
  try {
    await changeSchema(connection, createIndex(connection.keyspace, table))
    return undefined
  } catch (error) {
    if (!isUnchangeable(error)) throw error
    return `the tables of the keyspace "${connection.keyspace}" have no index by publisher, so readers find one thing's messages by reading all messages of its days (${error.message}): use Cassandra 5, and, if another role created the tables, grant this role ALTER ON KEYSPACE "${connection.keyspace}"`
  }
}

async function unindexedTables(connection: Connection): Promise<string[]> {
  const cql = 'SELECT table_name, options FROM system_schema.indexes WHERE keyspace_name = ?'
  // The tables of the system's schema are local to each node.
  const rows = await connection.query(cql, [connection.keyspace], { consistency: 1 })
  const indexed = new Set(rows.filter(({ options }) => targetOf(options) === 'publisher').map(row => row['table_name'] as string))
  const tables = await tablesOf(connection)
  return [...tables].flatMap(([name, columns]) =>
    name.startsWith(ownPrefix) || indexed.has(name) || !columns.has('publisher') ? [] : [name],
  )
}

function targetOf(options: unknown): string | undefined {
  return (options as Readonly<Record<string, string>> | null)?.['target']
}
