// Builds the statements of the PostgreSQL reader that group rows: the newest of each series, and buckets. Pure.

import { unitsDown } from '../../transformers/time-units.ts'
import { largeFrom, largeUnit } from '../groups.ts'
import type { AggregateQuery, Aggregation, PageQuery } from '../reader.ts'
import {
  behind,
  conditionsOf,
  type DocumentScope,
  isOfDocuments,
  keyset,
  microseconds,
  openStatement,
  orderOf,
  type RecordScope,
  rowsWhere,
  type Scope,
  type Statement,
  type StatementText,
  seriesConditions,
  sourceOf,
  textOf,
  timestampOf,
  withTexts,
} from './conditions.ts'

/** A page of the newest rows of all series; `total` is the number of series. */
export function selectLatest(query: PageQuery, scope: Scope, groupsMax: number): Statement {
  return isOfDocuments(scope) ? newestDocuments(query, scope, groupsMax) : newestRecords(query, scope, groupsMax)
}

/** The newest time of each series comes from one pass without a sort; the rows that the page may show are then looked up by it. */
function newestDocuments(query: PageQuery, scope: DocumentScope, groupsMax: number): Statement {
  const { direction, limit, offset, after } = query
  const source = sourceOf(scope)
  const { time } = source
  const statement = openStatement()
  const conditions = conditionsOf(query, scope, statement)
  const series = ['publisher', 'subtopic']
  const keys = series.map(column => `m.${column}`).join(', ')
  const newest = `SELECT ${keys}, max(m.${time}) AS ${time} FROM ${source.table} AS m WHERE ${conditions.join(' AND ')} GROUP BY ${keys}
    LIMIT ${statement.value(groupsMax + 1)}`
  const most = `${statement.value(limit + offset)}::bigint`
  const beyond = behind(after, direction, source, statement)
  let near = `SELECT * FROM newest ORDER BY ${time} ${direction} FETCH FIRST (${most}) ROWS WITH TIES`
  if (after !== undefined) {
    // Rows with the same time as the key may come before it, and are then not on the page.
    const at = timestampOf(after, source, statement)
    near = `SELECT * FROM newest WHERE ${time} ${direction === 'desc' ? '<=' : '>='} ${at} ORDER BY ${time} ${direction}
      FETCH FIRST (${most} + (SELECT count(*) FROM newest WHERE ${time} = ${at})) ROWS WITH TIES`
  }
  const same = [...series, time].map(column => `m.${column} = near.${column}`)
  const row = `SELECT * FROM ${source.table} AS m WHERE ${[...conditions, ...same].join(' AND ')} ORDER BY m.position DESC, m.index DESC LIMIT 1`
  return statement.finish(
    `WITH newest AS MATERIALIZED (${newest}), counted AS (SELECT count(*) AS total FROM newest)
     SELECT counted.total, ${source.columns} FROM counted LEFT JOIN LATERAL (
       SELECT m.* FROM (${near}) AS near CROSS JOIN LATERAL (${row}) AS m ${beyond.length === 0 ? '' : `WHERE ${beyond.join(' AND ')}`}
       ORDER BY ${orderOf(direction, source)} LIMIT ${statement.value(limit)} OFFSET ${statement.value(offset)}
     ) AS m ON true ORDER BY ${orderOf(direction, source)}`,
  )
}

/**
 * Looks at the newest row of each series that may match, and at all rows of the rests. A publisher, subtopic and name may be in several series, and in
 * the rest. The rows of the page are then looked up by their keys.
 */
function newestRecords(query: PageQuery, { channel }: RecordScope, groupsMax: number): Statement {
  const { direction, limit, offset, after } = query
  const statement = openStatement()
  const bySeries = [`s.channel = ${statement.value(channel)}::integer`, ...seriesConditions(query, statement)]
  const source = sourceOf({ channel, series: [] })
  const where = ['m.series = s.id', ...conditionsOf(query, { channel, series: [] }, statement)].join(' AND ')
  const found = (columns: string, rows: string, isNamed: boolean): string =>
    `SELECT s.publisher, ${columns} FROM sluice.series AS s CROSS JOIN LATERAL (${rows}) AS m
     WHERE ${[...bySeries, `s.name IS ${isNamed ? 'NOT ' : ''}NULL`].join(' AND ')}`
  // By the time alone first, which is the order of the index.
  const newest = `SELECT m.series, m.time, ${keyset} FROM ${source.table} AS m WHERE ${where} ORDER BY m.time DESC FETCH FIRST ROW WITH TIES`
  const named = `SELECT * FROM (${newest}) AS m ORDER BY ${keyset.replaceAll(/m\.\w+/g, '$& DESC')} LIMIT 1`
  const rests = `SELECT m.series, m.subtopic, m.name, max(m.time) AS time, max(ARRAY[${source.timeUnits}, m.position, m.index]) AS key
    FROM ${source.table} AS m WHERE ${where} GROUP BY m.series, m.subtopic, m.name`
  const group = 'publisher COLLATE "C", subtopic COLLATE "C", name COLLATE "C"'
  const beyond = behind(after, direction, source, statement)
  const near = `SELECT * FROM newest AS m ${beyond.length === 0 ? '' : `WHERE ${beyond.join(' AND ')}`}
    ORDER BY ${orderOf(direction, source)} LIMIT ${statement.value(limit)} OFFSET ${statement.value(offset)}`
  return statement.finish(
    `WITH found AS (
       ${found(`s.subtopic, s.name, m.series, m.time, ${keyset}`, named, true)}
       UNION ALL
       ${found('m.subtopic, m.name, m.series, m.time, m.key[2] AS position, m.key[3]::integer AS index', rests, false)}
     ), newest AS MATERIALIZED (
       SELECT DISTINCT ON (${group}) * FROM found ORDER BY ${group}, time DESC, position DESC, index DESC LIMIT ${statement.value(groupsMax + 1)}
     ), counted AS (SELECT count(*) AS total FROM newest)
     SELECT counted.total, ${source.columns} FROM counted LEFT JOIN LATERAL (
       SELECT m.* FROM (${near}) AS near CROSS JOIN LATERAL (
         SELECT * FROM ${source.table} AS m
         WHERE m.series = near.series AND m.time = near.time AND m.position = near.position AND m.index = near.index LIMIT 1
       ) AS m
     ) AS m ON true LEFT JOIN LATERAL (SELECT * FROM sluice.series AS s WHERE s.id = m.series OFFSET 0) AS s ON true
     ORDER BY ${orderOf(direction, source)}`,
  )
}

/** What `totalOf` and `meanOf` (../groups.ts) take. PostgreSQL's own `sum` and `avg` fail when an intermediate sum overflows. */
const sums = `coalesce(sum(m.value) FILTER (WHERE abs(m.value) < ${float8(largeFrom)}), 0) AS small,
  coalesce(sum(m.value / ${float8(largeUnit)}) FILTER (WHERE abs(m.value) >= ${float8(largeFrom)}), 0) AS large`

function float8(number: number): string {
  return `'${number}'::float8`
}

/** Of rows `m`. */
export const aggregates: Readonly<Record<Aggregation, string>> = {
  min: 'min(m.value) AS value',
  max: 'max(m.value) AS value',
  avg: `${sums}, min(m.value) AS min, max(m.value) AS max`,
  sum: sums,
  count: 'count(*)::float8 AS value',
  // For these the time, by which `valued` finds the value.
  first: 'min(m.time) AS value',
  last: 'max(m.time) AS value',
}

/** Of groups `g`. */
export function valueColumns(aggregation: Aggregation): string {
  if (aggregation === 'sum') return 'g.small, g.large'
  return aggregation === 'avg' ? 'g.small, g.large, g.min, g.max' : 'g.value'
}

/** Earlier than every row, whose time is an int64 of nanoseconds. */
const beforeRowsUs = -(2n ** 63n) / 1000n - 1n

/**
 * The start of a bucket that is earlier than all rows, in microseconds since 1970. With an origin later than a row, PostgreSQL before 14.12, 15.7 and
 * 16.3 assigns a row exactly at the start of a bucket to the previous bucket.
 */
export function originUs(intervalUs: number): bigint {
  const interval = BigInt(intervalUs)
  return unitsDown(beforeRowsUs, interval) * interval
}

/** Of groups `m` of series: what the series have together. For the values of `aggregates`. */
function together(aggregation: Aggregation): string {
  if (aggregation === 'sum') return 'sum(m.small) AS small, sum(m.large) AS large'
  if (aggregation === 'avg') return `${together('sum')}, min(m.min) AS min, max(m.max) AS max`
  if (aggregation === 'count') return 'sum(m.value) AS value'
  return aggregation === 'min' || aggregation === 'first' ? 'min(m.value) AS value' : 'max(m.value) AS value'
}

/** A page of buckets, with the number of all in `total`. Texts are ordered by their bytes. */
export function selectBuckets(query: AggregateQuery, scope: RecordScope, groupsMax: number): Statement {
  const statement = openStatement()
  const { grouped, valued } = groupedBy(query, scope, groupsMax, statement)
  const order = bucketOrder(query)
  const page = `SELECT * FROM grouped AS g ORDER BY ${order} LIMIT ${statement.value(query.limit)} OFFSET ${statement.value(query.offset)}`
  const [pageClause, groups] = valued === undefined ? ['', page] : [`, page AS MATERIALIZED (${page})`, valued('page')]
  return statement.finish(
    `WITH grouped AS MATERIALIZED (${grouped}), counted AS (SELECT count(*) AS total FROM grouped)${pageClause}
     SELECT counted.total, ${bucketKeys}, ${valueColumns(query.aggregation)} FROM counted LEFT JOIN LATERAL (${groups}) AS g ON true ORDER BY ${order}`,
  )
}

/** Of groups `g`. */
export const bucketKeys = 'g.publisher, g.subtopic, g.name, g.unit, (extract(epoch FROM g.bucket) * 1000000)::bigint AS time_us, g.count'

export function bucketOrder({ direction }: AggregateQuery): string {
  return `g.bucket ${direction}, g.publisher COLLATE "C", g.subtopic COLLATE "C", g.name COLLATE "C", g.unit COLLATE "C" NULLS FIRST`
}

interface GroupedBy {
  /** Buckets. For `first` and `last` they have the time instead of the value. */
  readonly grouped: string
  /** For these: adds the values to the buckets of the table `of`. */
  readonly valued: ((of: string) => string) | undefined
}

/** Groups by numbers first, and then by texts: the same ones may be those of several series, and of rows of the rest. */
export function groupedBy(
  query: AggregateQuery,
  scope: RecordScope,
  groupsMax: number,
  statement: StatementText,
  value = aggregates[query.aggregation],
): GroupedBy {
  const { aggregation, intervalUs } = query
  const where = [...conditionsOf(query, scope, statement), 'm.value IS NOT NULL']
  const origin = microseconds(originUs(intervalUs), statement)
  const bucket = `date_bin(${statement.value(intervalUs)}::bigint * interval '1 microsecond', m.time, ${origin})`
  const texts = `s.publisher, ${textOf('subtopic')} AS subtopic, ${textOf('name')} AS name, ${textOf('unit')} AS unit`
  const bySeries = `SELECT m.series, m.subtopic, m.name, m.unit, ${bucket} AS bucket, count(*) AS count, ${value}
    FROM ${rowsWhere(scope, where, statement)} GROUP BY 1, 2, 3, 4, 5`
  const grouped = `SELECT ${texts}, m.bucket, sum(m.count)::bigint AS count, ${together(aggregation)}
    FROM (${bySeries}) AS m ${withTexts} GROUP BY 1, 2, 3, 4, 5 LIMIT ${statement.value(groupsMax + 1)}`
  if (aggregation !== 'first' && aggregation !== 'last') return { grouped, valued: undefined }
  const direction = aggregation === 'first' ? 'ASC' : 'DESC'
  const key = 'g.bucket, g.publisher, g.subtopic, g.name, g.unit'
  // Each time is read once, however many buckets have their row there.
  const valued = (of: string): string =>
    `SELECT DISTINCT ON (${key}) ${key}, g.count, m.value
     FROM (SELECT DISTINCT value AS time FROM ${of}) AS instant
     CROSS JOIN LATERAL (
       SELECT ${texts}, m.time, m.position, m.index, m.value
       FROM (SELECT m.* FROM ${rowsWhere(scope, [...where, 'm.time = instant.time'], statement)}) AS m ${withTexts} OFFSET 0
     ) AS m
     JOIN ${of} AS g ON g.value = m.time AND g.publisher = m.publisher AND g.subtopic = m.subtopic AND g.name = m.name
       AND g.unit IS NOT DISTINCT FROM m.unit
     ORDER BY ${key}, m.position ${direction}, m.index ${direction}`
  return { grouped, valued }
}
