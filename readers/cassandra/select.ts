// The statements of the Cassandra reader, pure: from a question to CQL and its values.
//
// Everything is looked for by keys: days by channel, rows by channel and day, in the order that they lie in. There are few texts: what is
// asked for is always a value, and a range that is open at an end goes to the end of what the column holds.

import { dateBytes } from '../../sinks/cassandra/date.ts'
import { quoted } from '../../sinks/cassandra/statements.ts'
import type { Direction, Selection } from '../query.ts'
import { firstDayOfAll, type KeyRange, type Place } from './key-range.ts'
import type { Source } from './source.ts'

/** The first value is the channel, but for the formats that the store has. */
export interface Statement {
  readonly cql: string
  readonly values: readonly unknown[]
  /** Types of the values, of a statement that the driver is not to prepare. */
  readonly types?: readonly string[]
}

const int32Max = 2 ** 31 - 1

/** The days from first to last on which the channel, or the publisher in it, has rows of the format. */
export function selectDays(keyspace: string, selection: Selection, direction: Direction, first: number, last: number): Statement {
  const { where, order, values } = daysOf(keyspace, selection, direction)
  return { cql: `${where} AND day >= ? AND day <= ? ${order}`, values: [...values, dateBytes(first), dateBytes(last)] }
}

/** The latest of them that is not after the day: where a partition is of several days, the one that holds it. */
export function selectDayBefore(keyspace: string, selection: Selection, day: number): Statement {
  const { where, order, values } = daysOf(keyspace, selection, 'desc')
  return { cql: `${where} AND day <= ? ${order} LIMIT 1`, values: [...values, dateBytes(day)] }
}

function daysOf(
  keyspace: string,
  { channel, publisher, format }: Selection,
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

/** What is asked for of one partition. */
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

/** Of them those of one publisher, by the index. What is found by an index can be put in no other order than the table's: newest first. */
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

/** Places of one statement. */
export const placesTogether = 16

/** The rows at some places of a partition, whole, in the order of the table. A text is of so many places: the last one fills it up. */
export function selectRowsAt(source: Source, channel: string, day: number, places: readonly Place[]): Statement {
  const { columns, table, key } = source
  const filled = Array.from({ length: placesTogether }, (_, nth) => places[nth] ?? places.at(-1)!)
  return {
    cql: `SELECT ${list(columns)} FROM ${table} WHERE channel = ? AND day = ? AND (${list(key)}) IN (${filled.map(() => '(?, ?, ?)').join(', ')})`,
    values: [channel, dateBytes(day), ...filled.flatMap(valuesOf)],
  }
}

/** All formats that the store has. */
export function selectFormats(keyspace: string): Statement {
  return { cql: `SELECT format FROM ${quoted(keyspace)}.${quoted('sluice_formats')}`, values: [] }
}

/** Whether there is the table is all that it says: the day is none on which a row is. */
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

function valuesOf({ time, position, index }: Place): readonly unknown[] {
  return [time, position, index]
}
