// Puts the rows of an answer together: each of its lines is one field of a point.

import { type Answer, type Columns, cell, type Row as Line, typeOf } from '../../sinks/influxdb/annotated-csv.ts'
import { nsOf, unescaped } from '../../sinks/influxdb/flux.ts'
import { unflatten } from '../../transformers/json/unflatten.ts'
import type { Selection } from '../query.ts'
import { type DocumentRow, type Row, type SenmlRow, senmlFormat } from '../reader.ts'
import type { RowResult } from './select.ts'
import { microsecondOf } from './span.ts'

type FieldValue = string | number | boolean | bigint

interface Point {
  readonly time: string
  readonly publisher: string
  readonly subtopic: string
  readonly name: string
  readonly unit: string
  readonly fields: Map<string, FieldValue>
}

export interface Points {
  /**
   * Stops, and ends the answer, where the points would be more than they may.
   *
   * @returns the places of the ranges in which there are odd texts, which have still to be told
   */
  add(answer: Answer): Promise<number[]>
  /** Whether they are more than they may be, so that they are not whole. */
  readonly isTooMuch: boolean
  /** The nanosecond in the midst of them. */
  middleNs(): bigint
  /** A row of each point, in no order. What has no position is none of ours. */
  rows(): Row[]
}

/** Beside the characters of its values, about what memory a point takes, and each of its fields. */
const pointWeight = 300
const fieldWeight = 50

export interface PointsMax {
  /** In bytes, about. */
  readonly weightMax: number
  readonly pointsMax: number
}

/** For the answers to `selectRows` and `selectOddTexts`. */
export function openPoints({ channel, format }: Pick<Selection, 'channel' | 'format'>, { weightMax, pointsMax }: PointsMax): Points {
  const points = new Map<string, Point>()
  let weight = 0
  const isTooMuch = (): boolean => weight > weightMax || points.size > pointsMax
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
          else weight += addField(points, line, result)
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

/** Where the columns stand that say which point a line is of. */
const keyColumns = ['_time', 'publisher', 'subtopic', 'name', 'unit', 'nth', '/nth'] as const
const places = new WeakMap<Columns, readonly (number | undefined)[]>()

/** @returns what it weighs */
function addField(points: Map<string, Point>, line: Line, result: RowResult): number {
  const value = valueOf(line)
  if (result === 'numbers' && typeof value === 'string') return 0
  const { columns, cells } = line
  let at = places.get(columns)
  if (at === undefined) places.set(columns, (at = keyColumns.map(name => columns.places.get(name))))
  let key = ''
  // No tag holds a NUL: the sink refuses it.
  for (const place of at) key += `${place === undefined ? '' : cells[place]!}\0`
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
  const index = Number(fields.get('/index'))
  return { channel, subtopic, publisher, position: fields.get('/position') as bigint, index }
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
    timeUs: microsecondOf(nsOf(point.time)),
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
  // Results come in any order: the same document is the same text.
  for (const [key, value] of [...point.fields].sort(([one], [other]) => (one < other ? -1 : 1))) {
    if (key.startsWith('/')) continue
    keys.push(key)
    // Nobody but a foreign writer stores an integer.
    values.push(typeof value === 'bigint' ? Number(value) : value)
  }
  const created = point.fields.get('/created')
  return {
    kind: 'document',
    ...originOf(point, channel),
    protocol: textOf(point.fields.get('/protocol')) ?? '',
    createdNs: typeof created === 'bigint' ? created : BigInt(microsecondOf(nsOf(point.time))) * 1000n,
    payloadText: payloadText(keys, values),
  }
}

/** Nested again. Keys that do not nest (`a` beside `a/b`), which only a foreign writer stores, stay as they lie: joined. */
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
