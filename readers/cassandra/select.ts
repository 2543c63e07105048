// Builds the statements of the Cassandra reader: from a query to CQL and its values. Pure.
//
// Everything is found by keys: days by channel, rows by channel and day, in the order of the table. There are few different texts: query parameters
// are always values, and an open range ends at the limits of the column's type.

import { quoted } from '../../sinks/cassandra/connection.ts'
import { dateBytes } from '../../sinks/cassandra/day-registry.ts'
import { type Column, formatTable, messagesTable, physicalName } from '../../sinks/cassandra/schema.ts'
import { int64Max, int64Min } from '../../transformers/json/canonical.ts'
import { unitsDown, unitsUp } from '../../transformers/time-units.ts'
import { type Direction, type Filter, type RowKey, senmlFormat } from '../reader.ts'

/** The first value is the channel, except in the statement for the store's formats. */
export interface Statement {
  readonly cql: string
  readonly values: readonly unknown[]
  /** The types of the values, for a statement that the driver should not prepare. */
  readonly types?: readonly string[]
}

const int32Max = 2 ** 31 - 1

/** The days from first to last on which the channel, or the publisher in it, has rows of the format. */
export function selectDays(keyspace: string, filter: Filter, direction: Direction, first: number, last: number): Statement {
  const { where, order, values } = daysOf(keyspace, filter, direction)
  return { cql: `${where} AND day >= ? AND day <= ? ${order}`, values: [...values, dateBytes(first), dateBytes(last)] }
}

/** The latest such day that is not after the given one. If partitions have several days, that is the partition of the given day. */
export function selectDayBefore(keyspace: string, filter: Filter, day: number): Statement {
  const { where, order, values } = daysOf(keyspace, filter, 'desc')
  return { cql: `${where} AND day <= ? ${order} LIMIT 1`, values: [...values, dateBytes(day)] }
}

function daysOf(
  keyspace: string,
  { channel, publisher, format }: Filter,
  direction: Direction,
): { where: string; order: string; values: readonly unknown[] } {
  const table = (name: string): string => `${quoted(keyspace)}.${quoted(name)}`
  if (publisher === undefined) {
    const where = `SELECT day FROM ${table('sluice_channel_days')} WHERE channel = ? AND format = ?`
    return { where, order: `ORDER BY day ${direction}`, values: [channel, format] }
  }
  const where = `SELECT day FROM ${table('sluice_publisher_days')} WHERE channel = ? AND publisher = ? AND format = ?`
  return { where, order: `ORDER BY format ${direction}, day ${direction}`, values: [channel, publisher, format] }
}

/** Which rows of a partition to read. */
export interface PartitionRows {
  readonly columns: readonly string[]
  readonly channel: string
  readonly day: number
  readonly range: Pick<KeyRange, 'lower' | 'upper'>
  readonly direction: Direction
  readonly limit: number
}

/** Rows of one partition, in order. The driver fetches them page by page. */
export function selectRows(source: Source, { columns, channel, day, range, direction, limit }: PartitionRows): Statement {
  const key = list(source.key)
  const order = source.key.map(column => `${quoted(column)} ${direction}`).join(', ')
  return {
    cql: `SELECT ${list(columns)} FROM ${source.table} WHERE channel = ? AND day = ? AND (${key}) >= (?, ?, ?) AND (${key}) < (?, ?, ?)
      ORDER BY ${order} LIMIT ?`,
    values: [channel, dateBytes(day), ...valuesOf(range.lower), ...valuesOf(range.upper), Math.min(limit, int32Max)],
  }
}

/** The rows of one publisher, by the index. They can only be returned in the order of the table: newest first. */
export function selectPublisherRows(
  source: Source,
  { columns, channel, day, range, limit }: Omit<PartitionRows, 'direction'>,
  publisher: string,
): Statement {
  const key = list(source.key)
  return {
    cql: `SELECT ${list(columns)} FROM ${source.table} WHERE channel = ? AND day = ? AND publisher = ? AND (${key}) >= (?, ?, ?) AND (${key}) < (?, ?, ?)
      LIMIT ?`,
    values: [channel, dateBytes(day), publisher, ...valuesOf(range.lower), ...valuesOf(range.upper), Math.min(limit, int32Max)],
  }
}

/** Number of keys in one statement. */
export const keysTogether = 16

/** Whole rows by their keys, in one partition, in the order of the table. The text always has the same number of keys: the last one is repeated. */
export function selectRowsAt(source: Source, channel: string, day: number, keys: readonly ClusteringKey[]): Statement {
  const { columns, table, key } = source
  const filled = Array.from({ length: keysTogether }, (_, nth) => keys[nth] ?? keys.at(-1)!)
  return {
    cql: `SELECT ${list(columns)} FROM ${table} WHERE channel = ? AND day = ? AND (${list(key)}) IN (${filled.map(() => '(?, ?, ?)').join(', ')})`,
    values: [channel, dateBytes(day), ...filled.flatMap(valuesOf)],
  }
}

/** All formats of the store. */
export function selectFormats(keyspace: string): Statement {
  return { cql: `SELECT format FROM ${quoted(keyspace)}.${quoted('sluice_formats')}`, values: [] }
}

/** Only checks that the table exists: no row has this day. */
export function selectAnything({ key, table }: Source, channel: string): Statement {
  return {
    cql: `SELECT ${list(key)} FROM ${table} WHERE channel = ? AND day = ?`,
    values: [channel, dateBytes(firstDayOfAll)],
    types: ['text', 'date'],
  }
}

function list(columns: readonly string[]): string {
  return columns.map(quoted).join(', ')
}

function valuesOf({ time, position, index }: ClusteringKey): readonly unknown[] {
  return [time, position, index]
}

/** The table of a format, as the sink creates it. */
export interface Source {
  readonly kind: 'senml' | 'document'
  /** With its keyspace, quoted. */
  readonly table: string
  /** The columns by which the table orders rows, the time first. */
  readonly key: readonly [time: string, position: string, index: string]
  /** All columns of a row. */
  readonly columns: readonly string[]
  /** Nanoseconds in a unit of its time. */
  readonly unitNs: bigint
}

/** The name of a format's table follows from the format, so it need not be looked up. */
export function sourceOf(keyspace: string, format: string): Source {
  const isSenml = format === senmlFormat
  const { name, columns } = isSenml ? messagesTable : formatTable(physicalName(format))
  const names = (kinds: readonly Column['kind'][]): string[] =>
    columns.filter(({ kind }) => kinds.includes(kind)).map(column => column.name)
  const [time, position, index] = names(['clustering'])
  return {
    kind: isSenml ? 'senml' : 'document',
    table: `${quoted(keyspace)}.${quoted(name)}`,
    key: [time!, position!, index!],
    columns: names(['clustering', 'regular']),
    unitNs: isSenml ? 1000n : 1n,
  }
}

/** By filter, the column that it tests. Channel, format and time are found by keys. */
const columnOf = {
  publisher: 'publisher',
  subtopic: 'subtopic',
  protocol: 'protocol',
  name: 'name',
  unit: 'unit',
  value: 'value',
  boolValue: 'bool_value',
  stringValue: 'string_value',
  dataValue: 'data_value',
} as const satisfies Partial<Record<keyof Filter, string>>

/** The columns that decide whether a row matches; none if all rows of the walk match. */
export function testedColumns(filter: Filter): string[] {
  const filters = Object.keys(columnOf) as (keyof typeof columnOf)[]
  const columns: string[] = filters.filter(one => filter[one] !== undefined).map(one => columnOf[one])
  return filter.payload.length > 0 ? [...columns, 'payload'] : columns
}

/** Most bytes of channel, publisher and format together: the sink stores nothing longer, since the store's keys cannot hold it. */
const identifiersBytesMax = 65_500

/** False if no such row can be stored. The store would refuse the query, or, for half a surrogate pair, look for another text. */
export function isStorable({ channel, publisher = '', format }: Filter): boolean {
  const texts = [channel, publisher, format]
  if (!texts.every(text => text.isWellFormed())) return false
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0) <= identifiersBytesMax
}

/** A row's key in the order of a table: by time, in the table's unit, then by position and index, all signed. */
export interface ClusteringKey {
  readonly time: bigint
  readonly position: bigint
  readonly index: number
}

/** A range of keys: `lower` is inclusive, `upper` is not. */
export interface KeyRange {
  readonly lower: ClusteringKey
  readonly upper: ClusteringKey
  /** The days of such rows, since 1970-01-01; the limits of dates if the range is open. A partition has one day, or begins with it. */
  readonly firstDay: number
  readonly lastDay: number
}

/** The earliest day that a date can represent. */
export const firstDayOfAll = -(2 ** 31)
/** The latest day that a date can represent. */
export const lastDayOfAll = 2 ** 31 - 1

const int32Min = -(2 ** 31)
const dayNs = 86_400_000_000_000n

/**
 * @param unitNs nanoseconds in a unit of the table's time
 * @param after the key of a row: only rows after it, in the direction
 * @returns undefined if no row can be in the range
 */
export function keyRangeOf(
  { fromNs, toNs }: Pick<Filter, 'fromNs' | 'toNs'>,
  unitNs: bigint,
  direction: Direction,
  after: RowKey | undefined,
): KeyRange | undefined {
  let lower = boundKey(fromNs, unitNs) ?? { time: int64Min, position: int64Min, index: int32Min }
  let upper = boundKey(toNs, unitNs) ?? { time: int64Max, position: int64Max, index: int32Max }
  if (after !== undefined) {
    const key = { time: unitsUp(after.timeNs, unitNs), position: after.position, index: after.index }
    // An index is an ordinal in a message, so adding 1 cannot overflow.
    if (direction === 'asc') lower = later(lower, { ...key, index: key.index + 1 })
    else upper = earlier(upper, key)
  }
  if (upper.time < int64Min || lower.time > int64Max || compareKeys(lower, upper) >= 0) return undefined
  lower = lower.time < int64Min ? { ...lower, time: int64Min } : lower
  upper = upper.time > int64Max ? { time: int64Max, position: int64Max, index: int32Max } : upper
  // A range that ends at midnight contains nothing of the day that begins then.
  const last = upper.position === int64Min && upper.index === int32Min ? upper.time - 1n : upper.time
  const firstDay = lower.time === int64Min ? firstDayOfAll : dayOf(lower.time, unitNs)
  const lastDay = last === int64Max ? lastDayOfAll : dayOf(last, unitNs)
  return { lower, upper, firstDay, lastDay }
}

/** The order of a table: negative if the first key comes before the other. */
export function compareKeys(one: ClusteringKey, other: ClusteringKey): number {
  if (one.time !== other.time) return one.time < other.time ? -1 : 1
  if (one.position !== other.position) return one.position < other.position ? -1 : 1
  return one.index - other.index
}

/** A key before every row of this time, or of the first whole unit after it. */
function boundKey(ns: bigint | undefined, unitNs: bigint): ClusteringKey | undefined {
  return ns === undefined ? undefined : { time: unitsUp(ns, unitNs), position: int64Min, index: int32Min }
}

/** The day of a time, also before 1970. */
function dayOf(time: bigint, unitNs: bigint): number {
  return Number(unitsDown(time, dayNs / unitNs))
}

function later(one: ClusteringKey, other: ClusteringKey): ClusteringKey {
  return compareKeys(one, other) < 0 ? other : one
}

function earlier(one: ClusteringKey, other: ClusteringKey): ClusteringKey {
  return compareKeys(one, other) < 0 ? one : other
}
