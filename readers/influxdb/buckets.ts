// Aggregations: the storage aggregates each series in each bucket of time; series that differ in nothing but `nth` are put together here.

import { cell, type Row as Line } from '../../sinks/influxdb/annotated-csv.ts'
import { bucketOrder } from '../groups.ts'
import type { AggregateQuery, Aggregation } from '../query.ts'
import { type Bucket, type Grouped, groupsMax, type SenmlRow, tooManyGroups } from '../reader.ts'
import type { Asking } from './asking.ts'
import type { Finder } from './finders.ts'
import { rowOrder } from './order.ts'
import { microsecondOfLine, rowsIn, tagsOfLine } from './places.ts'
import { type RowRange, type StoreAggregate, selectBuckets, selectEnds } from './select.ts'
import { boundsOf, isEmpty, microsecond, type Span, within } from './span.ts'

/** What the storage is asked for beside the number of records. */
const beside: Readonly<Record<Aggregation, readonly StoreAggregate[]>> = {
  count: [],
  sum: ['sum'],
  avg: ['sum'],
  min: ['min'],
  max: ['max'],
  first: [],
  last: [],
}

type Sums = Omit<Bucket, 'count' | 'value'> & { count: number; sum: number; min: number; max: number }

/** @param finder of the field `value` */
export async function bucketsOf(asking: Asking, query: AggregateQuery, finder: Finder): Promise<Grouped<Bucket>> {
  const { whole } = boundsOf(query)
  if (isEmpty(whole)) return { groups: [], total: 0 }
  const { aggregation, intervalUs, offset, limit } = query
  const sums = new Map<string, Sums>()
  const aggregates = ['count', ...beside[aggregation]] as const
  for await (const lines of asking.query(selectBuckets(asking.bucket, query, finder, whole, { intervalUs, aggregates }))) {
    for (const line of lines) add(sums, line, query)
  }
  const ordered = [...sums.values()].map(one => bucketOf(one, aggregation)).sort(bucketOrder(query.direction))
  const shown = ordered.slice(offset, offset + limit)
  const isEnd = aggregation === 'first' || aggregation === 'last'
  return { groups: isEnd ? await withEnds(asking, query, finder, whole, shown, aggregation) : shown, total: ordered.length }
}

function add(sums: Map<string, Sums>, line: Line, { channel, intervalUs }: AggregateQuery): void {
  const { publisher, subtopic, name, unit } = tagsOfLine(line)
  // The first bucket begins where the range does.
  const timeUs = Math.floor(microsecondOfLine(line) / intervalUs) * intervalUs
  const key = JSON.stringify([timeUs, publisher, subtopic, name, unit])
  let sum = sums.get(key)
  if (sum === undefined) {
    if (sums.size === groupsMax) throw tooManyGroups('buckets')
    const of = { channel, publisher, subtopic, name, unit: unit === '' ? undefined : unit, timeUs }
    sums.set(key, (sum = { ...of, count: 0, sum: 0, min: Infinity, max: -Infinity }))
  }
  const value = Number(cell(line, '_value'))
  const aggregate = cell(line, 'result') as StoreAggregate
  if (aggregate === 'count' || aggregate === 'sum') sum[aggregate] += value
  else sum[aggregate] = Math[aggregate](sum[aggregate], value)
}

function bucketOf({ channel, publisher, subtopic, name, unit, timeUs, count, sum, min, max }: Sums, aggregation: Aggregation): Bucket {
  const values: Readonly<Record<Aggregation, number>> = { count, sum, avg: sum / count, min, max, first: Number.NaN, last: Number.NaN }
  return { channel, publisher, subtopic, name, unit, timeUs, value: values[aggregation], count }
}

/** So many ends are asked for at once. */
const endsMax = 100

/**
 * The first or last number of each of these buckets. The storage gives the nanosecond at which it lies, whose last digits say nothing of the order
 * within a microsecond: the rows of that microsecond do.
 */
async function withEnds(
  asking: Asking,
  query: AggregateQuery,
  finder: Finder,
  whole: Span,
  buckets: readonly Bucket[],
  end: 'first' | 'last',
): Promise<Bucket[]> {
  const ranges: RowRange[] = []
  for (let at = 0; at < buckets.length; at += endsMax) {
    const asked = buckets.slice(at, at + endsMax).map((bucket): RowRange => {
      const { publisher, subtopic, name, unit = '', timeUs } = bucket
      return { ...within(whole, { startUs: timeUs, endUs: timeUs + query.intervalUs }), tags: { publisher, subtopic, name, unit } }
    })
    for await (const lines of asking.query(selectEnds(asking.bucket, query, finder, asked, end))) {
      for (const line of lines) {
        ranges.push({ ...microsecond(microsecondOfLine(line)), tags: asked[Number(cell(line, 'result'))]!.tags! })
      }
    }
  }
  const ends = new Map<string, SenmlRow>()
  const keyOf = (publisher: string, subtopic: string, name: string, unit: string | undefined, timeUs: number): string =>
    JSON.stringify([Math.floor(timeUs / query.intervalUs), publisher, subtopic, name, unit ?? ''])
  const order = rowOrder(end === 'first' ? 'asc' : 'desc')
  for await (const rows of rowsIn(asking, query, ranges)) {
    for (const row of rows) {
      if (row.kind !== 'senml' || row.value === undefined) continue
      const key = keyOf(row.publisher, row.subtopic, row.name, row.unit, row.timeUs)
      const known = ends.get(key)
      if (known === undefined || order(row, known) < 0) ends.set(key, row)
    }
  }
  return buckets.map(bucket => {
    const { publisher, subtopic, name, unit, timeUs, value } = bucket
    return { ...bucket, value: ends.get(keyOf(publisher, subtopic, name, unit, timeUs))?.value ?? value }
  })
}
