// The statements of the PostgreSQL reader, pure: from a query to SQL and its values.
//
// A whole channel is walked along the index (channel, time), newest first. One publisher of it is not found that way without
// passing over everybody else's rows, so the days on which it has rows (sluice.publisher_days) say where to look: days are
// visited newest first, and the sort by day first lets PostgreSQL stop at the day that fills the page.

import type { SqlValue } from '../../config/postgres/database.ts'
import type { Query } from '../query.ts'
import { senmlFormat } from '../reader.ts'

export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

/** Where the rows of a format lie, how they are ordered in time, and which of them belong to the day `d.day` (UTC). */
interface Source {
  readonly table: string
  readonly columns: string
  readonly time: string
  readonly withinDay: string
}

const records: Source = {
  table: 'public.messages',
  columns:
    'm.subtopic, m.publisher, m.protocol, m.name, m.unit, (extract(epoch FROM m.time) * 1000000)::bigint AS time_us, ' +
    'm.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time',
  time: 'time',
  withinDay: "m.time >= d.day::timestamp AT TIME ZONE 'UTC' AND m.time < (d.day + 1)::timestamp AT TIME ZONE 'UTC'",
}

function documents(table: string): Source {
  return {
    table: `formats.${quoteName(table)}`,
    columns: 'm.subtopic, m.publisher, m.protocol, m.created, m.payload',
    time: 'created',
    withinDay:
      'm.created >= extract(epoch FROM d.day)::bigint * 1000000000 AND m.created < extract(epoch FROM d.day + 1)::bigint * 1000000000',
  }
}

/** @param table of the format in the schema `formats`; undefined for SenML */
function sourceOf(table: string | undefined): Source {
  return table === undefined ? records : documents(table)
}

/** The rows of a page, in their total order. */
export function selectPage({ channel, publisher, format, offset, limit }: Query, table: string | undefined): Statement {
  const source = sourceOf(table)
  const order = `m.${source.time} DESC, m.position DESC, m.index DESC`
  if (publisher === undefined) {
    return {
      sql: `SELECT ${source.columns} FROM ${source.table} AS m WHERE m.channel = $1 ORDER BY ${order} LIMIT $2 OFFSET $3`,
      values: [channel, limit, offset],
    }
  }
  const ofDay = `SELECT * FROM ${source.table} AS m WHERE m.channel = $1 AND m.publisher = $2 AND ${source.withinDay} ORDER BY ${order} LIMIT $6`
  return {
    sql: `SELECT ${source.columns} FROM ${daysWith(ofDay)} ORDER BY d.day DESC, ${order} LIMIT $4 OFFSET $5`,
    values: [channel, publisher, format, limit, offset, limit + offset],
  }
}

/** The number of rows under `total`, counted up to `countMax` and one more. */
export function selectTotal({ channel, publisher, format }: Query, table: string | undefined, countMax: number): Statement {
  const source = sourceOf(table)
  if (publisher === undefined) {
    return {
      sql: `SELECT count(*) AS total FROM (SELECT 1 FROM ${source.table} AS m WHERE m.channel = $1 LIMIT $2) AS counted`,
      values: [channel, countMax + 1],
    }
  }
  const ofDay = `SELECT 1 FROM ${source.table} AS m WHERE m.channel = $1 AND m.publisher = $2 AND ${source.withinDay} LIMIT $4`
  return {
    sql: `SELECT count(*) AS total FROM (SELECT 1 FROM ${daysWith(ofDay)} LIMIT $4) AS counted`,
    values: [channel, publisher, format, countMax + 1],
  }
}

function daysWith(rowsOfDay: string): string {
  return `(SELECT day FROM sluice.publisher_days WHERE channel = $1 AND publisher = $2 AND format = $3) AS d CROSS JOIN LATERAL (${rowsOfDay}) AS m`
}

/** The table of a format that is not SenML. */
export function selectTable(format: string): Statement {
  if (format === senmlFormat) throw new RangeError(`the format "${senmlFormat}" has a table of its own`)
  return { sql: 'SELECT table_name FROM sluice.formats WHERE format = $1', values: [format] }
}

function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
