// What is asked of the store, pure: from a query to filters and orders of MongoDB.
//
// Every operator is written here. Texts of strangers stand as values of `$eq` and `$in` alone; of a payload's path, the keys stand in a
// field's name behind `payload.`.

import { rowIdOf } from '../../sinks/mongodb/row-id.ts'
import { unitsUp } from '../instants.ts'
import type { Comparator, Direction, RowKey, Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'
import { payloadCondition } from './payload-filter.ts'

/** A document of MongoDB's query language. */
export type Filter = Readonly<Record<string, unknown>>

/** One find: rows of a collection, in an order. */
export interface Find {
  readonly filter: Filter
  readonly sort?: Readonly<Record<string, 1 | -1>>
  readonly skip?: number
  /** All, where it is not there. */
  readonly limit?: number
  /** The fields that are wanted; all, where it is not there. */
  readonly projection?: Readonly<Record<string, 1>>
}

/** The field that rows are ordered by, then by `_id`. */
export type TimeField = 'timeUs' | 'created'

export function timeFieldOf(format: string): TimeField {
  return format === senmlFormat ? 'timeUs' : 'created'
}

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n
const comparators: Readonly<Record<Comparator, string>> = { eq: '$eq', lt: '$lt', le: '$lte', gt: '$gt', ge: '$gte' }

/**
 * The rows that are meant, the channel always first; payloads are not compared exactly (payload-filter.ts). undefined where no row can be.
 */
export function filterOf(selection: Selection): Filter | undefined {
  const { channel, publisher, subtopic, protocol, format, name, unit, value, boolValue, stringValue, dataValue, payload } = selection
  const texts = [channel, publisher, subtopic, protocol, name, unit, stringValue, ...payload.flatMap(({ path, text }) => [...path, text])]
  // Half a surrogate pair is never stored, and the driver would ask for another character.
  if (!texts.every(text => text === undefined || text.isWellFormed())) return undefined
  const time = timeConditions(selection)
  if (time === undefined) return undefined
  const filter: Record<string, unknown> = { channel: { $eq: channel } }
  if (publisher !== undefined) filter['publisher'] = { $eq: publisher }
  if (Object.keys(time).length > 0) filter[timeFieldOf(format)] = time
  if (subtopic !== undefined) filter['subtopic'] = { $eq: subtopic }
  if (protocol !== undefined) filter['protocol'] = { $eq: protocol }
  if (name !== undefined) filter['name'] = { $eq: name }
  // null is absent, too.
  if (unit !== undefined) filter['unit'] = unit === '' ? { $in: [null, ''] } : { $eq: unit }
  if (value !== undefined) filter['value'] = { [comparators[value.comparator]]: value.number }
  if (boolValue !== undefined) filter['boolValue'] = { $eq: boolValue }
  if (stringValue !== undefined) filter['stringValue'] = { $eq: stringValue }
  if (dataValue !== undefined) filter['dataValue'] = { $eq: dataValue }
  const ofPayload = payload.map(payloadCondition).filter(one => one !== undefined)
  return ofPayload.length === 0 ? filter : { ...filter, $and: ofPayload }
}

/** undefined where no time of a row is within the bounds. */
function timeConditions({ format, fromNs, toNs }: Selection): Filter | undefined {
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
 * The rows behind a key: the time alone first, since the index has it; then, of that very time, not those before. `$nor`, where `$or` would have
 * MongoDB try a plan for each of its parts.
 */
export function behind(filter: Filter, after: RowKey | undefined, direction: Direction, time: TimeField): Filter {
  if (after === undefined) return filter
  const { timeNs, position, index } = after
  const at = time === 'created' ? timeNs : timeNs / 1000n
  const asked = filter[time] as { readonly $gte?: bigint; readonly $lt?: bigint } | undefined
  const rowId = rowIdOf(position, index)
  if (direction === 'desc') {
    return { ...filter, [time]: { ...asked, $lte: at }, $nor: [{ [time]: { $eq: at }, _id: { $gte: rowId } }] }
  }
  const from = asked?.$gte !== undefined && asked.$gte > at ? asked.$gte : at
  return { ...filter, [time]: { ...asked, $gte: from }, $nor: [{ [time]: { $eq: at }, _id: { $lte: rowId } }] }
}

/** These rows, in no order. */
export function rowsWith(channel: string, keys: readonly RowKey[]): Filter {
  return { channel: { $eq: channel }, _id: { $in: keys.map(({ position, index }) => rowIdOf(position, index)) } }
}

/** What the newest of each series is found by. Everything but payloads and values, which may be long. */
export function seriesFields(selection: Selection): Readonly<Record<string, 1>> {
  const origin = { publisher: 1, subtopic: 1, protocol: 1 } as const
  if (selection.format === senmlFormat) return { ...origin, name: 1, timeUs: 1 }
  return selection.payload.length === 0 ? { ...origin, created: 1 } : { ...origin, created: 1, payload: 1 }
}

/** Records with a number. */
export function withNumber(filter: Filter): Filter {
  return { ...filter, value: { ...(filter['value'] as Filter | undefined), $exists: true } }
}
