// The statements of the PostgreSQL reader, pure: from a query to SQL and its values.
//
// A whole channel is walked along the index (channel, time). One publisher of it is not found that way without passing over everybody
// else's rows, so the days on which it has rows (sluice.publisher_days) say where to look: days are visited in order, and the
// sort by day first lets PostgreSQL stop at the day that fills the page.
//
// The text of a statement follows from which filters there are, never from what they hold: each value is a parameter.

import type { AggregateQuery, Comparator, Direction, PageQuery, PayloadFilter, RowKey, Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'
import { scalarCandidates } from './payload-filter.ts'
import { openStatement, type Statement, type StatementText } from './statement.ts'

/** Where the rows of a format lie, how they are ordered in time, and which of them belong to the day `d.day` (UTC). */
interface Source {
  readonly table: string
  readonly columns: string
  readonly time: 'time' | 'created'
  readonly withinDay: string
}

const place = 'm.position, m.index'
const records: Source = {
  table: 'public.messages',
  columns:
    `m.subtopic, m.publisher, m.protocol, ${place}, m.name, m.unit, (extract(epoch FROM m.time) * 1000000)::bigint AS time_us, ` +
    'm.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time',
  time: 'time',
  withinDay: "m.time >= d.day::timestamp AT TIME ZONE 'UTC' AND m.time < (d.day + 1)::timestamp AT TIME ZONE 'UTC'",
}

function documents(table: string): Source {
  return {
    table: `formats.${quoteName(table)}`,
    columns: `m.subtopic, m.publisher, m.protocol, ${place}, m.created, m.payload`,
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
export function selectPage(query: PageQuery, table: string | undefined): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const conditions = [...conditionsOf(query, source, statement), ...behind(query.after, query.direction, source, statement)]
  const order = orderOf(query.direction, source)
  const { limit, offset } = query
  if (query.publisher === undefined) {
    return statement.finish(
      `SELECT ${source.columns} FROM ${source.table} AS m WHERE ${conditions.join(' AND ')}
       ORDER BY ${order} LIMIT ${statement.value(limit)} OFFSET ${statement.value(offset)}`,
    )
  }
  const ofDay = `SELECT * FROM ${source.table} AS m WHERE ${[...conditions, source.withinDay].join(' AND ')}
    ORDER BY ${order} LIMIT ${statement.value(limit + offset)}`
  return statement.finish(
    `SELECT ${source.columns} FROM ${daysWith(query, ofDay, statement)}
     ORDER BY d.day ${query.direction}, ${order} LIMIT ${statement.value(limit)} OFFSET ${statement.value(offset)}`,
  )
}

/** The number of rows, counted up to `max` and one more. */
export function selectCount(selection: Selection, table: string | undefined, max: number): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const conditions = conditionsOf(selection, source, statement)
  const limit = statement.value(BigInt(max) + 1n)
  if (selection.publisher === undefined) {
    return statement.finish(
      `SELECT count(*) AS total FROM (SELECT 1 FROM ${source.table} AS m WHERE ${conditions.join(' AND ')} LIMIT ${limit}) AS counted`,
    )
  }
  const ofDay = `SELECT 1 FROM ${source.table} AS m WHERE ${[...conditions, source.withinDay].join(' AND ')} LIMIT ${limit}`
  return statement.finish(
    `SELECT count(*) AS total FROM (SELECT 1 FROM ${daysWith(selection, ofDay, statement)} LIMIT ${limit}) AS counted`,
  )
}

/**
 * The newest row of each series, of a page of them; `total` is their number. Two steps: the newest time of each from one pass without a sort,
 * then those rows by the index.
 */
export function selectLatest(query: PageQuery, table: string | undefined, groupsMax: number): Statement {
  const source = sourceOf(table)
  const statement = openStatement()
  const conditions = conditionsOf(query, source, statement)
  const series = ['publisher', 'subtopic', ...(table === undefined ? ['name'] : [])]
  const keys = series.map(column => `m.${column}`).join(', ')
  const same = [...series, source.time].map(column => `m.${column} = newest.${column}`).join(' AND ')
  const grouped = `SELECT ${keys}, max(m.${source.time}) AS ${source.time} FROM ${source.table} AS m WHERE ${conditions.join(' AND ')}
    GROUP BY ${keys} LIMIT ${statement.value(groupsMax + 1)}`
  const rows = `SELECT DISTINCT ON (${keys}) m.* FROM newest JOIN ${source.table} AS m ON ${same} WHERE ${conditions.join(' AND ')}
    ORDER BY ${keys}, m.position DESC, m.index DESC`
  const cut = behind(query.after, query.direction, source, statement)
  return statement.finish(
    `WITH newest AS MATERIALIZED (${grouped}), counted AS (SELECT count(*) AS total FROM newest)
     SELECT counted.total, ${source.columns} FROM counted LEFT JOIN LATERAL (
       SELECT * FROM (${rows}) AS m ${cut.length === 0 ? '' : `WHERE ${cut.join(' AND ')}`}
       ORDER BY ${orderOf(query.direction, source)} LIMIT ${statement.value(query.limit)} OFFSET ${statement.value(query.offset)}
     ) AS m ON true ORDER BY ${orderOf(query.direction, source)}`,
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

/** Buckets of a page, with the number of all in `total`. Texts are in the order of their bytes. */
export function selectBuckets(query: AggregateQuery, groupsMax: number): Statement {
  const statement = openStatement()
  const conditions = [...conditionsOf(query, records, statement), 'm.value IS NOT NULL']
  const bucket = `date_bin(${statement.value(query.intervalUs)}::bigint * interval '1 microsecond', m.time, timestamptz 'epoch')`
  const grouped = `SELECT m.publisher, m.subtopic, m.name, m.unit, ${bucket} AS bucket, count(*) AS count, ${aggregates[query.aggregation]} AS value
    FROM public.messages AS m WHERE ${conditions.join(' AND ')} GROUP BY 1, 2, 3, 4, 5 LIMIT ${statement.value(groupsMax + 1)}`
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

const comparators: Readonly<Record<Comparator, string>> = { eq: '=', lt: '<', le: '<=', gt: '>', ge: '>=' }

/** The first is always the channel. */
function conditionsOf(selection: Selection, source: Source, statement: StatementText): string[] {
  const { channel, publisher, subtopic, protocol, fromNs, toNs, name, unit, value, boolValue, stringValue, dataValue, payload } = selection
  const conditions = [`m.channel = ${statement.value(channel)}`]
  if (publisher !== undefined) conditions.push(`m.publisher = ${statement.value(publisher)}`)
  if (fromNs !== undefined) conditions.push(`m.${source.time} >= ${instant(fromNs, source, statement)}`)
  if (toNs !== undefined) conditions.push(`m.${source.time} < ${instant(toNs, source, statement)}`)
  if (subtopic !== undefined) conditions.push(`m.subtopic = ${statement.value(subtopic)}`)
  if (protocol !== undefined) conditions.push(`m.protocol = ${statement.value(protocol)}`)
  if (name !== undefined) conditions.push(`m.name = ${statement.value(name)}`)
  if (unit !== undefined) conditions.push(unit === '' ? 'm.unit IS NULL' : `m.unit = ${statement.value(unit)}`)
  if (value !== undefined) conditions.push(`m.value ${comparators[value.comparator]} ${statement.value(value.number)}::float8`)
  if (boolValue !== undefined) conditions.push(`m.bool_value = ${statement.value(boolValue)}`)
  if (stringValue !== undefined) conditions.push(`m.string_value = ${statement.value(stringValue)}`)
  if (dataValue !== undefined) conditions.push(`m.data_value = ${statement.value(dataValue)}`)
  for (const filter of payload) conditions.push(payloadCondition(filter, statement))
  return conditions
}

/** By `->` with a text, which looks into objects and never into arrays. */
function payloadCondition({ path, text }: PayloadFilter, statement: StatementText): string {
  const field = path.map(key => ` -> ${statement.value(key)}::text`).join('')
  return `m.payload${field} = ANY (${statement.value(scalarCandidates(text))}::text[]::jsonb[])`
}

/** A bound in nanoseconds: of whole microseconds the first that is not before it, for either comparison. Division cuts towards zero. */
function instant(ns: bigint, { time }: Source, statement: StatementText): string {
  if (time === 'created') return `${statement.value(ns)}::bigint`
  return microseconds(ns / 1000n + (ns > 0n && ns % 1000n > 0n ? 1n : 0n), statement)
}

function microseconds(us: bigint, statement: StatementText): string {
  return `(timestamptz 'epoch' + ${statement.value(us)}::bigint * interval '1 microsecond')`
}

/** The rows behind a key. The time alone comes first, since the index has it. */
function behind(after: RowKey | undefined, direction: Direction, source: Source, statement: StatementText): string[] {
  if (after === undefined) return []
  const sign = direction === 'desc' ? '<' : '>'
  const time = source.time === 'created' ? `${statement.value(after.timeNs)}::bigint` : microseconds(after.timeNs / 1000n, statement)
  const rest = `(m.position, m.index) ${sign} (${statement.value(after.position)}::bigint, ${statement.value(after.index)}::integer)`
  return [`m.${source.time} ${sign}= ${time}`, `(m.${source.time} ${sign} ${time} OR ${rest})`]
}

function orderOf(direction: Direction, { time }: Source): string {
  return `m.${time} ${direction}, m.position ${direction}, m.index ${direction}`
}

function daysWith({ channel, publisher, format }: Selection, rowsOfDay: string, statement: StatementText): string {
  const days = `SELECT day FROM sluice.publisher_days
    WHERE channel = ${statement.value(channel)} AND publisher = ${statement.value(publisher!)} AND format = ${statement.value(format)}`
  return `(${days}) AS d CROSS JOIN LATERAL (${rowsOfDay}) AS m`
}

function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
