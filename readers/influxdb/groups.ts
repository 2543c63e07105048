// Groups that the storage engine computes: the newest row of each series, aggregations in time buckets, and the formats of a channel.

import { cell, type Row as Line } from '../../sinks/influxdb/connection.ts'
import { msOf, restUsOf } from '../../sinks/influxdb/points.ts'
import { unitsDown } from '../../transformers/time-units.ts'
import { formatsOf } from '../formats.ts'
import { aggregateRows, bucketOrder, groupsMax, openGroupLimit, tooManyGroups } from '../groups.ts'
import {
  type AggregateQuery,
  type Aggregation,
  type Bucket,
  type Filter,
  type FormatsQuery,
  type FoundFormat,
  type Grouped,
  isBehind,
  keyOf,
  type PageQuery,
  type Row,
  type SenmlRow,
  senmlFormat,
  timeNsOf,
} from '../reader.ts'
import { millisecondOfLine, rangesMax, readPage, rowsAround, rowsIn, tagsOfLine } from './page.ts'
import type { Session } from './requests.ts'
import { rowOrder } from './rows.ts'
import {
  type Finder,
  measurementOf,
  type RowRange,
  type Search,
  type SeriesTags,
  type StoreAggregate,
  selectBuckets,
  selectEnds,
  selectIndexes,
  selectNewest,
  selectSubtopics,
} from './select.ts'
import { type Bounds, boundsOf, isEmpty, millisecond, millisecondOf, type Span, within } from './windows.ts'

interface Newest {
  ms: number
  readonly key: string
  readonly tags: SeriesTags
}

/** Up to this many series in one millisecond are read one by one; beyond that, the whole millisecond is read. */
const singlyMax = 3

/** @param search an exact one: every point that it finds matches */
export async function newestRows(session: Session, query: PageQuery, search: Search): Promise<Grouped<Row>> {
  const series = await newestOfEach(session, query, search)
  const { direction, limit, offset, after } = query
  const sign = direction === 'desc' ? -1 : 1
  const afterMs = after === undefined ? undefined : millisecondOf(after.timeNs)
  const ordered = [...series.values()]
    .filter(({ ms }) => afterMs === undefined || sign * (ms - afterMs) >= 0)
    .sort((one, other) => sign * (one.ms - other.ms))
  // The order within one millisecond is known only from the rows: so all series of the page's first and last millisecond are read.
  const first = ordered.findIndex(({ ms }) => ms === ordered[offset]?.ms)
  if (first < 0) return { groups: [], total: series.size }
  const doubtful = afterMs === undefined ? 0 : ordered.filter(({ ms }) => ms === afterMs).length
  const lastMs = ordered[Math.min(ordered.length, offset + limit + doubtful) - 1]!.ms
  const shown = ordered.slice(first, ordered.findLastIndex(({ ms }) => ms === lastMs) + 1)
  const rows = (await rowsOfSeries(session, query, shown)).filter(row => after === undefined || isBehind(keyOf(row), after, direction))
  return { groups: rows.sort(rowOrder(direction)).slice(offset - first, offset - first + limit), total: series.size }
}

/** By the key of the series. @throws QueryTooLargeError */
async function newestOfEach(session: Session, query: PageQuery, search: Search): Promise<Map<string, Newest>> {
  const series = new Map<string, Newest>()
  const note = (ms: number, publisher: string, subtopic: string, name: string): void => {
    const key = seriesKey(publisher, subtopic, name)
    const known = series.get(key)
    if (known !== undefined) {
      if (ms > known.ms) known.ms = ms
      return
    }
    if (series.size === groupsMax) throw tooManyGroups('series')
    series.set(key, { ms, key, tags: query.format === senmlFormat ? { publisher, subtopic, name } : { publisher, subtopic } })
  }

  const { whole, before, behind } = boundsOf(query)
  const borders = [before, behind].filter(border => border !== undefined)
  for await (const rows of rowsIn(session, query, borders))
    for (const row of rows) note(millisecondOf(timeNsOf(row)), row.publisher, row.subtopic, row.kind === 'senml' ? row.name : '')
  if (isEmpty(whole)) return series
  for await (const lines of session.query(selectNewest(session.bucket, query, search.finders, whole))) {
    for (const line of lines) {
      const { publisher, subtopic, name } = tagsOfLine(line)
      note(millisecondOfLine(line), publisher, subtopic, name)
    }
  }
  return series
}

function seriesKey(publisher: string, subtopic: string, name: string): string {
  return JSON.stringify([publisher, subtopic, name])
}

/** The newest row of each of these series, whose millisecond is known. */
async function rowsOfSeries(session: Session, query: PageQuery, shown: readonly Newest[]): Promise<Row[]> {
  const series = Map.groupBy(shown, ({ ms }) => ms)
  const rangesOf = (times: readonly number[]): RowRange[] =>
    [...new Set(times)].flatMap(ms => {
      const sameMillisecond = series.get(ms)!
      if (sameMillisecond.length > singlyMax) return [millisecond(ms)]
      return sameMillisecond.map(({ tags }): RowRange => ({ ...millisecond(ms), tags }))
    })
  const wanted = new Map(shown.map(({ key, ms }) => [key, ms]))
  const newest = new Map<string, Row>()
  const times = shown.map(({ ms }) => ms)
  const pieces = shown.length > singlyMax ? rowsAround(session, query, times, rangesOf) : rowsIn(session, query, rangesOf(times))
  const order = rowOrder('desc')
  for await (const rows of pieces) {
    for (const row of rows) {
      const key = seriesKey(row.publisher, row.subtopic, row.kind === 'senml' ? row.name : '')
      const known = newest.get(key)
      if (wanted.get(key) === millisecondOf(timeNsOf(row)) && (known === undefined || order(row, known) < 0)) newest.set(key, row)
    }
  }
  return [...newest.values()]
}

/** What the storage computes in addition to the number of records. */
const storeAggregates: Readonly<Record<Aggregation, readonly StoreAggregate[]>> = {
  count: [],
  sum: ['sum'],
  avg: ['sum'],
  min: ['min'],
  max: ['max'],
  first: [],
  last: [],
}

type BucketOf = Omit<Bucket, 'count' | 'value'>
type Sums = BucketOf & { count: number; sum: number; min: number; max: number }

/** @param finder for the field `value` */
export async function bucketsOf(session: Session, query: AggregateQuery, finder: Finder): Promise<Grouped<Bucket>> {
  const bounds = boundsOf(query)
  const { aggregation, offset, limit } = query
  const sums = await sumsOf(session, query, finder, bounds, ['count', ...storeAggregates[aggregation]])
  const ordered = [...sums.values()].map(one => bucketOf(one, aggregation)).sort(bucketOrder(query.direction))
  let shown = ordered.slice(offset, offset + limit)
  if (aggregation === 'first' || aggregation === 'last') shown = await withEnds(session, query, finder, bounds, shown, aggregation)
  if (aggregation === 'avg' || aggregation === 'sum') shown = await withoutOverflow(session, query, bounds.all, shown)
  if (aggregation === 'avg') shown = await withinBounds(session, query, finder, bounds, shown)
  return { groups: shown, total: ordered.length }
}

/**
 * By `bucketKey`. The storage computes whole milliseconds; numbers of those that are only in part between `from` and `to` are added here.
 *
 * @param part of the time of the query
 */
async function sumsOf(
  session: Session,
  query: AggregateQuery,
  finder: Finder,
  bounds: Bounds,
  aggregates: readonly StoreAggregate[],
  part = bounds.all,
): Promise<Map<string, Sums>> {
  const { intervalUs } = query
  const sums = new Map<string, Sums>()
  const whole = within(bounds.whole, part)
  if (!isEmpty(whole)) {
    for await (const lines of session.query(selectBuckets(session.bucket, query, finder, whole, { intervalUs, aggregates }))) {
      for (const line of lines) addLine(sums, line, query)
    }
  }
  for await (const rows of rowsIn(session, query, bordersIn(bounds, part))) {
    for (const row of rows) if (row.kind === 'senml' && row.value !== undefined) addNumber(sumsAt(sums, row, query), row.value)
  }
  return sums
}

/** The milliseconds at the borders that are in this part of the time. */
function bordersIn({ before, behind }: Bounds, part: Span): Span[] {
  return [before, behind].filter(border => border !== undefined && !isEmpty(within(border, part))) as Span[]
}

function addLine(sums: Map<string, Sums>, line: Line, query: AggregateQuery): void {
  const { unit, ...tags } = tagsOfLine(line)
  // The first bucket begins at the start of the range.
  const sum = sumsAt(sums, { ...tags, unit: unit === '' ? undefined : unit, timeUs: millisecondOfLine(line) * 1000 }, query)
  const value = Number(cell(line, '_value'))
  const aggregate = cell(line, 'result') as StoreAggregate
  if (aggregate === 'count' || aggregate === 'sum') sum[aggregate] += value
  else sum[aggregate] = Math[aggregate](sum[aggregate], value)
}

function addNumber(sum: Sums, value: number): void {
  sum.count++
  sum.sum += value
  sum.min = Math.min(sum.min, value)
  sum.max = Math.max(sum.max, value)
}

/** The sums of the bucket at this time. */
function sumsAt(
  sums: Map<string, Sums>,
  { publisher, subtopic, name, unit, timeUs }: Omit<BucketOf, 'channel'>,
  { channel, intervalUs }: AggregateQuery,
): Sums {
  const of = { channel, publisher, subtopic, name, unit, timeUs: Math.floor(timeUs / intervalUs) * intervalUs }
  const key = bucketKey(of)
  let sum = sums.get(key)
  if (sum === undefined) {
    if (sums.size === groupsMax) throw tooManyGroups('buckets')
    sums.set(key, (sum = { ...of, count: 0, sum: 0, min: Infinity, max: -Infinity }))
  }
  return sum
}

function bucketKey({ timeUs, publisher, subtopic, name, unit }: Omit<BucketOf, 'channel'>): string {
  return JSON.stringify([timeUs, publisher, subtopic, name, unit ?? ''])
}

function bucketOf({ channel, publisher, subtopic, name, unit, timeUs, count, sum, min, max }: Sums, aggregation: Aggregation): Bucket {
  const values: Readonly<Record<Aggregation, number>> = { count, sum, avg: sum / count, min, max, first: Number.NaN, last: Number.NaN }
  return { channel, publisher, subtopic, name, unit, timeUs, value: values[aggregation], count }
}

/** Means that rounding moved below the least or above the greatest number are that number. Only the time of these buckets is read for it. */
async function withinBounds(
  session: Session,
  query: AggregateQuery,
  finder: Finder,
  bounds: Bounds,
  means: readonly Bucket[],
): Promise<Bucket[]> {
  if (means.length === 0) return []
  const spans = means.map(mean => spanOf(mean, query))
  const part = { startMs: Math.min(...spans.map(({ startMs }) => startMs)), endMs: Math.max(...spans.map(({ endMs }) => endMs)) }
  const limits = await sumsOf(session, query, finder, bounds, ['min', 'max'], part)
  return means.map(mean => {
    const { min = -Infinity, max = Infinity } = limits.get(bucketKey(mean)) ?? {}
    return { ...mean, value: Math.max(min, Math.min(max, mean.value)) }
  })
}

/** The storage adds up doubles one by one. Where that overflowed, the numbers are added up here. */
async function withoutOverflow(session: Session, query: AggregateQuery, all: Span, buckets: readonly Bucket[]): Promise<Bucket[]> {
  const ranges = buckets.filter(({ value }) => !Number.isFinite(value)).map(bucket => rangeOf(bucket, within(spanOf(bucket, query), all)))
  if (ranges.length === 0) return [...buckets]
  async function* rows(): AsyncGenerator<Row> {
    for await (const some of rowsIn(session, query, ranges)) yield* some
  }
  const { groups } = await aggregateRows(rows(), { ...query, offset: 0, limit: ranges.length })
  const values = new Map(groups.map(bucket => [bucketKey(bucket), bucket.value]))
  return buckets.map(bucket => ({ ...bucket, value: values.get(bucketKey(bucket)) ?? bucket.value }))
}

/** The time of a bucket. Intervals are whole seconds. */
function spanOf({ timeUs }: Bucket, { intervalUs }: AggregateQuery): Span {
  return { startMs: timeUs / 1000, endMs: (timeUs + intervalUs) / 1000 }
}

/** The rows of a bucket's series in a span. */
function rangeOf({ publisher, subtopic, name, unit = '' }: Bucket, span: Span): RowRange {
  return { ...span, tags: { publisher, subtopic, name, unit } }
}

/**
 * Replaces the values of these buckets by their first or last number. The time of a point does not give the order within its millisecond: only the rows
 * of that millisecond do.
 */
async function withEnds(
  session: Session,
  query: AggregateQuery,
  finder: Finder,
  bounds: Bounds,
  buckets: readonly Bucket[],
  end: 'first' | 'last',
): Promise<Bucket[]> {
  const ranges = buckets.flatMap(bucket => bordersIn(bounds, spanOf(bucket, query)).map(border => rangeOf(bucket, border)))
  const wholes = buckets.map(bucket => rangeOf(bucket, within(spanOf(bucket, query), bounds.whole))).filter(range => !isEmpty(range))
  for (let at = 0; at < wholes.length; at += rangesMax) {
    const asked = wholes.slice(at, at + rangesMax)
    for await (const lines of session.query(selectEnds(session.bucket, query, finder, asked, end))) {
      for (const line of lines) {
        ranges.push({ ...millisecond(millisecondOfLine(line)), tags: asked[Number(cell(line, 'result'))]!.tags! })
      }
    }
  }
  const ends = new Map<string, SenmlRow>()
  const order = rowOrder(end === 'first' ? 'asc' : 'desc')
  for await (const rows of rowsIn(session, query, ranges)) {
    for (const row of rows) {
      if (row.kind !== 'senml' || row.value === undefined) continue
      const key = bucketKey({ ...row, timeUs: Math.floor(row.timeUs / query.intervalUs) * query.intervalUs })
      const known = ends.get(key)
      if (known === undefined || order(row, known) < 0) ends.set(key, row)
    }
  }
  return buckets.map(bucket => ({ ...bucket, value: ends.get(bucketKey(bucket))?.value ?? bucket.value }))
}

/** The formats with rows, and their most recent subtopics. */
export async function findFormats(session: Session, query: FormatsQuery): Promise<FoundFormat[]> {
  const { rowsMax, fromUs } = query
  const found = await newestOfSubtopics(session, query)
  return await formatsOf(found.keys(), query, async filter => {
    const lastMs = found.get(filter.format)
    if (lastMs === undefined) return { lastUs: new Map(), hasMore: false }
    const page = { ...filter, direction: 'desc', offset: rowsMax - 1, limit: 1, after: undefined } as const
    const [last] = await readPage(session, page)
    const reachedUs = last === undefined ? fromUs : Number(unitsDown(timeNsOf(last), 1000n))
    const recent = mostRecent(lastMs, query, msOf(reachedUs))
    const lastUs = await exactTimes(session, filter, recent)
    return {
      lastUs: new Map([...lastUs].filter(([, us]) => us >= reachedUs)),
      hasMore: last !== undefined || recent.size < lastMs.size,
    }
  })
}

/** By format and subtopic, the millisecond of the newest row. @throws QueryTooLargeError */
async function newestOfSubtopics(session: Session, query: FormatsQuery): Promise<Map<string, Map<string, number>>> {
  const { all } = boundsOf({ fromNs: BigInt(query.fromUs) * 1000n, toNs: undefined })
  const newest = new Map<string, Map<string, number>>()
  const enter = openGroupLimit('subtopics')
  for await (const lines of session.query(selectSubtopics(session.bucket, query, all))) {
    for (const line of lines) {
      const { subtopic } = tagsOfLine(line)
      enter(subtopic.length)
      const format = formatOf(cell(line, '_measurement')!, subtopic)
      if (format === undefined) continue
      const lastMs = newest.get(format) ?? new Map<string, number>()
      newest.set(format, lastMs.set(subtopic, millisecondOfLine(line)))
    }
  }
  return newest
}

/** Those of the subtopics that may be in the answer: the newest, and all whose time is as recent as that of the last of them. */
function mostRecent(lastMs: ReadonlyMap<string, number>, { subtopicsMax, fromUs }: FormatsQuery, reachedMs: number): Map<string, number> {
  const reached = [...lastMs].filter(([, ms]) => ms >= reachedMs)
  const times = reached.map(([, ms]) => ms).sort((one, other) => other - one)
  const leastMs = times[subtopicsMax - 1] ?? reachedMs
  // Rows of the millisecond of `fromUs` may be older than that.
  return new Map(reached.filter(([, ms]) => ms >= leastMs || ms * 1000 < fromUs))
}

/** The exact time of the newest row of each subtopic, whose millisecond is known: microseconds. */
async function exactTimes(session: Session, filter: Filter, lastMs: ReadonlyMap<string, number>): Promise<Map<string, number>> {
  const lastUs = new Map<string, number>()
  const times = [...new Set(lastMs.values())]
  for (let at = 0; at < times.length; at += rangesMax) {
    const spans = times.slice(at, at + rangesMax).map(millisecond)
    for await (const lines of session.query(selectIndexes(session.bucket, filter, spans))) {
      for (const line of lines) {
        const { subtopic } = tagsOfLine(line)
        const ms = millisecondOfLine(line)
        const us = ms * 1000 + restUsOf(Number(cell(line, '_value')))
        if (lastMs.get(subtopic) === ms && us > (lastUs.get(subtopic) ?? -Infinity)) lastUs.set(subtopic, us)
      }
    }
  }
  return lastUs
}

/**
 * A measurement has the name of its format, or a name with a hash: then the format is the last part of the subtopics. undefined if neither fits.
 */
function formatOf(measurement: string, subtopic: string): string | undefined {
  return [measurement, subtopic.slice(subtopic.lastIndexOf('.') + 1)].find(format => measurementOf(format) === measurement)
}
