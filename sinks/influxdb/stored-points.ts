// Points as they lie in a bucket: every field with its type, exact.

import { cell, type Row, typeOf } from './annotated-csv.ts'
import type { Connection } from './connection.ts'
import { exactText, nsOf, unescaped } from './flux.ts'
import { fieldKeyText, stringText, tagText } from './line-protocol.ts'

export type FieldValue = number | bigint | boolean | string

export interface StoredPoint {
  readonly measurement: string
  readonly tags: ReadonlyMap<string, string>
  /** Nanoseconds since 1970. */
  readonly ns: bigint
  readonly fields: Map<string, FieldValue>
}

/** What every table of an answer has, beside its tags. */
const ownColumns = new Set(['', 'result', 'table', '_start', '_stop', '_time', '_value', '_field', '_measurement', 'exact'])

/**
 * All points of a source, `from |> range |> filter`. They are all in memory: for few points, and for those of one instant. Over several shards the
 * server leaves out what of a field has another type than in the first of them, and in a series the empty text that comes first behind equal ones.
 */
export async function readPoints(connection: Connection, source: string, signal?: AbortSignal): Promise<StoredPoint[]> {
  const points = new Map<string, StoredPoint>()
  for await (const rows of connection.query(`import "strings"\n${source}${exactText}`, signal)) for (const row of rows) add(points, row)
  return [...points.values()]
}

function add(points: Map<string, StoredPoint>, row: Row): void {
  const measurement = cell(row, '_measurement')!
  const tags = new Map<string, string>()
  for (const [name, place] of row.columns.places) if (!ownColumns.has(name)) tags.set(name, row.cells[place]!)
  const ns = nsOf(cell(row, '_time')!)
  const key = JSON.stringify([measurement, [...tags], String(ns)])
  let point = points.get(key)
  if (point === undefined) points.set(key, (point = { measurement, tags, ns, fields: new Map() }))
  point.fields.set(cell(row, '_field')!, valueOf(row))
}

function valueOf(row: Row): FieldValue {
  const text = cell(row, '_value')!
  const type = typeOf(row, '_value')
  if (type === 'double') return Number(text)
  if (type === 'long' || type === 'unsignedLong') return BigInt(text)
  if (type === 'boolean') return text === 'true'
  return unescaped(cell(row, 'exact')!)
}

/** The line that writes the point as it is. */
export function lineOf({ measurement, tags, ns, fields }: StoredPoint): string {
  const series = [measurement, ...[...tags].map(([name, value]) => `${tagText(name)}=${tagText(value)}`)].join(',')
  return `${series} ${[...fields].map(([key, value]) => `${fieldKeyText(key)}=${valueText(value)}`).join(',')} ${ns}\n`
}

function valueText(value: FieldValue): string {
  if (typeof value === 'string') return stringText(value)!
  return typeof value === 'bigint' ? `${value}i` : String(value)
}
