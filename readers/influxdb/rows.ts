// Assembles rows from the lines of an answer, each of which is one field of a point; and the total order of rows: by time, then by position and
// index.

import {
  type Answer,
  cell,
  columnIndex,
  type FluxTableMetaData,
  type Row as Line,
  nsOf,
  typeOf,
  unescaped,
} from '../../sinks/influxdb/connection.ts'
import { documentEntries, ordinalOf, restUsOf } from '../../sinks/influxdb/points.ts'
import { unflatten } from '../../transformers/json/unflatten.ts'
import { bytesOf } from '../paging.ts'
import {
  compareKeys,
  type Direction,
  type DocumentRow,
  type Filter,
  keyOf,
  QueryTooLargeError,
  type Row,
  type SenmlRow,
  senmlFormat,
} from '../reader.ts'
import type { RowResult } from './select.ts'
import { millisecondOf } from './windows.ts'

type FieldValue = string | number | boolean | bigint

interface Point {
  readonly time: string
  readonly publisher: string
  readonly subtopic: string
  readonly name: string
  readonly unit: string
  readonly fields: Map<string, FieldValue>
}

/** Collects the fields of points. */
export interface Points {
  /**
   * Stops reading the answer if the points become too large.
   *
   * @returns the indexes of the ranges that contain odd texts, which have to be read separately
   */
  add(answer: Answer): Promise<number[]>
  /** True if the points became too large, and are therefore incomplete. */
  readonly isTooMuch: boolean
  /** The nanosecond in the middle of the points. */
  middleNs(): bigint
  /** One row for each point, in any order. Points without a position are not sluice's. */
  rows(): Row[]
}

/** Approximate memory of a point and of each of its fields, besides the characters of its values. */
const pointWeight = 300
const fieldWeight = 50

/**
 * For answers to `selectRows` and `selectOddTexts`.
 *
 * @param weightMax approximate bytes
 */
export function openPoints({ channel, format }: Pick<Filter, 'channel' | 'format'>, weightMax: number): Points {
  const points = new Map<string, Point>()
  let weight = 0
  const isTooMuch = (): boolean => weight > weightMax
  return {
    get isTooMuch() {
      return isTooMuch()
    },
    async add(answer) {
      const odd = new Set<number>()
      for await (const lines of answer) {
        for (const line of lines) {
          const [result, range] = cell(line, 'result')!.split(' ') as [RowResult, string]
          if (result === 'odd') odd.add(Number(range))
          else weight += addField(points, line)
        }
        if (isTooMuch()) break
      }
      return [...odd]
    },
    middleNs() {
      const times = [...points.values()].map(({ time }) => nsOf(time)).sort((one, other) => (one < other ? -1 : 1))
      return times[Math.floor(times.length / 2)]!
    },
    rows() {
      const rows: Row[] = []
      for (const point of points.values()) {
        if (typeof point.fields.get('/position') !== 'bigint' || typeof point.fields.get('/index') !== 'bigint') continue
        rows.push(format === senmlFormat ? recordOf(point, channel) : documentOf(point, channel))
      }
      return rows
    },
  }
}

/** The columns that identify a line's point. */
const keyColumns = ['_time', 'publisher', 'subtopic', 'name', 'unit', 'nth', '/nth'] as const
const columnsOfKeys = new WeakMap<FluxTableMetaData, readonly (number | undefined)[]>()

/** @returns its approximate bytes */
function addField(points: Map<string, Point>, line: Line): number {
  const value = valueOf(line)
  const { tableMeta, values } = line
  let at = columnsOfKeys.get(tableMeta)
  if (at === undefined) columnsOfKeys.set(tableMeta, (at = keyColumns.map(name => columnIndex(tableMeta, name))))
  let key = ''
  // No tag contains a NUL: the sink refuses it.
  for (const column of at) key += `${column === undefined ? '' : values[column]!}\0`
  let weight = fieldWeight + (typeof value === 'string' ? value.length : 0)
  let point = points.get(key)
  if (point === undefined) {
    weight += pointWeight
    const [time = '', publisher = '', subtopic = '', name = '', unit = ''] = key.split('\0')
    points.set(key, (point = { time, publisher, subtopic, name, unit, fields: new Map() }))
  }
  point.fields.set(cell(line, '_field')!, value)
  return weight
}

function valueOf(line: Line): FieldValue {
  const text = cell(line, '_value')!
  const type = typeOf(line, '_value')
  if (type === 'double') return Number(text)
  if (type === 'long' || type === 'unsignedLong') return BigInt(text)
  if (type === 'boolean') return text === 'true'
  const exact = cell(line, 'exact')
  return exact === undefined ? text : unescaped(exact)
}

function originOf({ publisher, subtopic, fields }: Point, channel: string) {
  return { channel, subtopic, publisher, position: fields.get('/position') as bigint, index: ordinalOf(Number(fields.get('/index'))) }
}

/** The exact time of a point, in microseconds. */
function timeUsOf({ time, fields }: Point): number {
  return millisecondOf(nsOf(time)) * 1000 + restUsOf(Number(fields.get('/index')))
}

function recordOf(point: Point, channel: string): SenmlRow {
  const { fields } = point
  const data = textOf(fields.get('dataValue'))
  return {
    kind: 'senml',
    ...originOf(point, channel),
    protocol: textOf(fields.get('protocol')) ?? '',
    name: point.name,
    unit: point.unit === '' ? undefined : point.unit,
    timeUs: timeUsOf(point),
    value: numberOf(fields.get('value')),
    stringValue: textOf(fields.get('stringValue')),
    boolValue: fields.get('boolValue') as boolean | undefined,
    dataValue: data === undefined ? undefined : Buffer.from(data, 'base64url'),
    sum: numberOf(fields.get('sum')),
    updateTime: numberOf(fields.get('updateTime')),
  }
}

function documentOf(point: Point, channel: string): DocumentRow {
  const keys: string[] = []
  const values: (string | number | boolean)[] = []
  // In their order a document always has the same text, although results come in any.
  for (const [key, value] of documentEntries(point.fields)) {
    keys.push(key)
    // Integers come only from other programs.
    values.push(typeof value === 'bigint' ? Number(value) : value)
  }
  const created = point.fields.get('/created')
  return {
    kind: 'document',
    ...originOf(point, channel),
    protocol: textOf(point.fields.get('/protocol')) ?? '',
    createdNs: typeof created === 'bigint' ? created : BigInt(timeUsOf(point)) * 1000n,
    payloadText: payloadText(keys, values),
  }
}

/** Nests keys again. Keys that cannot be nested (`a` beside `a/b`) come only from other programs, or from two messages; they stay joined. */
function payloadText(keys: string[], values: (string | number | boolean)[]): string {
  try {
    return JSON.stringify(unflatten({ keys, values }))
  } catch (error) {
    if ((error as Error).name !== 'DecodeError') throw error
    return `{${keys.map((key, at) => `${JSON.stringify(key)}:${JSON.stringify(values[at])}`).join(',')}}`
  }
}

function numberOf(value: FieldValue | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined
}

function textOf(value: FieldValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** Compares two rows in the direction. */
export function rowOrder(direction: Direction): (one: Row, other: Row) => number {
  const sign = direction === 'desc' ? -1 : 1
  return (one, other) => {
    if (one.kind === 'senml' && other.kind === 'senml') {
      if (one.timeUs !== other.timeUs) return one.timeUs < other.timeUs ? -sign : sign
      if (one.position !== other.position) return one.position < other.position ? -sign : sign
      return sign * (one.index - other.index)
    }
    return sign * compareKeys(keyOf(one), keyOf(other))
  }
}

/** How many rows, and how many bytes of rows, more than needed are collected before the last ones are dropped. */
const spareRows = 10_000
const spareBytes = 32_000_000
/** No page has more rows: if more are wanted, the others are skipped by an offset. */
const pageRowsMax = 1_000
const skippedBytesMax = 64_000_000

/**
 * The first `max` rows in the order. Its memory hardly depends on how many rows there are: any number may share a millisecond.
 *
 * @throws QueryTooLargeError if rows that an offset skips take too much memory
 */
export async function firstRows(
  pieces: AsyncIterable<readonly Row[]>,
  direction: Direction,
  max: number,
  isWanted: (row: Row) => boolean = () => true,
): Promise<Row[]> {
  const order = rowOrder(direction)
  const rows: Row[] = []
  let bytes = 0
  let bytesMax = spareBytes
  for await (const piece of pieces) {
    for (const row of piece) {
      if (!isWanted(row)) continue
      rows.push(row)
      bytes += bytesOf(row)
    }
    if (rows.length <= max + spareRows && bytes <= bytesMax) continue
    rows.sort(order).length = Math.min(rows.length, max)
    bytes = rows.reduce((sum, row) => sum + bytesOf(row), 0)
    if (max > pageRowsMax && bytes > skippedBytesMax) {
      throw new QueryTooLargeError(
        'the rows before the page are too many of one time: use cursor instead of offset, or narrow it with name or publisher',
      )
    }
    bytesMax = bytes + spareBytes
  }
  return rows.sort(order).slice(0, max)
}
