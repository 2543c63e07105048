// The statements of the PostgreSQL reader, pure: from a query to SQL and its values.
//
// A whole channel is walked along the index (channel, time), and one publisher of it along an index of its own (sinks/postgres/publisher-key.ts), so that
// nobody passes over everybody else's rows.

import { unitsDown } from '../instants.ts'
import { type AggregateQuery, type Direction, noFilters, type PageQuery, type RowKey, type Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'
import { behind, conditionsOf, instantOf, microseconds, orderOf, place, sourceOf } from './conditions.ts'
import { openStatement, type Statement, type StatementText } from './statement.ts'

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

function seriesColumns(table: string | undefined): readonly string[] {
  return table === undefined ? ['publisher', 'subtopic', 'name'] : ['publisher', 'subtopic']
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
  const series = seriesColumns(table)
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
  // Of these the time, by which `valuesOfRows` finds the value.
  first: 'min(m.time)',
  last: 'max(m.time)',
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
  const { grouped, valued } = groupedBy(query, groupsMax, statement)
  const order = bucketOrder(query)
  const page = `SELECT * FROM grouped AS g ORDER BY ${order} LIMIT ${statement.value(query.limit)} OFFSET ${statement.value(query.offset)}`
  const [ofPage, groups] = valued === undefined ? ['', page] : [`, page AS MATERIALIZED (${page})`, valued('page')]
  return statement.finish(
    `WITH grouped AS MATERIALIZED (${grouped}), counted AS (SELECT count(*) AS total FROM grouped)${ofPage}
     SELECT counted.total, ${bucketColumns} FROM counted LEFT JOIN LATERAL (${groups}) AS g ON true ORDER BY ${order}`,
  )
}

/**
 * All buckets of a piece, in their order, as one JSON text: the embedded database takes three times as long to give them as rows. In one pass
 * without a join, for which the planner has no numbers: it may take the square of the rows of a piece.
 */
export function selectPieceBuckets(query: AggregateQuery, groupsMax: number): Statement {
  const statement = openStatement()
  const { aggregation } = query
  const isOfOneRow = aggregation === 'first' || aggregation === 'last'
  const found = isOfOneRow ? `${aggregation === 'first' ? 'min' : 'max'}(ROW(m.time, ${place}, m.value))` : aggregates[aggregation]
  const value = isOfOneRow ? `(row_to_json(g.value) ->> 'f4')::float8` : 'g.value'
  const { grouped } = groupedBy(query, groupsMax, statement, found)
  return statement.finish(
    `SELECT ${asJson(`SELECT ${bucketKeys}, ${value} AS value FROM (${grouped}) AS g ORDER BY ${bucketOrder(query)}`)}`,
  )
}

const bucketKeys = 'g.publisher, g.subtopic, g.name, g.unit, (extract(epoch FROM g.bucket) * 1000000)::bigint AS time_us, g.count'
const bucketColumns = `${bucketKeys}, g.value`

function bucketOrder({ direction }: AggregateQuery): string {
  return `g.bucket ${direction}, g.publisher COLLATE "C", g.subtopic COLLATE "C", g.name COLLATE "C", g.unit COLLATE "C" NULLS FIRST`
}

function asJson(select: string): string {
  return `(SELECT coalesce(json_agg(found), '[]')::text FROM (${select}) AS found) AS found`
}

interface GroupedBy {
  /** Buckets, with no more than the time in place of the value where that is of one row. */
  readonly grouped: string
  /** For those: buckets of the table `of` with their value. */
  readonly valued: ((of: string) => string) | undefined
}

function groupedBy(query: AggregateQuery, groupsMax: number, statement: StatementText, value = aggregates[query.aggregation]): GroupedBy {
  const { aggregation, intervalUs } = query
  const source = sourceOf(undefined)
  const where = [...conditionsOf(query, source, statement), 'm.value IS NOT NULL'].join(' AND ')
  const origin = microseconds(originUs(intervalUs), statement)
  const bucket = `date_bin(${statement.value(intervalUs)}::bigint * interval '1 microsecond', m.time, ${origin})`
  const grouped = `SELECT m.publisher, m.subtopic, m.name, m.unit, ${bucket} AS bucket, count(*) AS count, ${value} AS value
    FROM ${source.table} AS m WHERE ${where} GROUP BY 1, 2, 3, 4, 5 LIMIT ${statement.value(groupsMax + 1)}`
  if (aggregation !== 'first' && aggregation !== 'last') return { grouped, valued: undefined }
  const direction = aggregation === 'first' ? 'ASC' : 'DESC'
  const key = 'g.bucket, g.publisher, g.subtopic, g.name, g.unit'
  // Each instant is looked at once, however many buckets have their row in it.
  const valued = (of: string): string =>
    `SELECT DISTINCT ON (${key}) ${key}, g.count, m.value
     FROM (SELECT DISTINCT value AS time FROM ${of}) AS instant
     CROSS JOIN LATERAL (
       SELECT m.publisher, m.subtopic, m.name, m.unit, m.time, m.position, m.index, m.value
       FROM ${source.table} AS m WHERE ${where} AND m.time = instant.time OFFSET 0
     ) AS m
     JOIN ${of} AS g ON g.value = m.time AND g.publisher = m.publisher AND g.subtopic = m.subtopic AND g.name = m.name
       AND g.unit IS NOT DISTINCT FROM m.unit
     ORDER BY ${key}, m.position ${direction}, m.index ${direction}`
  return { grouped, valued }
}

/**
 * The time of the row with which a piece of so many rows ends, or with which their texts first have so many bytes, whatever the filters: nothing where
 * there are fewer. Lengths are known without reading the texts.
 */
export function selectPieceEnd(
  { channel, publisher, fromNs, toNs, format }: Selection,
  direction: Direction,
  table: string | undefined,
  max: { readonly rows: number; readonly bytes: number },
): Statement {
  const source = sourceOf(table)
  const { time, timeUnits } = source
  const statement = openStatement()
  const conditions = conditionsOf({ ...noFilters, channel, format, publisher, fromNs, toNs }, source, statement)
  const rows = `${statement.value(max.rows)}::bigint`
  // With a limit of its own, so that the planner walks the index and sorts nothing.
  const next = `SELECT m.${time}, ${source.bytes} AS bytes FROM ${source.table} AS m WHERE ${conditions.join(' AND ')}
    ORDER BY m.${time} ${direction} LIMIT ${rows}`
  const summed = `SELECT m.${time}, row_number() OVER upto AS nth, sum(m.bytes) OVER upto AS bytes FROM (${next}) AS m
    WINDOW upto AS (ORDER BY m.${time} ${direction} ROWS UNBOUNDED PRECEDING)`
  return statement.finish(
    `SELECT ${timeUnits} AS time FROM (${summed}) AS m WHERE m.nth = ${rows} OR m.bytes >= ${statement.value(max.bytes)}::bigint
     ORDER BY m.${time} ${direction} LIMIT 1`,
  )
}

/** The key of the newest row of each series of a piece, newest first, as one JSON text. */
export function selectPieceSeries(selection: Selection, table: string | undefined): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const series = seriesColumns(table)
    .map(column => `m.${column}`)
    .join(', ')
  const where = conditionsOf(selection, source, statement).join(' AND ')
  // In one pass without a join, as the buckets of a piece.
  const newest = `SELECT ${series}, max(m.${source.time}) AS ${source.time}, max(ROW(m.${source.time}, ${place})) AS key
    FROM ${source.table} AS m WHERE ${where} GROUP BY ${series}`
  // As texts: JSON has no integers of 64 bits for JavaScript.
  const columnsOfKey = `json_build_array(${series}) AS series, ${source.timeUnits}::text AS time,
    row_to_json(m.key) ->> 'f2' AS position, (row_to_json(m.key) ->> 'f3')::integer AS index`
  return statement.finish(`SELECT ${asJson(`SELECT ${columnsOfKey} FROM (${newest}) AS m ORDER BY m.key DESC`)}`)
}

/** The rows of these keys, in the order of rows. */
export function selectRows(selection: Selection, direction: Direction, table: string | undefined, keys: readonly RowKey[]): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const instants = [...new Set(keys.map(({ timeNs }) => timeNs))].map(timeNs => instantOf({ timeNs }, source, statement))
  const positions = statement.value(keys.map(({ position }) => position))
  const indexes = statement.value(keys.map(({ index }) => index))
  return statement.finish(
    `SELECT ${source.columns} FROM ${source.table} AS m
     WHERE ${conditionsOf(selection, source, statement).join(' AND ')} AND m.${source.time} IN (${instants.join(', ')})
       AND (m.position, m.index) IN (SELECT * FROM unnest(${positions}::bigint[], ${indexes}::integer[]))
     ORDER BY ${orderOf(direction, source)}`,
  )
}

/** The table of a format that is not SenML. */
export function selectTable(format: string): Statement {
  if (format === senmlFormat) throw new RangeError(`the format "${senmlFormat}" has a table of its own`)
  const statement = openStatement()
  return statement.finish(`SELECT table_name FROM sluice.formats WHERE format = ${statement.value(format)}`)
}
