// Builds the statements of the PostgreSQL reader: from a query to SQL and its values. Pure.
//
// A whole channel is read along the index (channel, time), and one publisher in it along an index of its own (sinks/postgres/schema.ts), which
// contains no rows of other publishers.

import { unitsDown } from '../../transformers/time-units.ts'
import { largeFrom, largeUnit } from '../groups.ts'
import {
  type AggregateQuery,
  type Aggregation,
  type Direction,
  type Filter,
  type FormatsQuery,
  noFilters,
  type PageQuery,
  type RowKey,
  senmlFormat,
} from '../reader.ts'
import {
  behind,
  conditionsOf,
  keyset,
  microseconds,
  openStatement,
  orderOf,
  type Statement,
  type StatementText,
  sourceOf,
  timestampOf,
} from './conditions.ts'

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

/** The number of rows, counted up to `max + 1`. */
export function selectCount(filter: Filter, table: string | undefined, max: number): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const conditions = conditionsOf(filter, source, statement)
  const limit = statement.value(BigInt(max) + 1n)
  return statement.finish(
    `SELECT count(*) AS total FROM (SELECT 1 FROM ${source.table} AS m WHERE ${conditions.join(' AND ')} LIMIT ${limit}) AS counted`,
  )
}

function seriesColumns(table: string | undefined): readonly string[] {
  return table === undefined ? ['publisher', 'subtopic', 'name'] : ['publisher', 'subtopic']
}

/**
 * A page of the newest rows of all series; `total` is the number of series. The newest time of each series comes from one pass without a sort; the
 * rows that the page may show are then looked up by it.
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

/** What `totalOf` and `meanOf` (../groups.ts) take. PostgreSQL's own `sum` and `avg` fail when an intermediate sum overflows. */
const sums = `coalesce(sum(m.value) FILTER (WHERE abs(m.value) < ${float8(largeFrom)}), 0) AS small,
  coalesce(sum(m.value / ${float8(largeUnit)}) FILTER (WHERE abs(m.value) >= ${float8(largeFrom)}), 0) AS large`

function float8(number: number): string {
  return `'${number}'::float8`
}

const aggregates: Readonly<Record<Aggregation, string>> = {
  min: 'min(m.value) AS value',
  max: 'max(m.value) AS value',
  avg: `${sums}, min(m.value) AS min, max(m.value) AS max`,
  sum: sums,
  count: 'count(*)::float8 AS value',
  // For these the time, by which `valued` finds the value.
  first: 'min(m.time) AS value',
  last: 'max(m.time) AS value',
}

function valueColumns(aggregation: Aggregation): string {
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

/** A page of buckets, with the number of all in `total`. Texts are ordered by their bytes. */
export function selectBuckets(query: AggregateQuery, groupsMax: number): Statement {
  const statement = openStatement()
  const { grouped, valued } = groupedBy(query, groupsMax, statement)
  const order = bucketOrder(query)
  const page = `SELECT * FROM grouped AS g ORDER BY ${order} LIMIT ${statement.value(query.limit)} OFFSET ${statement.value(query.offset)}`
  const [pageClause, groups] = valued === undefined ? ['', page] : [`, page AS MATERIALIZED (${page})`, valued('page')]
  return statement.finish(
    `WITH grouped AS MATERIALIZED (${grouped}), counted AS (SELECT count(*) AS total FROM grouped)${pageClause}
     SELECT counted.total, ${bucketKeys}, ${valueColumns(query.aggregation)} FROM counted LEFT JOIN LATERAL (${groups}) AS g ON true ORDER BY ${order}`,
  )
}

/**
 * All buckets of a piece, in their order, as one JSON text: the embedded database takes three times as long to return them as rows. In one pass
 * without a join: the planner has no statistics for one, and may choose a plan that is quadratic in the rows of a piece.
 */
export function selectPieceBuckets(query: AggregateQuery, groupsMax: number): Statement {
  const statement = openStatement()
  const { aggregation } = query
  const isOfOneRow = aggregation === 'first' || aggregation === 'last'
  const found = isOfOneRow
    ? `${aggregation === 'first' ? 'min' : 'max'}(ROW(m.time, ${keyset}, m.value)) AS value`
    : aggregates[aggregation]
  const value = isOfOneRow ? `(row_to_json(g.value) ->> 'f4')::float8 AS value` : valueColumns(aggregation)
  const { grouped } = groupedBy(query, groupsMax, statement, found)
  return statement.finish(`SELECT ${asJson(`SELECT ${bucketKeys}, ${value} FROM (${grouped}) AS g ORDER BY ${bucketOrder(query)}`)}`)
}

const bucketKeys = 'g.publisher, g.subtopic, g.name, g.unit, (extract(epoch FROM g.bucket) * 1000000)::bigint AS time_us, g.count'

function bucketOrder({ direction }: AggregateQuery): string {
  return `g.bucket ${direction}, g.publisher COLLATE "C", g.subtopic COLLATE "C", g.name COLLATE "C", g.unit COLLATE "C" NULLS FIRST`
}

function asJson(select: string): string {
  return `(SELECT coalesce(json_agg(found), '[]')::text FROM (${select}) AS found) AS found`
}

interface GroupedBy {
  /** Buckets. For `first` and `last` they have the time instead of the value. */
  readonly grouped: string
  /** For these: adds the values to the buckets of the table `of`. */
  readonly valued: ((of: string) => string) | undefined
}

function groupedBy(query: AggregateQuery, groupsMax: number, statement: StatementText, value = aggregates[query.aggregation]): GroupedBy {
  const { aggregation, intervalUs } = query
  const source = sourceOf(undefined)
  const where = [...conditionsOf(query, source, statement), 'm.value IS NOT NULL'].join(' AND ')
  const origin = microseconds(originUs(intervalUs), statement)
  const bucket = `date_bin(${statement.value(intervalUs)}::bigint * interval '1 microsecond', m.time, ${origin})`
  const grouped = `SELECT m.publisher, m.subtopic, m.name, m.unit, ${bucket} AS bucket, count(*) AS count, ${value}
    FROM ${source.table} AS m WHERE ${where} GROUP BY 1, 2, 3, 4, 5 LIMIT ${statement.value(groupsMax + 1)}`
  if (aggregation !== 'first' && aggregation !== 'last') return { grouped, valued: undefined }
  const direction = aggregation === 'first' ? 'ASC' : 'DESC'
  const key = 'g.bucket, g.publisher, g.subtopic, g.name, g.unit'
  // Each time is read once, however many buckets have their row there.
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
 * The time of the row at which a piece ends: after a number of rows, or when their texts reach a number of bytes, whatever the filters. Returns no
 * row if there are fewer. Lengths are read without reading the texts.
 */
export function selectPieceEnd(
  { channel, publisher, fromNs, toNs, format }: Filter,
  direction: Direction,
  table: string | undefined,
  max: { readonly rows: number; readonly bytes: number },
): Statement {
  const source = sourceOf(table)
  const { time, timeUnits } = source
  const statement = openStatement()
  const conditions = conditionsOf({ ...noFilters, channel, format, publisher, fromNs, toNs }, source, statement)
  const rows = `${statement.value(max.rows)}::bigint`
  // With its own limit, so that the planner reads along the index and does not sort.
  const next = `SELECT m.${time}, ${source.bytes} AS bytes FROM ${source.table} AS m WHERE ${conditions.join(' AND ')}
    ORDER BY m.${time} ${direction} LIMIT ${rows}`
  const summed = `SELECT m.${time}, row_number() OVER upto AS nth, sum(m.bytes) OVER upto AS bytes FROM (${next}) AS m
    WINDOW upto AS (ORDER BY m.${time} ${direction} ROWS UNBOUNDED PRECEDING)`
  return statement.finish(
    `SELECT ${timeUnits} AS time FROM (${summed}) AS m WHERE m.nth = ${rows} OR m.bytes >= ${statement.value(max.bytes)}::bigint
     ORDER BY m.${time} ${direction} LIMIT 1`,
  )
}

/** The key of the newest row of each series in a piece, newest first, as one JSON text. */
export function selectPieceSeries(filter: Filter, table: string | undefined): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const series = seriesColumns(table)
    .map(column => `m.${column}`)
    .join(', ')
  const where = conditionsOf(filter, source, statement).join(' AND ')
  // In one pass without a join, like the buckets of a piece.
  const newest = `SELECT ${series}, max(m.${source.time}) AS ${source.time}, max(ROW(m.${source.time}, ${keyset})) AS key
    FROM ${source.table} AS m WHERE ${where} GROUP BY ${series}`
  // As texts, since numbers of JSON lose digits beyond 2^53 in JavaScript.
  const columnsOfKey = `json_build_array(${series}) AS series, ${source.timeUnits}::text AS time,
    row_to_json(m.key) ->> 'f2' AS position, (row_to_json(m.key) ->> 'f3')::integer AS index`
  return statement.finish(`SELECT ${asJson(`SELECT ${columnsOfKey} FROM (${newest}) AS m ORDER BY m.key DESC`)}`)
}

/** The rows with these keys, in the order of rows. */
export function selectRows(filter: Filter, direction: Direction, table: string | undefined, keys: readonly RowKey[]): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const timestamps = [...new Set(keys.map(({ timeNs }) => timeNs))].map(timeNs => timestampOf({ timeNs }, source, statement))
  const positions = statement.value(keys.map(({ position }) => position))
  const indexes = statement.value(keys.map(({ index }) => index))
  return statement.finish(
    `SELECT ${source.columns} FROM ${source.table} AS m
     WHERE ${conditionsOf(filter, source, statement).join(' AND ')} AND m.${source.time} IN (${timestamps.join(', ')})
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

/** All formats whose table exists and may be read, ordered by bytes. */
export function selectTables(): Statement {
  return openStatement().finish(
    `SELECT format, table_name FROM sluice.formats WHERE has_table_privilege(to_regclass(format('formats.%I', table_name)), 'SELECT')
     ORDER BY format COLLATE "C"`,
  )
}

/**
 * Which of these tables have a row, by number. Selects the first row in the order of time, so that the planner uses the index even if it expects
 * many.
 */
export function selectFilled({ channel, publisher, fromUs }: FormatsQuery, tables: readonly string[]): Statement {
  const statement = openStatement()
  const looks = tables.map((table, number) => {
    const source = sourceOf(table)
    const filter = { ...noFilters, channel, publisher, format: table, fromNs: BigInt(fromUs) * 1000n }
    const conditions = conditionsOf(filter, source, statement).join(' AND ')
    return `(SELECT ${number} AS number FROM ${source.table} AS m WHERE ${conditions} ORDER BY m.${source.time} DESC LIMIT 1)`
  })
  return statement.finish(looks.join(' UNION ALL '))
}

/** The subtopics of the newest rows: the most recent ones, one more than needed. `rows` is the number of rows that were examined. */
export function selectSubtopics(
  filter: Filter,
  table: string | undefined,
  { rowsMax, subtopicsMax }: Pick<FormatsQuery, 'rowsMax' | 'subtopicsMax'>,
): Statement {
  const source = sourceOf(table)
  const { time } = source
  const statement = openStatement()
  const newest = `SELECT m.subtopic, m.${time} FROM ${source.table} AS m WHERE ${conditionsOf(filter, source, statement).join(' AND ')}
    ORDER BY m.${time} DESC LIMIT ${statement.value(rowsMax)}`
  const grouped = `SELECT m.subtopic, max(m.${time}) AS ${time}, (sum(count(*)) OVER ())::bigint AS rows FROM (${newest}) AS m GROUP BY m.subtopic`
  return statement.finish(
    `SELECT m.subtopic, m.rows, floor(${source.timeUnits} * ${source.unitNs} / 1000.0)::bigint AS last_us FROM (${grouped}) AS m
     ORDER BY last_us DESC, m.subtopic COLLATE "C" LIMIT ${statement.value(subtopicsMax + 1)}`,
  )
}
