// Groups that the storage engine computes: the newest row of each series, aggregations in time buckets, and the formats of a channel.

import { cell, type Row as Line } from '../../sinks/influxdb/connection.ts'
import { formatsOf } from '../formats.ts'
import { aggregateRows, bucketOrder, groupsMax, openGroupLimit, tooManyGroups } from '../groups.ts'
import {
  type AggregateQuery,
  type Aggregation,
  type Bucket,
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
import { firstIn, microsecondOfLine, readPage, rowsAround, rowsIn, tagsOfLine } from './page.ts'
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
  selectNewest,
  selectSubtopics,
} from './select.ts'
import { behind as behindOf, boundsOf, fromOn, isEmpty, microsecond, microsecondOf, type Span, within } from './windows.ts'

interface Newest {
  us: number
  readonly key: string
  readonly tags: SeriesTags
}

/** Up to this many series in one microsecond are read one by one; beyond that, the whole microsecond is read. */
const singlyMax = 3

/** @param search an exact one: every point that it finds matches */
export async function newestRows(session: Session, query: PageQuery, search: Search): Promise<Grouped<Row>> {
  const series = await newestOfEach(session, query, search)
  const { direction, limit, offset, after } = query
  const sign = direction === 'desc' ? -1 : 1
  const afterUs = after === undefined ? undefined : microsecondOf(after.timeNs)
  const ordered = [...series.values()]
    .filter(({ us }) => afterUs === undefined || sign * (us - afterUs) >= 0)
    .sort((one, other) => sign * (one.us - other.us))
  // The order within one microsecond is known only from the rows: so all series of the page's first and last microsecond are read.
  const first = ordered.findIndex(({ us }) => us === ordered[offset]?.us)
  if (first < 0) return { groups: [], total: series.size }
  const doubtful = afterUs === undefined ? 0 : ordered.filter(({ us }) => us === afterUs).length
  const lastUs = ordered[Math.min(ordered.length, offset + limit + doubtful) - 1]!.us
  const shown = ordered.slice(first, ordered.findLastIndex(({ us }) => us === lastUs) + 1)
  const rows = (await rowsOfSeries(session, query, shown)).filter(row => after === undefined || isBehind(keyOf(row), after, direction))
  return { groups: rows.sort(rowOrder(direction)).slice(offset - first, offset - first + limit), total: series.size }
}

/** By the key of the series. @throws QueryTooLargeError */
async function newestOfEach(session: Session, query: PageQuery, search: Search): Promise<Map<string, Newest>> {
  const series = new Map<string, Newest>()
  const note = (us: number, publisher: string, subtopic: string, name: string): void => {
    const key = seriesKey(publisher, subtopic, name)
    const known = series.get(key)
    if (known !== undefined) {
      if (us > known.us) known.us = us
      return
    }
    if (series.size === groupsMax) throw tooManyGroups('series')
    series.set(key, { us, key, tags: query.format === senmlFormat ? { publisher, subtopic, name } : { publisher, subtopic } })
  }

  async function look(span: Span): Promise<void> {
    for await (const lines of session.query(selectNewest(session.bucket, query, search, span))) {
      for (const line of lines) {
        const { publisher, subtopic, name } = tagsOfLine(line)
        note(microsecondOfLine(line), publisher, subtopic, name)
      }
    }
  }

  const { whole, before, behind } = boundsOf(query)
  const borders = [before, behind].filter(border => border !== undefined)
  for await (const rows of rowsIn(session, query, borders))
    for (const row of rows) note(microsecondOf(timeNsOf(row)), row.publisher, row.subtopic, row.kind === 'senml' ? row.name : '')
  if (search.mixesTypes) {
    const shards = await session.shards()
    for (let rest = whole; !isEmpty(rest); ) {
      const us = await firstIn(session, query, search, rest, 'desc')
      if (us === undefined) break
      const shard = within(fromOn(rest, us, 'desc'), shards.at(us))
      await look(shard)
      rest = behindOf(rest, shard.startUs, 'desc')
    }
  } else if (!isEmpty(whole)) await look(whole)
  return series
}

function seriesKey(publisher: string, subtopic: string, name: string): string {
  return JSON.stringify([publisher, subtopic, name])
}

/** The newest row of each of these series, whose microsecond is known. */
async function rowsOfSeries(session: Session, query: PageQuery, shown: readonly Newest[]): Promise<Row[]> {
  const series = Map.groupBy(shown, ({ us }) => us)
  const rangesOf = (times: readonly number[]): RowRange[] =>
    [...new Set(times)].flatMap(us => {
      const sameMicrosecond = series.get(us)!
      if (sameMicrosecond.length > singlyMax) return [microsecond(us)]
      return sameMicrosecond.map(({ tags }): RowRange => ({ ...microsecond(us), tags }))
    })
  const wanted = new Map(shown.map(({ key, us }) => [key, us]))
  const newest = new Map<string, Row>()
  const times = shown.map(({ us }) => us)
  const pieces = shown.length > singlyMax ? rowsAround(session, query, times, rangesOf) : rowsIn(session, query, rangesOf(times))
  const order = rowOrder('desc')
  for await (const rows of pieces) {
    for (const row of rows) {
      const key = seriesKey(row.publisher, row.subtopic, row.kind === 'senml' ? row.name : '')
      const known = newest.get(key)
      if (wanted.get(key) === microsecondOf(timeNsOf(row)) && (known === undefined || order(row, known) < 0)) newest.set(key, row)
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

type Sums = Omit<Bucket, 'count' | 'value'> & { count: number; sum: number; min: number; max: number }

/** @param finder for the field `value` */
export async function bucketsOf(session: Session, query: AggregateQuery, finder: Finder): Promise<Grouped<Bucket>> {
  const { whole } = boundsOf(query)
  if (isEmpty(whole)) return { groups: [], total: 0 }
  const { aggregation, offset, limit } = query
  const sums = await sumsOf(session, query, finder, whole, ['count', ...storeAggregates[aggregation]])
  const ordered = [...sums.values()].map(one => bucketOf(one, aggregation)).sort(bucketOrder(query.direction))
  let shown = ordered.slice(offset, offset + limit)
  if (aggregation === 'first' || aggregation === 'last') shown = await withEnds(session, query, finder, whole, shown, aggregation)
  if (aggregation === 'avg' || aggregation === 'sum') shown = await withoutOverflow(session, query, whole, shown)
  if (aggregation === 'avg') shown = await withinBounds(session, query, finder, whole, shown)
  return { groups: shown, total: ordered.length }
}

/** By `bucketKey`. */
async function sumsOf(
  session: Session,
  query: AggregateQuery,
  finder: Finder,
  span: Span,
  aggregates: readonly StoreAggregate[],
): Promise<Map<string, Sums>> {
  const { intervalUs } = query
  const sums = new Map<string, Sums>()
  for await (const lines of session.query(selectBuckets(session.bucket, query, finder, span, { intervalUs, aggregates }))) {
    for (const line of lines) add(sums, line, query)
  }
  return sums
}

function add(sums: Map<string, Sums>, line: Line, { channel, intervalUs }: AggregateQuery): void {
  const { publisher, subtopic, name, unit } = tagsOfLine(line)
  // The first bucket begins at the start of the range.
  const timeUs = Math.floor(microsecondOfLine(line) / intervalUs) * intervalUs
  const of = { channel, publisher, subtopic, name, unit: unit === '' ? undefined : unit, timeUs }
  const key = bucketKey(of)
  let sum = sums.get(key)
  if (sum === undefined) {
    if (sums.size === groupsMax) throw tooManyGroups('buckets')
    sums.set(key, (sum = { ...of, count: 0, sum: 0, min: Infinity, max: -Infinity }))
  }
  const value = Number(cell(line, '_value'))
  const aggregate = cell(line, 'result') as StoreAggregate
  if (aggregate === 'count' || aggregate === 'sum') sum[aggregate] += value
  else sum[aggregate] = Math[aggregate](sum[aggregate], value)
}

function bucketKey({ timeUs, publisher, subtopic, name, unit }: Omit<Bucket, 'count' | 'value'>): string {
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
  whole: Span,
  means: readonly Bucket[],
): Promise<Bucket[]> {
  if (means.length === 0) return []
  const times = means.map(({ timeUs }) => timeUs)
  const span = within(whole, { startUs: Math.min(...times), endUs: Math.max(...times) + query.intervalUs })
  const bounds = await sumsOf(session, query, finder, span, ['min', 'max'])
  return means.map(mean => {
    const { min = -Infinity, max = Infinity } = bounds.get(bucketKey(mean)) ?? {}
    return { ...mean, value: Math.max(min, Math.min(max, mean.value)) }
  })
}

/** The storage adds up doubles one by one. Where that overflowed, the numbers are added up here. */
async function withoutOverflow(session: Session, query: AggregateQuery, whole: Span, buckets: readonly Bucket[]): Promise<Bucket[]> {
  const ranges = buckets.filter(({ value }) => !Number.isFinite(value)).map(bucket => rangeOf(bucket, query, whole))
  if (ranges.length === 0) return [...buckets]
  async function* rows(): AsyncGenerator<Row> {
    for await (const some of rowsIn(session, query, ranges)) yield* some
  }
  const { groups } = await aggregateRows(rows(), { ...query, offset: 0, limit: ranges.length })
  const values = new Map(groups.map(bucket => [bucketKey(bucket), bucket.value]))
  return buckets.map(bucket => ({ ...bucket, value: values.get(bucketKey(bucket)) ?? bucket.value }))
}

/** The rows of a bucket. */
function rangeOf({ publisher, subtopic, name, unit = '', timeUs }: Bucket, { intervalUs }: AggregateQuery, whole: Span): RowRange {
  return { ...within(whole, { startUs: timeUs, endUs: timeUs + intervalUs }), tags: { publisher, subtopic, name, unit } }
}

/** Number of ends in one query. */
const endsMax = 100

/**
 * Replaces the values of these buckets by their first or last number. The storage returns the nanosecond of a point, whose last three digits do not
 * give the order within a microsecond: only the rows of that microsecond do.
 */
async function withEnds(
  session: Session,
  query: AggregateQuery,
  finder: Finder,
  whole: Span,
  buckets: readonly Bucket[],
  end: 'first' | 'last',
): Promise<Bucket[]> {
  const ranges: RowRange[] = []
  for (let at = 0; at < buckets.length; at += endsMax) {
    const asked = buckets.slice(at, at + endsMax).map(bucket => rangeOf(bucket, query, whole))
    for await (const lines of session.query(selectEnds(session.bucket, query, finder, asked, end))) {
      for (const line of lines) {
        ranges.push({ ...microsecond(microsecondOfLine(line)), tags: asked[Number(cell(line, 'result'))]!.tags! })
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
  const found = await newestOfSubtopics(session, query, fromUs)
  return await formatsOf(found.keys(), query, async filter => {
    const lastUs = found.get(filter.format) ?? new Map<string, number>()
    if (lastUs.size === 0) return { lastUs, hasMore: false }
    const page = { ...filter, direction: 'desc', offset: rowsMax - 1, limit: 1, after: undefined } as const
    const [last] = await readPage(session, page)
    if (last === undefined) return { lastUs, hasMore: false }
    const reachedUs = microsecondOf(timeNsOf(last))
    return { lastUs: new Map([...lastUs].filter(([, us]) => us >= reachedUs)), hasMore: true }
  })
}

/** By format and subtopic. @throws QueryTooLargeError */
async function newestOfSubtopics(session: Session, query: FormatsQuery, fromUs: number): Promise<Map<string, Map<string, number>>> {
  const { all } = boundsOf({ format: senmlFormat, fromNs: BigInt(fromUs) * 1000n, toNs: undefined })
  const newest = new Map<string, Map<string, number>>()
  const enter = openGroupLimit('subtopics')
  for await (const lines of session.query(selectSubtopics(session.bucket, query, all))) {
    for (const line of lines) {
      const { subtopic } = tagsOfLine(line)
      enter(subtopic.length)
      const format = formatOf(cell(line, '_measurement')!, subtopic)
      if (format === undefined) continue
      const lastUs = newest.get(format) ?? new Map<string, number>()
      newest.set(format, lastUs.set(subtopic, microsecondOfLine(line)))
    }
  }
  return newest
}

/**
 * A measurement has the name of its format, or a name with a hash: then the format is the last part of the subtopics. undefined if neither fits.
 */
function formatOf(measurement: string, subtopic: string): string | undefined {
  return [measurement, subtopic.slice(subtopic.lastIndexOf('.') + 1)].find(format => measurementOf(format) === measurement)
}
