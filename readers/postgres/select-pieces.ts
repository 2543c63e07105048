// Builds the statements of the PostgreSQL reader for pieces of a query on the embedded database. Pure.
//
// Each is one pass over the rows of a piece, whose series are then looked up one by one: the planner has no statistics for a join, and may choose a plan
// that is quadratic in the rows of a piece.

import { type AggregateQuery, type Direction, type Filter, noFilters, type RowKey } from '../reader.ts'
import {
  conditionsOf,
  isOfDocuments,
  keyset,
  newestWhere,
  openStatement,
  orderOf,
  type RecordScope,
  rowsWhere,
  type Scope,
  type Statement,
  sourceOf,
  textOf,
  timestampOf,
  withTexts,
} from './conditions.ts'
import { aggregates, bucketKeys, bucketOrder, groupedBy, valueColumns } from './select-groups.ts'

/** Most rows, and most bytes of their texts. */
export interface PieceMax {
  readonly rows: number
  readonly bytes: number
}

/** Most series that have an equal share of a piece each. */
const evenSeriesMax = 16

/**
 * The time of the row at which a piece ends: after a number of rows, or when their texts reach a number of bytes, whatever the filters but those on
 * series. Returns no row if there are fewer. Lengths are read without reading the texts.
 *
 * Of few series, each has an equal share of them, and the piece ends where the first one has used its share: finding its end reads no more. If one series
 * has most rows, pieces are smaller. So of many series the rows are counted together, which reads up to four times as many, whatever each series has.
 */
export function selectPieceEnd(filter: Filter, direction: Direction, scope: Scope, max: PieceMax): Statement {
  const { channel, publisher, subtopic, protocol, name, unit, fromNs, toNs, format } = filter
  const source = sourceOf(scope)
  const { time, timeUnits } = source
  const statement = openStatement()
  const bounds = { ...noFilters, channel, format, fromNs, toNs }
  // Of records, the publisher's are only those of its series.
  const where = conditionsOf({ ...bounds, publisher: isOfDocuments(scope) ? publisher : undefined }, scope, statement)
  const few = isOfDocuments(scope) || scope.series === undefined || scope.series.length > evenSeriesMax ? undefined : scope.series
  const known = few === undefined ? '' : `unnest(${statement.value(few)}::integer[]) AS known (series)`
  const share = (all: number): number => Math.max(1, Math.floor(all / (few?.length ?? 1)))
  const seriesFilter = { ...bounds, publisher, subtopic, protocol, name, unit }
  const found =
    few === undefined
      ? newestWhere(seriesFilter, scope, where, statement, { direction, most: max.rows })
      : `${source.table} AS m WHERE ${['m.series = known.series', ...where].join(' AND ')}`
  const rows = `${statement.value(share(max.rows))}::bigint`
  const bytes = `${statement.value(share(max.bytes))}::bigint`
  // With its own limit, so that the planner reads along the index and does not sort.
  const next = `SELECT m.${time}, ${source.bytes} AS bytes FROM ${found} ORDER BY m.${time} ${direction} LIMIT ${rows}`
  const summed = `SELECT m.${time}, row_number() OVER upto AS nth, sum(m.bytes) OVER upto AS bytes FROM (${next}) AS m
    WINDOW upto AS (ORDER BY m.${time} ${direction} ROWS UNBOUNDED PRECEDING)`
  const end = `SELECT m.${time} FROM (${summed}) AS m WHERE m.nth = ${rows} OR m.bytes >= ${bytes} ORDER BY m.${time} ${direction} LIMIT 1`
  if (few === undefined) return statement.finish(`SELECT ${timeUnits} AS time FROM (${end}) AS m`)
  return statement.finish(
    `SELECT ${timeUnits} AS time FROM ${known} CROSS JOIN LATERAL (${end}) AS m ORDER BY m.${time} ${direction} LIMIT 1`,
  )
}

/** One row if so many records, or records with so many bytes of names and units, are in the filter's time, whatever its other conditions but the publisher. */
export function selectExcess({ channel, publisher, fromNs, toNs, format }: Filter, scope: RecordScope, max: PieceMax): Statement {
  const statement = openStatement()
  const where = conditionsOf({ ...noFilters, channel, format, publisher, fromNs, toNs }, scope, statement)
  const rows = statement.value(max.rows)
  const some = `SELECT m.* FROM ${rowsWhere(scope, where, statement)} LIMIT ${rows}`
  const bytes = ['subtopic', 'name', 'unit'] as const
  return statement.finish(
    `SELECT 1 AS excess FROM (${some}) AS m ${withTexts}
     HAVING count(*) >= ${rows} OR sum(${bytes.map(text => `coalesce(octet_length(${textOf(text)}), 0)`).join(' + ')}) >= ${statement.value(max.bytes)}`,
  )
}

/** All buckets of a piece, in their order, as one JSON text: the embedded database takes three times as long to return them as rows. */
export function selectPieceBuckets(query: AggregateQuery, scope: RecordScope, groupsMax: number): Statement {
  const statement = openStatement()
  const { aggregation } = query
  const isOfOneRow = aggregation === 'first' || aggregation === 'last'
  const found = isOfOneRow
    ? `${aggregation === 'first' ? 'min' : 'max'}(ROW(m.time, ${keyset}, m.value)) AS value`
    : aggregates[aggregation]
  const value = isOfOneRow ? `(row_to_json(g.value) ->> 'f4')::float8 AS value` : valueColumns(aggregation)
  const { grouped } = groupedBy(query, scope, groupsMax, statement, found)
  return statement.finish(`SELECT ${asJson(`SELECT ${bucketKeys}, ${value} FROM (${grouped}) AS g ORDER BY ${bucketOrder(query)}`)}`)
}

function asJson(select: string): string {
  return `(SELECT coalesce(json_agg(found), '[]')::text FROM (${select}) AS found) AS found`
}

/**
 * The key of the newest row of each series in a piece, newest first, as one JSON text. The same texts come several times if they are those of several
 * of the store's series.
 */
export function selectPieceSeries(filter: Filter, scope: Scope): Statement {
  const source = sourceOf(scope)
  const statement = openStatement()
  const rows = rowsWhere(scope, conditionsOf(filter, scope, statement), statement)
  const byRow = isOfDocuments(scope) ? 'm.publisher, m.subtopic' : 'm.series, m.subtopic, m.name'
  const texts = isOfDocuments(scope) ? byRow : `s.publisher, ${textOf('subtopic')}, ${textOf('name')}`
  const newest = `SELECT ${byRow}, max(m.${source.time}) AS ${source.time}, max(ROW(m.${source.time}, ${keyset})) AS key FROM ${rows} GROUP BY ${byRow}`
  // As texts, since numbers of JSON lose digits beyond 2^53 in JavaScript.
  const columnsOfKey = `json_build_array(${texts}) AS series, ${source.timeUnits}::text AS time,
    row_to_json(m.key) ->> 'f2' AS position, (row_to_json(m.key) ->> 'f3')::integer AS index`
  return statement.finish(`SELECT ${asJson(`SELECT ${columnsOfKey} FROM (${newest}) AS m ${source.texts ?? ''} ORDER BY m.key DESC`)}`)
}

/** The rows with these keys, in the order of rows. */
export function selectRows(filter: Filter, direction: Direction, scope: Scope, keys: readonly RowKey[]): Statement {
  const source = sourceOf(scope)
  const statement = openStatement()
  const timestamps = [...new Set(keys.map(({ timeNs }) => timeNs))].map(timeNs => timestampOf({ timeNs }, source, statement))
  const positions = statement.value(keys.map(({ position }) => position))
  const indexes = statement.value(keys.map(({ index }) => index))
  const where = [
    ...conditionsOf(filter, scope, statement),
    `m.${source.time} IN (${timestamps.join(', ')})`,
    `(m.position, m.index) IN (SELECT * FROM unnest(${positions}::bigint[], ${indexes}::integer[]))`,
  ]
  return statement.finish(
    `SELECT ${source.columns} FROM (SELECT m.* FROM ${rowsWhere(scope, where, statement)}) AS m ${source.texts ?? ''}
     ORDER BY ${orderOf(direction, source)}`,
  )
}
