// The statements of the PostgreSQL reader, pure: from a query to SQL and its values.
//
// A whole channel is walked along the index (channel, time), and one publisher of it along an index of its own (sinks/postgres/publisher-key.ts), so that
// nobody passes over everybody else's rows.

import { unitsDown } from '../instants.ts'
import type { AggregateQuery, PageQuery, Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'
import { behind, conditionsOf, instantOf, microseconds, orderOf, sourceOf } from './conditions.ts'
import { openStatement, type Statement } from './statement.ts'

/** The rows of a page, in their total order. */
export function selectPage(query: PageQuery, table: string | undefined): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const conditions = [...conditionsOf(query, source, statement), ...behind(query.after, query.direction, source, statement)]
  const order = orderOf(query.direction, source)
  return statement.finish(
    `SELECT ${source.columns} FROM ${source.table} AS m WHERE ${conditions.join(' AND ')}
     ORDER BY ${order} LIMIT ${statement.value(query.limit)} OFFSET ${statement.value(query.offset)}`,
  )
}

/** The number of rows, counted up to `max` and one more. */
export function selectCount(selection: Selection, table: string | undefined, max: number): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const conditions = conditionsOf(selection, source, statement)
  const limit = statement.value(BigInt(max) + 1n)
  return statement.finish(
    `SELECT count(*) AS total FROM (SELECT 1 FROM ${source.table} AS m WHERE ${conditions.join(' AND ')} LIMIT ${limit}) AS counted`,
  )
}

/**
 * The newest row of each series, of a page of them; `total` is their number. The newest time of each comes from one pass without a sort; those
 * that the page may show are then looked up by it.
 */
export function selectLatest(query: PageQuery, table: string | undefined, groupsMax: number): Statement {
  const { direction, limit, offset, after } = query
  const source = sourceOf(table)
  const { time } = source
  const statement = openStatement()
  const conditions = conditionsOf(query, source, statement)
  const series = ['publisher', 'subtopic', ...(table === undefined ? ['name'] : [])]
  const keys = series.map(column => `m.${column}`).join(', ')
  const newest = `SELECT ${keys}, max(m.${time}) AS ${time} FROM ${source.table} AS m WHERE ${conditions.join(' AND ')} GROUP BY ${keys}
    LIMIT ${statement.value(groupsMax + 1)}`
  const most = `${statement.value(limit + offset)}::bigint`
  const cut = behind(after, direction, source, statement)
  let near = `SELECT * FROM newest ORDER BY ${time} ${direction} FETCH FIRST (${most}) ROWS WITH TIES`
  if (after !== undefined) {
    // Those of the key's own instant may lie before it, and fill no page.
    const at = instantOf(after, source, statement)
    near = `SELECT * FROM newest WHERE ${time} ${direction === 'desc' ? '<=' : '>='} ${at} ORDER BY ${time} ${direction}
      FETCH FIRST (${most} + (SELECT count(*) FROM newest WHERE ${time} = ${at})) ROWS WITH TIES`
  }
  const same = [...series, time].map(column => `m.${column} = near.${column}`)
  const row = `SELECT * FROM ${source.table} AS m WHERE ${[...conditions, ...same].join(' AND ')} ORDER BY m.position DESC, m.index DESC LIMIT 1`
  return statement.finish(
    `WITH newest AS MATERIALIZED (${newest}), counted AS (SELECT count(*) AS total FROM newest)
     SELECT counted.total, ${source.columns} FROM counted LEFT JOIN LATERAL (
       SELECT m.* FROM (${near}) AS near CROSS JOIN LATERAL (${row}) AS m ${cut.length === 0 ? '' : `WHERE ${cut.join(' AND ')}`}
       ORDER BY ${orderOf(direction, source)} LIMIT ${statement.value(limit)} OFFSET ${statement.value(offset)}
     ) AS m ON true ORDER BY ${orderOf(direction, source)}`,
  )
}

const aggregates: Readonly<Record<AggregateQuery['aggregation'], string>> = {
  min: 'min(m.value)',
  max: 'max(m.value)',
  avg: 'avg(m.value)',
  sum: 'sum(m.value)',
  count: 'count(*)::float8',
  first: '(array_agg(m.value ORDER BY m.time, m.position, m.index))[1]',
  last: '(array_agg(m.value ORDER BY m.time DESC, m.position DESC, m.index DESC))[1]',
}

/** Before every row: the time of each is an int64 of nanoseconds. */
const beforeRowsUs = -(2n ** 63n) / 1000n - 1n

/**
 * Where a bucket before all rows begins, microseconds since 1970. From an origin behind a row, PostgreSQL before 14.12, 15.7 and 16.3 gives what
 * lies exactly at the beginning of a bucket to the bucket before.
 */
export function originUs(intervalUs: number): bigint {
  const interval = BigInt(intervalUs)
  return unitsDown(beforeRowsUs, interval) * interval
}

/** Buckets of a page, with the number of all in `total`. Texts are in the order of their bytes. */
export function selectBuckets(query: AggregateQuery, groupsMax: number): Statement {
  const statement = openStatement()
  const source = sourceOf(undefined)
  const conditions = [...conditionsOf(query, source, statement), 'm.value IS NOT NULL']
  const origin = microseconds(originUs(query.intervalUs), statement)
  const bucket = `date_bin(${statement.value(query.intervalUs)}::bigint * interval '1 microsecond', m.time, ${origin})`
  const grouped = `SELECT m.publisher, m.subtopic, m.name, m.unit, ${bucket} AS bucket, count(*) AS count, ${aggregates[query.aggregation]} AS value
    FROM ${source.table} AS m WHERE ${conditions.join(' AND ')} GROUP BY 1, 2, 3, 4, 5 LIMIT ${statement.value(groupsMax + 1)}`
  const order = `g.bucket ${query.direction}, g.publisher COLLATE "C", g.subtopic COLLATE "C", g.name COLLATE "C", g.unit COLLATE "C" NULLS FIRST`
  return statement.finish(
    `WITH grouped AS MATERIALIZED (${grouped}), counted AS (SELECT count(*) AS total FROM grouped)
     SELECT counted.total, g.publisher, g.subtopic, g.name, g.unit, (extract(epoch FROM g.bucket) * 1000000)::bigint AS time_us, g.count, g.value
     FROM counted LEFT JOIN LATERAL (
       SELECT * FROM grouped AS g ORDER BY ${order} LIMIT ${statement.value(query.limit)} OFFSET ${statement.value(query.offset)}
     ) AS g ON true ORDER BY ${order}`,
  )
}

/** The table of a format that is not SenML. */
export function selectTable(format: string): Statement {
  if (format === senmlFormat) throw new RangeError(`the format "${senmlFormat}" has a table of its own`)
  const statement = openStatement()
  return statement.finish(`SELECT table_name FROM sluice.formats WHERE format = ${statement.value(format)}`)
}
