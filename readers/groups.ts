// Rows made into groups in this process, for stores that cannot do it: the newest of each series, and aggregations by intervals.

import { hash } from 'node:crypto'
import type { AggregateQuery, Aggregation } from './query.ts'
import { type Bucket, type Grouped, openGroupLimit, type Row, type SenmlRow } from './reader.ts'

/** A longer key is replaced by its digest. */
const keyCharactersMax = 1_000

/**
 * The key of a group in a map. V8 hashes texts of more than 16,383 characters by their length alone, so that a map of long names would take the square
 * of their number.
 */
export function groupKey(parts: readonly (string | number | null)[]): string {
  const key = JSON.stringify(parts)
  return key.length <= keyCharactersMax ? key : hash('sha256', key, 'base64')
}

export function charactersOf(parts: readonly string[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0)
}

/**
 * The first row of each publisher, subtopic and name.
 *
 * @param rows newest first
 * @throws QueryTooLargeError
 */
export async function firstOfEach(rows: AsyncIterable<Row>): Promise<Row[]> {
  const first = new Map<string, Row>()
  const enter = openGroupLimit('series')
  for await (const row of rows) {
    const series = [row.publisher, row.subtopic, row.kind === 'senml' ? row.name : '']
    const key = groupKey(series)
    if (first.has(key)) continue
    enter(charactersOf(series))
    first.set(key, row)
  }
  return [...first.values()]
}

/** One series in one bucket, while rows are added to it. */
interface Sums {
  readonly row: SenmlRow
  readonly timeUs: number
  count: number
  sum: number
  min: number
  max: number
  newest: number
  oldest: number
}

/**
 * @param rows newest first
 * @throws QueryTooLargeError
 */
export async function aggregateRows(rows: AsyncIterable<Row>, query: AggregateQuery): Promise<Grouped<Bucket>> {
  const { intervalUs, aggregation, limit, offset } = query
  const groups = new Map<string, Sums>()
  const enter = openGroupLimit('buckets')
  for await (const row of rows) {
    if (row.kind !== 'senml' || row.value === undefined) continue
    const timeUs = Math.floor(row.timeUs / intervalUs) * intervalUs
    const key = groupKey([timeUs, row.publisher, row.subtopic, row.name, row.unit ?? null])
    const sums = groups.get(key)
    if (sums === undefined) {
      enter(charactersOf([row.publisher, row.subtopic, row.name, row.unit ?? '']))
      const { value } = row
      groups.set(key, { row, timeUs, count: 1, sum: value, min: value, max: value, newest: value, oldest: value })
    } else add(sums, row.value)
  }
  const ordered = [...groups.values()].map(sums => bucketOf(sums, aggregation)).toSorted(bucketOrder(query.direction))
  return { groups: ordered.slice(offset, offset + limit), total: ordered.length }
}

function add(sums: Sums, value: number): void {
  sums.count++
  sums.sum += value
  if (value < sums.min) sums.min = value
  if (value > sums.max) sums.max = value
  sums.oldest = value
}

function bucketOf({ row, timeUs, count, sum, min, max, newest, oldest }: Sums, aggregation: Aggregation): Bucket {
  const { channel, publisher, subtopic, name, unit } = row
  const values: Readonly<Record<Aggregation, number>> = { min, max, avg: sum / count, sum, count, first: oldest, last: newest }
  return { channel, publisher, subtopic, name, unit, timeUs, value: values[aggregation], count }
}

/** By time in the direction, then by the bytes of the texts; no unit comes first. */
export function bucketOrder(direction: AggregateQuery['direction']): (one: Bucket, other: Bucket) => number {
  const sign = direction === 'desc' ? -1 : 1
  return (one, other) => {
    if (one.timeUs !== other.timeUs) return sign * (one.timeUs - other.timeUs)
    return (
      byBytes(one.publisher, other.publisher) ||
      byBytes(one.subtopic, other.subtopic) ||
      byBytes(one.name, other.name) ||
      byBytes(one.unit ?? '', other.unit ?? '')
    )
  }
}

/** Code units from here on sort otherwise than UTF-8: the surrogates, of characters beyond U+FFFF, come before the last ones of those below. */
const surrogatesStart = 0xd800

/** In the order of UTF-8, in which databases sort. */
export function byBytes(one: string, other: string): number {
  const length = Math.min(one.length, other.length)
  for (let nth = 0; nth < length; nth++) {
    const unit = one.charCodeAt(nth)
    const otherUnit = other.charCodeAt(nth)
    if (unit === otherUnit) continue
    if (unit >= surrogatesStart && otherUnit >= surrogatesStart) return Buffer.compare(Buffer.from(one), Buffer.from(other))
    return unit - otherUnit
  }
  return one.length - other.length
}
