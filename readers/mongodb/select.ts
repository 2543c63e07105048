// Builds the queries of the MongoDB reader: from a query to MongoDB's conditions and orders. Pure.
//
// All operators are written here. Untrusted texts are only values of `$eq` and `$in`, except the keys of a payload's path, which are part of a field
// name after `payload.`. A dotted path of MongoDB also looks into arrays, and cannot name a key that is empty or contains a dot. So the conditions
// for a payload may match too much, but never too little, and rows are matched once more in this process.

import { rowIdOf } from '../../sinks/mongodb/bson.ts'
import { doubleOf, int64Max, int64Min, int64Of } from '../../transformers/json/canonical.ts'
import { unitsUp } from '../../transformers/time-units.ts'
import { type Comparator, type Direction, type Filter, type PayloadFilter, type RowKey, senmlFormat } from '../reader.ts'

/** A document of MongoDB's query language. */
export type Conditions = Readonly<Record<string, unknown>>

/** One find: rows of a collection, in an order. */
export interface Find {
  readonly conditions: Conditions
  readonly sort?: Readonly<Record<string, 1 | -1>>
  readonly skip?: number
  /** All rows by default. */
  readonly limit?: number
  /** The fields to return; all by default. */
  readonly projection?: Readonly<Record<string, 1>>
}

/** The field by which rows are ordered, before `_id`. */
export type TimeField = 'timeUs' | 'created'

/** The time field of a format. */
export function timeFieldOf(format: string): TimeField {
  return format === senmlFormat ? 'timeUs' : 'created'
}

const comparators: Readonly<Record<Comparator, string>> = { eq: '$eq', lt: '$lt', le: '$lte', gt: '$gt', ge: '$gte' }

/**
 * The rows that match, the channel always first; payloads are not compared exactly (see above). undefined if no row can match.
 */
export function conditionsOf(filter: Filter): Conditions | undefined {
  const { channel, publisher, subtopic, protocol, format, name, unit, value, boolValue, stringValue, dataValue, payload } = filter
  const texts = [channel, publisher, subtopic, protocol, name, unit, stringValue, ...payload.flatMap(({ path, text }) => [...path, text])]
  // Half a surrogate pair is never stored, and the driver would send another character.
  if (!texts.every(text => text === undefined || text.isWellFormed())) return undefined
  const time = timeConditions(filter)
  if (time === undefined) return undefined
  const conditions: Record<string, unknown> = { channel: { $eq: channel } }
  if (publisher !== undefined) conditions['publisher'] = { $eq: publisher }
  if (Object.keys(time).length > 0) conditions[timeFieldOf(format)] = time
  if (subtopic !== undefined) conditions['subtopic'] = { $eq: subtopic }
  if (protocol !== undefined) conditions['protocol'] = { $eq: protocol }
  if (name !== undefined) conditions['name'] = { $eq: name }
  // null also matches a missing field.
  if (unit !== undefined) conditions['unit'] = unit === '' ? { $in: [null, ''] } : { $eq: unit }
  if (value !== undefined) conditions['value'] = { [comparators[value.comparator]]: value.number }
  if (boolValue !== undefined) conditions['boolValue'] = { $eq: boolValue }
  if (stringValue !== undefined) conditions['stringValue'] = { $eq: stringValue }
  if (dataValue !== undefined) conditions['dataValue'] = { $eq: dataValue }
  const payloadConditions = payload.map(payloadCondition).filter(one => one !== undefined)
  return payloadConditions.length === 0 ? conditions : { ...conditions, $and: payloadConditions }
}

/** undefined if no row can have a time within the bounds. */
function timeConditions({ format, fromNs, toNs }: Filter): Conditions | undefined {
  const bound = timeFieldOf(format) === 'created' ? (ns: bigint) => ns : (ns: bigint) => unitsUp(ns, 1000n)
  const conditions: Record<string, bigint> = {}
  if (fromNs !== undefined) {
    const from = bound(fromNs)
    if (from > int64Max) return undefined
    if (from > int64Min) conditions['$gte'] = from
  }
  if (toNs !== undefined) {
    const to = bound(toNs)
    if (to <= int64Min) return undefined
    if (to <= int64Max) conditions['$lt'] = to
  }
  return conditions
}

/** The total order, which both indexes of a collection have. */
export function orderOf(direction: Direction, time: TimeField): Readonly<Record<string, 1 | -1>> {
  const sign = direction === 'desc' ? -1 : 1
  return { [time]: sign, _id: sign }
}

/**
 * The rows after a key: first a condition on the time alone, which the index can use, then, for rows with the same time, one that excludes those
 * before the key. It uses `$nor`, since with `$or` MongoDB would try a plan for each part.
 */
export function behind(conditions: Conditions, after: RowKey | undefined, direction: Direction, time: TimeField): Conditions {
  if (after === undefined) return conditions
  const { timeNs, position, index } = after
  const at = time === 'created' ? timeNs : timeNs / 1000n
  const asked = conditions[time] as { readonly $gte?: bigint; readonly $lt?: bigint } | undefined
  const rowId = rowIdOf(position, index)
  if (direction === 'desc') {
    return { ...conditions, [time]: { ...asked, $lte: at }, $nor: [{ [time]: { $eq: at }, _id: { $gte: rowId } }] }
  }
  const from = asked?.$gte !== undefined && asked.$gte > at ? asked.$gte : at
  return { ...conditions, [time]: { ...asked, $gte: from }, $nor: [{ [time]: { $eq: at }, _id: { $lte: rowId } }] }
}

/** The rows with these keys, in any order. */
export function rowsWith(channel: string, keys: readonly RowKey[]): Conditions {
  return { channel: { $eq: channel }, _id: { $in: keys.map(({ position, index }) => rowIdOf(position, index)) } }
}

/** The fields from which the newest of each series is found: all except payloads and values, which may be long. */
export function seriesFields(filter: Filter): Readonly<Record<string, 1>> {
  const origin = { publisher: 1, subtopic: 1, protocol: 1 } as const
  if (filter.format === senmlFormat) return { ...origin, name: 1, timeUs: 1 }
  return filter.payload.length === 0 ? { ...origin, created: 1 } : { ...origin, created: 1, payload: 1 }
}

/** Only records with a number. */
export function withNumber(conditions: Conditions): Conditions {
  return { ...conditions, value: { ...(conditions['value'] as Conditions | undefined), $exists: true } }
}

/** undefined if the store cannot express the condition. */
export function payloadCondition({ path, text }: PayloadFilter): Conditions | undefined {
  // Values of other programs that JSON cannot represent are null as well.
  if (text === 'null' || !path.every(isPlainKey)) return undefined
  return { [`payload.${path.join('.')}`]: { $in: scalarsOf(text) } }
}

/**
 * True for a key that every server accepts: one that begins with a dollar might be an operator, and FerretDB refuses keys that begin or end with a
 * blank.
 */
function isPlainKey(key: string): boolean {
  return /^[^\s$.\0\u0085][^\s.\0\u0085]*$/u.test(key)
}

/** All stored values with this text. Both servers compare numbers by value, whatever their type. */
function scalarsOf(text: string): unknown[] {
  const scalars: unknown[] = [text]
  if (text === 'true' || text === 'false') scalars.push(text === 'true')
  // Beyond 2^53 the printed digits of a double are not its exact value.
  scalars.push(...[int64Of(text), doubleOf(text)].filter(number => number !== undefined))
  return scalars
}
