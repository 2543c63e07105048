// The tables of the store as CQL, and the statements that write, delete and read back their rows.

import { senmlFormat } from '../../transformers/record-batch.ts'
import { physicalName } from './physical-name.ts'

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

/** In the order of the values that encode.ts gives for a record. */
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

/** In the order of the values that encode.ts gives for a document. */
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

/** What the schema is, by name; the lock of whoever changes it is a row of its own. */
export const schemaTable: Table = { name: 'sluice_schema', columns: [partition('name', 'text'), regular('value', 'text')] }

export const ownTables: readonly Table[] = [
  messagesTable,
  {
    name: 'sluice_logs',
    columns: [
      partition('number', 'int'),
      regular('name', 'text'),
      regular('id', 'text'),
      regular('writer', 'text'),
      regular('accepted_at', 'timestamp'),
    ],
  },
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

/** A name of ours or one that physicalName made: it holds no quote. */
export function quoted(name: string): string {
  return `"${name}"`
}

export function createTable(keyspace: string, { name, columns }: Table): string {
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

/** By publisher, beside the partition that a statement names. What it is called is the store's business. */
export function createIndex(keyspace: string, table: string): string {
  return `CREATE INDEX IF NOT EXISTS ON ${quoted(keyspace)}.${quoted(table)} ("publisher") USING 'sai'`
}

/** Of one table: of `messages`, or of a format. */
export interface RowStatements {
  /** Takes the values of all columns in their order. */
  readonly insert: string
  /** These take the first `keyLength` of them. */
  readonly remove: string
  readonly find: string
}

/** The values of a row that are its primary key stand first. */
export const keyLength = 5
/** Where the position stands among them. */
export const positionColumn = 3

export function rowStatements(keyspace: string, format: string): RowStatements {
  const { name, columns } = format === senmlFormat ? messagesTable : formatTable(physicalName(format))
  const table = `${quoted(keyspace)}.${quoted(name)}`
  const names = columns.map(column => quoted(column.name))
  const key = names
    .slice(0, keyLength)
    .map(column => `${column} = ?`)
    .join(' AND ')
  return {
    insert: `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
    remove: `DELETE FROM ${table} WHERE ${key}`,
    find: `SELECT writetime("protocol") AS written_us FROM ${table} WHERE ${key}`,
  }
}
