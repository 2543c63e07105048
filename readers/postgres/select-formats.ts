// The statements that find the formats of a channel, pure: along the indexes of pages, and no further than their newest rows.

import { type FormatsQuery, noFilters, type Selection } from '../query.ts'
import { conditionsOf, sourceOf } from './conditions.ts'
import { openStatement, type Statement } from './statement.ts'

/** Every format with a table that is there and may be read, in the order of bytes. */
export function selectTables(): Statement {
  return openStatement().finish(
    `SELECT format, table_name FROM sluice.formats WHERE has_table_privilege(to_regclass(format('formats.%I', table_name)), 'SELECT')
     ORDER BY format COLLATE "C"`,
  )
}

/** Which of these tables have a row, by number. As a first row in the order of time, since a planner that expects many may pass over the index. */
export function selectFilled({ channel, publisher, fromUs }: FormatsQuery, tables: readonly string[]): Statement {
  const statement = openStatement()
  const looks = tables.map((table, number) => {
    const source = sourceOf(table)
    const selection = { ...noFilters, channel, publisher, format: table, fromNs: BigInt(fromUs) * 1000n }
    const conditions = conditionsOf(selection, source, statement).join(' AND ')
    return `(SELECT ${number} AS number FROM ${source.table} AS m WHERE ${conditions} ORDER BY m.${source.time} DESC LIMIT 1)`
  })
  return statement.finish(looks.join(' UNION ALL '))
}

/** The subtopics of the newest rows, those that came last and one more than are wanted; `rows` are all that were looked at. */
export function selectSubtopics(
  selection: Selection,
  table: string | undefined,
  { rowsMax, subtopicsMax }: Pick<FormatsQuery, 'rowsMax' | 'subtopicsMax'>,
): Statement {
  const source = sourceOf(table)
  const { time } = source
  const statement = openStatement()
  const newest = `SELECT m.subtopic, m.${time} FROM ${source.table} AS m WHERE ${conditionsOf(selection, source, statement).join(' AND ')}
    ORDER BY m.${time} DESC LIMIT ${statement.value(rowsMax)}`
  const grouped = `SELECT m.subtopic, max(m.${time}) AS ${time}, (sum(count(*)) OVER ())::bigint AS rows FROM (${newest}) AS m GROUP BY m.subtopic`
  return statement.finish(
    `SELECT m.subtopic, m.rows, floor(${source.timeUnits} * ${source.unitNs} / 1000.0)::bigint AS last_us FROM (${grouped}) AS m
     ORDER BY last_us DESC, m.subtopic COLLATE "C" LIMIT ${statement.value(subtopicsMax + 1)}`,
  )
}
