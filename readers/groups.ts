// Groups rows in this process, for stores that cannot do it: the newest row of each series, and aggregations by interval.

import { hash } from 'node:crypto'
import { parsePayload } from '../transformers/json/canonical.ts'
import { unitsDown } from '../transformers/time-units.ts'
import { valueAt } from './matching.ts'
import {
  type AggregateQuery,
  type Aggregation,
  type Bucket,
  type Grouped,
  isBehind,
  keyOf,
  type PageQuery,
  type PayloadField,
  QueryTooLargeError,
  type Row,
  type SenmlRow,
} from './reader.ts'

/** Maximum groups of one query; more throw QueryTooLargeError. */
export const groupsMax = 100_000
/** Maximum characters in the texts of all groups, at most two bytes each: the length of a name is not bounded otherwise. */
const groupCharactersMax = 16 * 1024 * 1024

/** @param what kind of groups: `series`, `buckets` */
export function tooManyGroups(what: string): QueryTooLargeError {
  return new QueryTooLargeError(`the query gives more than ${groupsMax} ${what}: narrow it with name, publisher, from or to`)
}

/**
 * Limits the groups of one query, which are kept in memory.
 *
 * @returns a function to call for each group with the characters of its texts; throws QueryTooLargeError for the first group beyond a limit
 */
export function openGroupLimit(what: string): (characters: number) => void {
  let groups = 0
  let left = groupCharactersMax
  return characters => {
    if (++groups > groupsMax) throw tooManyGroups(what)
    left -= characters
    if (left >= 0) return
    throw new QueryTooLargeError(
      `the names of the ${what} have more than ${groupCharactersMax} characters in total: narrow the query with name, publisher, from or to`,
    )
  }
}

/** A longer key is replaced by its hash. */
const keyCharactersMax = 1_000

/**
 * The key of a group in a map. V8 hashes texts of more than 16,383 characters by their length only, so that a map of long names would take quadratic
 * time.
 */
export function groupKey(parts: readonly (string | number | null)[]): string {
  const key = JSON.stringify(parts)
  return key.length <= keyCharactersMax ? key : hash('sha256', key, 'base64')
}

/** The number of characters in the texts of a group. */
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

/** @param rows all rows, newest first */
export function pageOfRows(rows: readonly Row[], { direction, after, offset, limit }: PageQuery): Row[] {
  const ordered = direction === 'desc' ? rows : rows.toReversed()
  const behind = after === undefined ? ordered : ordered.filter(row => isBehind(keyOf(row), after, direction))
  return behind.slice(offset, offset + limit)
}

/**
 * Sums overflow only where their result does, whatever the order of the numbers: numbers from here on are added up separately, in units of
 * 2^64 (`large`, beside `small`). Fewer than 2^53 numbers overflow neither of them, and dividing by a power of two loses no digit.
 */
export const largeFrom = 2 ** 900
export const largeUnit = 2 ** 64

export interface Sum {
  small: number
  /** In units of `largeUnit`. */
  large: number
}

export function addNumber(sum: Sum, value: number): void {
  if (Math.abs(value) < largeFrom) sum.small += value
  else sum.large += value / largeUnit
}

/** @returns infinite if the sum is greater than any double */
export function totalOf({ small, large }: Sum): number {
  return large * largeUnit + small
}

/** @returns a number from `min` to `max`, which rounding alone could leave: ten times 0.1 adds up to 0.9999999999999999 */
export function meanOf({
  small,
  large,
  count,
  min,
  max,
}: Sum & { readonly count: number; readonly min: number; readonly max: number }): number {
  return Math.max(min, Math.min(max, (large / count) * largeUnit + small / count))
}

/** Running sums of one series in one bucket. */
interface Sums extends Sum {
  readonly row: SenmlRow
  readonly timeUs: number
  count: number
  min: number
  max: number
  newest: number
  oldest: number
}

/** The numbers in a field of documents, each as a record with the name of the field. Documents with anything else there, or nothing, are left out. */
export async function* numbersOf(rows: AsyncIterable<Row>, { name, path }: PayloadField): AsyncGenerator<SenmlRow> {
  for await (const row of rows) {
    if (row.kind !== 'document') continue
    const { createdNs, payloadText, ...origin } = row
    const value = valueAt(parsePayload(payloadText), path)
    if (typeof value !== 'number' && typeof value !== 'bigint') continue
    const number = { value: Number(value), stringValue: undefined, boolValue: undefined, dataValue: undefined }
    const rest = { unit: undefined, sum: undefined, updateTime: undefined }
    yield { ...origin, kind: 'senml', name, timeUs: Number(unitsDown(createdNs, 1000n)), ...number, ...rest }
  }
}

/**
 * @param rows newest first
 * @param enter limits the groups, maybe together with those of other calls
 * @throws QueryTooLargeError
 */
export async function aggregateRows(
  rows: AsyncIterable<Row>,
  query: AggregateQuery,
  enter = openGroupLimit('buckets'),
): Promise<Grouped<Bucket>> {
  const { intervalUs, aggregation, limit, offset } = query
  const groups = new Map<string, Sums>()
  for await (const row of rows) {
    if (row.kind !== 'senml' || row.value === undefined) continue
    const timeUs = Math.floor(row.timeUs / intervalUs) * intervalUs
    const key = groupKey([timeUs, row.publisher, row.subtopic, row.name, row.unit ?? null])
    let sums = groups.get(key)
    if (sums === undefined) {
      enter(charactersOf([row.publisher, row.subtopic, row.name, row.unit ?? '']))
      const { value } = row
      groups.set(key, (sums = { row, timeUs, count: 0, small: 0, large: 0, min: value, max: value, newest: value, oldest: value }))
    }
    add(sums, row.value)
  }
  const ordered = [...groups.values()].map(sums => bucketOf(sums, aggregation)).toSorted(bucketOrder(query.direction))
  return { groups: ordered.slice(offset, offset + limit), total: ordered.length }
}

function add(sums: Sums, value: number): void {
  sums.count++
  addNumber(sums, value)
  if (value < sums.min) sums.min = value
  if (value > sums.max) sums.max = value
  sums.oldest = value
}

function bucketOf(sums: Sums, aggregation: Aggregation): Bucket {
  const { row, timeUs, count, min, max, newest, oldest } = sums
  const { channel, publisher, subtopic, name, unit } = row
  const values: Readonly<Record<Aggregation, number>> = {
    min,
    max,
    avg: meanOf(sums),
    sum: totalOf(sums),
    count,
    first: oldest,
    last: newest,
  }
  return { channel, publisher, subtopic, name, unit, timeUs, value: values[aggregation], count }
}

/** By time in the direction, then by the bytes of the texts, the channel last; a missing unit comes first. */
export function bucketOrder(direction: AggregateQuery['direction']): (one: Bucket, other: Bucket) => number {
  const sign = direction === 'desc' ? -1 : 1
  return (one, other) => {
    if (one.timeUs !== other.timeUs) return sign * (one.timeUs - other.timeUs)
    return (
      byBytes(one.publisher, other.publisher) ||
      byBytes(one.subtopic, other.subtopic) ||
      byBytes(one.name, other.name) ||
      byBytes(one.unit ?? '', other.unit ?? '') ||
      byBytes(one.channel, other.channel)
    )
  }
}

/** From here on code units sort differently from UTF-8: surrogates, which encode characters beyond U+FFFF, are smaller than the last code units below. */
const surrogatesStart = 0xd800

/** Compares in UTF-8 order, as databases do. */
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
