// Where the rows of a format are stored, and a filter as the conditions of a statement.
//
// Each value is a parameter. The text of a statement depends only on which filters are set, whether a unit is empty, and whether a payload's number
// is beyond int64.

import type { SqlValue } from '../../database/database.ts'
import { publisherKey } from '../../sinks/postgres/registry.ts'
import { doubleOf, int64Max, int64Min, int64Of } from '../../transformers/json/canonical.ts'
import { unitsDown, unitsUp } from '../../transformers/time-units.ts'
import type { Comparator, Direction, Filter, PayloadFilter, RowKey } from '../reader.ts'

/** Where a statement looks for the rows of a filter. */
export type Scope = RecordScope | DocumentScope

/** SenML records, by the numbers that the store gave the channel and its series. */
export interface RecordScope {
  readonly channel: number
  /** The series whose rows may match the filter, which are then read one by one; undefined: the rows of the channel are read. */
  readonly series: readonly number[] | undefined
}

/** The documents of a format. */
export interface DocumentScope {
  /** In the schema `formats`. */
  readonly table: string
}

export function isOfDocuments(scope: Scope): scope is DocumentScope {
  return 'table' in scope
}

/** A table with rows, and how they are ordered in time. */
export interface Source {
  readonly table: string
  /** Of a row `m`, and of its series `s` if it has one. */
  readonly columns: string
  /** Joins the series `s` to rows `m`; undefined if the rows have no series. */
  readonly texts: string | undefined
  readonly time: 'time' | 'created'
  /** The time as a bigint, in units of `unitNs`. */
  readonly timeUnits: string
  readonly unitNs: bigint
  /** The bytes of those columns whose length is not limited: of texts as they are, of payloads as they are stored. */
  readonly bytes: string
}

/** The columns that order rows with the same time. */
export const keyset = 'm.position, m.index'
const timeUs = '(extract(epoch FROM m.time) * 1000000)::bigint'

/** A text of a record: of its series `s`, or of the row `m` if its series is the rest of a thing. `unit` may be NULL in both. */
export function textOf(column: 'subtopic' | 'protocol' | 'name' | 'unit'): string {
  return column === 'unit' ? 'CASE WHEN m.name IS NULL THEN s.unit ELSE m.unit END' : `coalesce(m.${column}, s.${column})`
}

/**
 * Joins series to rows. With OFFSET, so that each is looked up by its number: without statistics the planner may read the whole table once or for each
 * row.
 */
export const withTexts = 'CROSS JOIN LATERAL (SELECT * FROM sluice.series AS s WHERE s.id = m.series OFFSET 0) AS s'

const records: Source = {
  table: 'sluice.records',
  columns:
    `${textOf('subtopic')} AS subtopic, s.publisher, ${textOf('protocol')} AS protocol, ${keyset}, ${textOf('name')} AS name, ` +
    `${textOf('unit')} AS unit, ${timeUs} AS time_us, m.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time`,
  texts: withTexts,
  time: 'time',
  timeUnits: timeUs,
  unitNs: 1000n,
  // The texts of a series with a name have a limit.
  bytes: 'coalesce(octet_length(m.subtopic) + octet_length(m.name) + coalesce(octet_length(m.unit), 0), 0)',
}

function documents(table: string): Source {
  return {
    table: `formats.${quoteName(table)}`,
    columns: `m.subtopic, m.publisher, m.protocol, ${keyset}, m.created, m.payload`,
    texts: undefined,
    time: 'created',
    timeUnits: 'm.created',
    unitNs: 1n,
    bytes: 'octet_length(m.subtopic) + pg_column_size(m.payload)',
  }
}

export function sourceOf(scope: Scope): Source {
  return isOfDocuments(scope) ? documents(scope.table) : records
}

/**
 * What follows FROM: the rows `m` that meet all conditions. Those of several series are selected together, so that the statement is planned for these
 * series: it may be better to read all of a short time once than each series in it.
 */
export function rowsWhere(scope: Scope, conditions: readonly string[], statement: StatementText): string {
  const { table } = sourceOf(scope)
  if (isOfDocuments(scope) || scope.series === undefined) return `${table} AS m WHERE ${conditions.join(' AND ')}`
  return `${table} AS m WHERE ${[`m.series = ANY (${statement.value(scope.series)}::integer[])`, ...conditions].join(' AND ')}`
}

/** Up to this many rows in all, each series is asked for a whole page: a second look would cost more than these rows. */
const rowsOfWholePages = 200

/**
 * Like `rowsWhere`, if only the first `most` rows in a direction are needed. Of several series each is read along its index, and hardly further. Rows with
 * the same time as the last one come in addition, so that the index gives the order, whose key is only the time.
 *
 * The statement looks the series up itself. Otherwise rows of a series that was added after the look-up would be missing among later rows of other
 * series, and a cursor would pass them.
 */
export function newestWhere(
  filter: Filter,
  scope: Scope,
  conditions: readonly string[],
  statement: StatementText,
  newest: { readonly direction: Direction; readonly most: number },
): string {
  if (isOfDocuments(scope) || scope.series === undefined) return rowsWhere(scope, conditions, statement)
  const { direction } = newest
  const inChannel = [`s.channel = ${statement.value(scope.channel)}::integer`, ...seriesConditions(filter, statement)].join(' AND ')
  const known = `(SELECT s.id AS series FROM sluice.series AS s WHERE ${inChannel}) AS known`
  const first = (rows: string, columns: string, of: string, more: readonly string[] = []): string => `${of} CROSS JOIN LATERAL (
      SELECT ${columns} FROM ${records.table} AS m WHERE ${['m.series = known.series', ...conditions, ...more].join(' AND ')}
      ORDER BY m.time ${direction} FETCH FIRST ${rows}
    ) AS m`
  const most = `${statement.value(newest.most)}::bigint`
  // As a subquery, whose value the planner does not know: it then reads along the index, where it would sort all rows of each series if it expects few.
  const all = `((SELECT ${most})) ROWS WITH TIES`
  const isShort = scope.series.length <= 2 || newest.most * scope.series.length <= rowsOfWholePages
  if (isShort || isFilteredByValue(filter)) return first(all, 'm.*', known)
  // Each series with any rows is asked for twice its share. If that gives enough rows, none that is needed is beyond the last one needed of them, and only
  // the series that have any of these are read, up to that time.
  const [sign, end] = direction === 'desc' ? ['>=', '-infinity'] : ['<=', 'infinity']
  const until = `${sign} coalesce((SELECT time FROM edge), '${end}')`
  const share = `(SELECT ceil(2.0 * ${most} / greatest(count(*), 1))::bigint FROM filled)`
  return `(
    WITH filled AS MATERIALIZED (SELECT m.series FROM ${first('ROW ONLY', 'm.series, m.time', known)}),
      near AS MATERIALIZED (SELECT m.* FROM ${first(`(${share}) ROWS ONLY`, 'm.series, m.time', 'filled AS known')}),
      edge AS MATERIALIZED (SELECT time FROM near ORDER BY time ${direction} OFFSET ${most} - 1 LIMIT 1)
    SELECT m.* FROM ${first(all, 'm.*', `(SELECT DISTINCT series FROM near WHERE time ${until}) AS known`, [`m.time ${until}`])}
  ) AS m`
}

/** True if rows of the right series may not match. Finding the few that do is the cost then, and is not done twice. */
function isFilteredByValue({ value, boolValue, stringValue, dataValue }: Filter): boolean {
  return [value, boolValue, stringValue, dataValue].some(one => one !== undefined)
}

const comparators: Readonly<Record<Comparator, string>> = { eq: '=', lt: '<', le: '<=', gt: '>', ge: '>=' }

/** For `rowsWhere`. */
export function conditionsOf(filter: Filter, scope: Scope, statement: StatementText): string[] {
  const { fromNs, toNs, value, boolValue, stringValue, dataValue, payload } = filter
  const source = sourceOf(scope)
  const conditions = isOfDocuments(scope) ? originConditions(filter, statement) : recordConditions(filter, scope, statement)
  if (fromNs !== undefined) conditions.push(`m.${source.time} >= ${timestamp(fromNs, source, statement)}`)
  if (toNs !== undefined) conditions.push(`m.${source.time} < ${timestamp(toNs, source, statement)}`)
  if (value !== undefined) conditions.push(`m.value ${comparators[value.comparator]} ${statement.value(value.number)}::float8`)
  if (boolValue !== undefined) conditions.push(`m.bool_value = ${statement.value(boolValue)}`)
  if (stringValue !== undefined) conditions.push(`m.string_value = ${statement.value(stringValue)}`)
  if (dataValue !== undefined) conditions.push(`m.data_value = ${statement.value(dataValue)}`)
  for (const one of payload) conditions.push(payloadCondition(one, statement))
  return conditions
}

/** Of documents, which have the texts of their origin in each row. */
function originConditions({ channel, publisher, subtopic, protocol }: Filter, statement: StatementText): string[] {
  const channelValue = `${statement.value(channel)}::text`
  const conditions = [`m.channel = ${channelValue}`]
  if (publisher !== undefined) {
    const publisherValue = `${statement.value(publisher)}::text`
    // First the expression that is indexed, then the exact condition.
    conditions.push(
      `${publisherKey('m.publisher', 'm.channel')} = ${publisherKey(publisherValue, channelValue)}`,
      `m.publisher = ${publisherValue}`,
    )
  }
  if (subtopic !== undefined) conditions.push(`m.subtopic = ${statement.value(subtopic)}`)
  if (protocol !== undefined) conditions.push(`m.protocol = ${statement.value(protocol)}`)
  return conditions
}

/** Of records: on the row, and unless the series were chosen before, on its series. A row of a rest has the texts itself, and its series has none. */
function recordConditions(filter: Filter, { channel, series }: RecordScope, statement: StatementText): string[] {
  const conditions: string[] = []
  if (series === undefined) {
    conditions.push(`m.channel = ${statement.value(channel)}::integer`)
    const bySeries = seriesConditions(filter, statement)
    // With OFFSET, so that it is looked up for each row, in the order of the rows.
    if (bySeries.length > 0) {
      conditions.push(`EXISTS (SELECT FROM sluice.series AS s WHERE s.id = m.series AND ${bySeries.join(' AND ')} OFFSET 0)`)
    }
  }
  const texts = textConditions('m', filter, statement)
  if (texts.length > 0) conditions.push(`(m.name IS NULL OR ${texts.join(' AND ')})`)
  return conditions
}

/** On a series `s` that may have rows that match, without its channel. Empty if all of them may. */
export function seriesConditions(filter: Filter, statement: StatementText): string[] {
  const conditions: string[] = []
  if (filter.publisher !== undefined) conditions.push(`s.publisher = ${statement.value(filter.publisher)}`)
  const texts = textConditions('s', filter, statement)
  if (texts.length > 0) conditions.push(`(s.name IS NULL OR ${texts.join(' AND ')})`)
  return conditions
}

function textConditions(of: 'm' | 's', { subtopic, protocol, name, unit }: Filter, statement: StatementText): string[] {
  const conditions: string[] = []
  if (subtopic !== undefined) conditions.push(`${of}.subtopic = ${statement.value(subtopic)}`)
  if (protocol !== undefined) conditions.push(`${of}.protocol = ${statement.value(protocol)}`)
  if (name !== undefined) conditions.push(`${of}.name = ${statement.value(name)}`)
  if (unit !== undefined) conditions.push(unit === '' ? `${of}.unit IS NULL` : `${of}.unit = ${statement.value(unit)}`)
  return conditions
}

/** Uses `->` with a text, which looks into objects and never into arrays. */
function payloadCondition({ path, text }: PayloadFilter, statement: StatementText): string {
  const field = `m.payload${path.map(key => ` -> ${statement.value(key)}::text`).join('')}`
  const isOne = `${field} = ANY (${statement.value(scalarCandidates(text))}::text[]::jsonb[])`
  const between = wholeNumbersOf(text)
  if (between === undefined) return isOne
  // In the order of jsonb, only numbers are between two numbers.
  const [least, greatest] = between.map(number => `${statement.value(number)}::text::jsonb`)
  return `(${isOne} OR ${field} BETWEEN ${least} AND ${greatest})`
}

/** A bound in nanoseconds. For a column in microseconds, the first one that is not before it, for both comparisons. */
function timestamp(ns: bigint, { time }: Source, statement: StatementText): string {
  if (time === 'created') return `${statement.value(ns)}::bigint`
  return microseconds(unitsUp(ns, 1000n), statement)
}

/**
 * A value of the column's type, without arithmetic: PostgreSQL would compute that only at run time, and could not leave out months while planning.
 */
export function microseconds(us: bigint, statement: StatementText): string {
  const ms = unitsDown(us, 1000n)
  const timestamp = new Date(Number(ms)).toISOString()
  return `${statement.value(`${timestamp.slice(0, -1)}${String(us - ms * 1000n).padStart(3, '0')}Z`)}::timestamptz`
}

/** The time of a key. */
export function timestampOf({ timeNs }: Pick<RowKey, 'timeNs'>, { time }: Source, statement: StatementText): string {
  return time === 'created' ? `${statement.value(timeNs)}::bigint` : microseconds(timeNs / 1000n, statement)
}

/** The rows after a key. A condition on the time alone comes first, since the index can use it. */
export function behind(after: RowKey | undefined, direction: Direction, source: Source, statement: StatementText): string[] {
  if (after === undefined) return []
  const sign = direction === 'desc' ? '<' : '>'
  const time = timestampOf(after, source, statement)
  const rest = `(m.position, m.index) ${sign} (${statement.value(after.position)}::bigint, ${statement.value(after.index)}::integer)`
  return [`m.${source.time} ${sign}= ${time}`, `(m.${source.time} ${sign} ${time} OR ${rest})`]
}

/** The total order of rows, for ORDER BY. */
export function orderOf(direction: Direction, { time }: Source): string {
  return `m.${time} ${direction}, m.position ${direction}, m.index ${direction}`
}

function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/**
 * The JSON texts of the scalars with this text. jsonb compares numbers by value; they are stored as JavaScript prints them, or with every digit.
 * Whole numbers beyond int64 are left to `wholeNumbersOf`.
 */
export function scalarCandidates(text: string): string[] {
  const candidates = [JSON.stringify(text)]
  if (text === 'true' || text === 'false' || text === 'null') candidates.push(text)
  else if (int64Of(text) !== undefined || Math.abs(doubleOf(text) ?? Number.NaN) < 2 ** 63) candidates.push(text)
  return candidates
}

/**
 * The least and the greatest whole number beyond int64 that is printed as this text; undefined if there is none. jsonb keeps all their digits, but
 * answers print the nearest double.
 */
export function wholeNumbersOf(text: string): readonly [least: string, greatest: string] | undefined {
  const double = doubleOf(text)
  if (double === undefined || int64Of(text) !== undefined || Math.abs(double) < 2 ** 63) return undefined
  const [least, greatest] = roundedTo(BigInt(Math.abs(double)))
  if (double > 0) return [String(least > int64Max ? least : int64Max + 1n), String(greatest)]
  return [String(-greatest), String(-least < int64Min ? -least : int64Min - 1n)]
}

/**
 * The range of whole numbers whose nearest double is this one, at least 2^63. A number halfway between two doubles rounds to the even one (IEEE 754
 * §4.3.1).
 */
function roundedTo(double: bigint): readonly [least: bigint, greatest: bigint] {
  const exponent = BigInt(double.toString(2).length - 1)
  const halfUp = 1n << (exponent - 53n)
  // Below a power of two, doubles are twice as dense.
  const halfDown = double === 1n << exponent ? halfUp / 2n : halfUp
  const odd = (double >> (exponent - 52n)) & 1n
  return [double - halfDown + odd, double + halfUp - odd]
}

/** SQL and the values of its parameters. */
export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

/** Collects the values of a statement while its text is built. */
export interface StatementText {
  /** Adds a value and returns its placeholder: `$3`. */
  value(value: SqlValue): string
  finish(sql: string): Statement
}

/** A statement without values so far. */
export function openStatement(): StatementText {
  const values: SqlValue[] = []
  return {
    value(value) {
      values.push(value)
      return `$${values.length}`
    },
    finish: sql => ({ sql, values }),
  }
}
