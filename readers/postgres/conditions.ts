// Which rows of a table are meant, and where they lie: a selection as the conditions of a statement.
//
// Each value is a parameter: the text follows from which filters there are, and of what they hold from no more than whether a unit is empty and whether
// a payload's number is beyond int64.

import { publisherKey } from '../../sinks/postgres/publisher-key.ts'
import { unitsDown, unitsUp } from '../instants.ts'
import type { Comparator, Direction, PayloadFilter, RowKey, Selection } from '../query.ts'
import { scalarCandidates, wholeNumbersOf } from './payload-filter.ts'
import type { StatementText } from './statement.ts'

/** Where the rows of a format lie, and how they are ordered in time. */
export interface Source {
  readonly table: string
  readonly columns: string
  readonly time: 'time' | 'created'
  /** The time as a bigint, in units of `unitNs`. */
  readonly timeUnits: string
  readonly unitNs: bigint
  /** Of what no limit bounds in a row: as long as it is, or as it is stored. */
  readonly bytes: string
}

export const place = 'm.position, m.index'
const timeUs = '(extract(epoch FROM m.time) * 1000000)::bigint'
const records: Source = {
  table: 'public.messages',
  columns:
    `m.subtopic, m.publisher, m.protocol, ${place}, m.name, m.unit, ${timeUs} AS time_us, ` +
    'm.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time',
  time: 'time',
  timeUnits: timeUs,
  unitNs: 1000n,
  bytes: 'octet_length(m.subtopic) + octet_length(m.name) + coalesce(octet_length(m.unit), 0)',
}

function documents(table: string): Source {
  return {
    table: `formats.${quoteName(table)}`,
    columns: `m.subtopic, m.publisher, m.protocol, ${place}, m.created, m.payload`,
    time: 'created',
    timeUnits: 'm.created',
    unitNs: 1n,
    bytes: 'octet_length(m.subtopic) + pg_column_size(m.payload)',
  }
}

/** @param table of the format in the schema `formats`; undefined for SenML */
export function sourceOf(table: string | undefined): Source {
  return table === undefined ? records : documents(table)
}

const comparators: Readonly<Record<Comparator, string>> = { eq: '=', lt: '<', le: '<=', gt: '>', ge: '>=' }

/** The first is always the channel. */
export function conditionsOf(selection: Selection, source: Source, statement: StatementText): string[] {
  const { channel, publisher, subtopic, protocol, fromNs, toNs, name, unit, value, boolValue, stringValue, dataValue, payload } = selection
  const ofChannel = `${statement.value(channel)}::text`
  const conditions = [`m.channel = ${ofChannel}`]
  if (publisher !== undefined) {
    const ofPublisher = `${statement.value(publisher)}::text`
    // What the index holds, and what is meant.
    conditions.push(`${publisherKey('m.publisher', 'm.channel')} = ${publisherKey(ofPublisher, ofChannel)}`, `m.publisher = ${ofPublisher}`)
  }
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
  const field = `m.payload${path.map(key => ` -> ${statement.value(key)}::text`).join('')}`
  const isOne = `${field} = ANY (${statement.value(scalarCandidates(text))}::text[]::jsonb[])`
  const between = wholeNumbersOf(text)
  if (between === undefined) return isOne
  // In the order of jsonb, nothing but numbers lies between two numbers.
  const [least, greatest] = between.map(number => `${statement.value(number)}::text::jsonb`)
  return `(${isOne} OR ${field} BETWEEN ${least} AND ${greatest})`
}

/** A bound in nanoseconds: of whole microseconds the first that is not before it, for either comparison. */
function instant(ns: bigint, { time }: Source, statement: StatementText): string {
  if (time === 'created') return `${statement.value(ns)}::bigint`
  return microseconds(unitsUp(ns, 1000n), statement)
}

/** As a value of its type and not by arithmetic, which PostgreSQL does only when it runs the statement: it leaves out months while it plans. */
export function microseconds(us: bigint, statement: StatementText): string {
  const ms = unitsDown(us, 1000n)
  const instant = new Date(Number(ms)).toISOString()
  return `${statement.value(`${instant.slice(0, -1)}${String(us - ms * 1000n).padStart(3, '0')}Z`)}::timestamptz`
}

/** The instant of a key. */
export function instantOf({ timeNs }: Pick<RowKey, 'timeNs'>, { time }: Source, statement: StatementText): string {
  return time === 'created' ? `${statement.value(timeNs)}::bigint` : microseconds(timeNs / 1000n, statement)
}

/** The rows behind a key. The time alone comes first, since the index has it. */
export function behind(after: RowKey | undefined, direction: Direction, source: Source, statement: StatementText): string[] {
  if (after === undefined) return []
  const sign = direction === 'desc' ? '<' : '>'
  const time = instantOf(after, source, statement)
  const rest = `(m.position, m.index) ${sign} (${statement.value(after.position)}::bigint, ${statement.value(after.index)}::integer)`
  return [`m.${source.time} ${sign}= ${time}`, `(m.${source.time} ${sign} ${time} OR ${rest})`]
}

export function orderOf(direction: Direction, { time }: Source): string {
  return `m.${time} ${direction}, m.position ${direction}, m.index ${direction}`
}

function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
