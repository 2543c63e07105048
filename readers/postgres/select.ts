// Builds the statements of the PostgreSQL reader: from a query to SQL and its values. Pure. Groups are in select-groups.ts, and pieces for the embedded
// database in select-pieces.ts.
//
// Records are read along the index (channel, time), or along (series, time) for each of the series that may match. Their texts are joined when the
// rows are chosen. The documents of one publisher have an index of their own (sinks/postgres/schema.ts).

import { type Filter, type FormatsQuery, noFilters, type PageQuery, senmlFormat } from '../reader.ts'
import {
  behind,
  conditionsOf,
  newestWhere,
  openStatement,
  orderOf,
  rowsWhere,
  type Scope,
  type Statement,
  seriesConditions,
  sourceOf,
  textOf,
} from './conditions.ts'

/**
 * The number of the filter's channel, and of the series that may have rows that match, as a JSON text; null without a filter on texts, or if more than
 * `namedMax` of them have a name. No row if the channel has no number, and so no records.
 *
 * A statement of its own, so that the next one is planned for these numbers: how many rows they have is very different.
 */
export function selectNumbers(filter: Filter, namedMax: number): Statement {
  const statement = openStatement()
  const channel = statement.value(filter.channel)
  const conditions = seriesConditions(filter, statement)
  let series = 'NULL'
  if (conditions.length > 0) {
    const most = statement.value(namedMax)
    const found = (isNamed: boolean): string =>
      `SELECT s.id, s.name FROM sluice.series AS s WHERE ${['s.channel = c.id', `s.name IS ${isNamed ? 'NOT ' : ''}NULL`, ...conditions].join(' AND ')}`
    // Each thing may have a rest. Reading them all looks at no more rows than reading the channel.
    series = `(SELECT CASE WHEN count(s.name) <= ${most} THEN coalesce(json_agg(s.id), '[]')::text END
      FROM ((${found(true)} LIMIT ${most}::bigint + 1) UNION ALL ${found(false)}) AS s)`
  }
  return statement.finish(`SELECT c.id AS channel, ${series} AS series FROM sluice.channels AS c WHERE c.channel = ${channel}`)
}

/**
 * The rows of a page, in their total order.
 *
 * @param among looks for them only in so many of the channel's next records, and in those with the same time as the last; for a scope without series
 */
export function selectPage(query: PageQuery, scope: Scope, among?: number): Statement {
  const { direction } = query
  const source = sourceOf(scope)
  const statement = openStatement()
  const beyond = behind(query.after, direction, source, statement)
  const conditions = [...conditionsOf(query, scope, statement), ...beyond]
  const order = orderOf(direction, source)
  const limit = statement.value(query.limit)
  const offset = statement.value(query.offset)
  let rows: string
  if (among === undefined) rows = newestWhere(query, scope, conditions, statement, { direction, most: query.limit + query.offset })
  else {
    const { channel, format, fromNs, toNs } = query
    const next = [...conditionsOf({ ...noFilters, channel, format, fromNs, toNs }, scope, statement), ...beyond]
    rows = `(SELECT m.* FROM ${source.table} AS m WHERE ${next.join(' AND ')} ORDER BY m.${source.time} ${direction}
      FETCH FIRST (${statement.value(among)}::bigint) ROWS WITH TIES) AS m WHERE ${conditions.join(' AND ')}`
  }
  const page = (columns: string): string => `SELECT ${columns} FROM ${rows} ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`
  if (source.texts === undefined) return statement.finish(page(source.columns))
  return statement.finish(`SELECT ${source.columns} FROM (${page('m.*')}) AS m ${source.texts} ORDER BY ${order}`)
}

/** The number of rows, counted up to `max + 1`. */
export function selectCount(filter: Filter, scope: Scope, max: number): Statement {
  const statement = openStatement()
  const rows = rowsWhere(scope, conditionsOf(filter, scope, statement), statement)
  return statement.finish(`SELECT count(*) AS total FROM (SELECT 1 FROM ${rows} LIMIT ${statement.value(BigInt(max) + 1n)}) AS counted`)
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
    const scope = { table }
    const filter = { ...noFilters, channel, publisher, format: table, fromNs: BigInt(fromUs) * 1000n }
    const rows = rowsWhere(scope, conditionsOf(filter, scope, statement), statement)
    return `(SELECT ${number} AS number FROM ${rows} ORDER BY m.${sourceOf(scope).time} DESC LIMIT 1)`
  })
  return statement.finish(looks.join(' UNION ALL '))
}

/** The subtopics of the newest rows: the most recent ones, one more than needed. `rows` is the number of rows that were examined. */
export function selectSubtopics(
  filter: Filter,
  scope: Scope,
  { rowsMax, subtopicsMax }: Pick<FormatsQuery, 'rowsMax' | 'subtopicsMax'>,
): Statement {
  const source = sourceOf(scope)
  const { time } = source
  const statement = openStatement()
  const conditions = conditionsOf(filter, scope, statement)
  const most = statement.value(rowsMax)
  const rows = newestWhere(filter, scope, conditions, statement, { direction: 'desc', most: rowsMax })
  const newest = (columns: string): string => `SELECT ${columns}, m.${time} FROM ${rows} ORDER BY m.${time} DESC LIMIT ${most}`
  let grouped = `SELECT m.subtopic, max(m.${time}) AS ${time}, count(*) AS rows FROM (${newest('m.subtopic')}) AS m GROUP BY m.subtopic`
  if (source.texts !== undefined) {
    // By numbers first, so that a series is looked up once.
    const bySeries = `SELECT m.series, m.subtopic, max(m.${time}) AS ${time}, count(*) AS rows FROM (${newest('m.series, m.subtopic')}) AS m
      GROUP BY m.series, m.subtopic`
    grouped = `SELECT ${textOf('subtopic')} AS subtopic, max(m.${time}) AS ${time}, sum(m.rows) AS rows FROM (${bySeries}) AS m ${source.texts} GROUP BY 1`
  }
  return statement.finish(
    `SELECT m.subtopic, (sum(m.rows) OVER ())::bigint AS rows, floor(${source.timeUnits} * ${source.unitNs} / 1000.0)::bigint AS last_us
     FROM (${grouped}) AS m ORDER BY last_us DESC, m.subtopic COLLATE "C" LIMIT ${statement.value(subtopicsMax + 1)}`,
  )
}
