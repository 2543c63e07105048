// Parses the query string of a read request, and checks combinations of parameters.
//
// A parameter filters even if it is empty: `vs=` is the empty text and `subtopic=` no subtopic.

import { type Fault, HttpError } from '../http/errors.ts'
import { pointerPart } from '../http/requests/json-body.ts'
import { parsePath, pathWords } from '../transformers/json/path.ts'
import { canonicalId } from '../transformers/uuid.ts'
import type { RecordKeys } from './answers/record-keys.ts'
import { type Aggregation, type Direction, type Filter, type PayloadField, type PayloadFilter, senmlFormat } from './reader.ts'
import type { QueryString } from './request/query-schema.ts'
import { nanosecondsOf } from './request/time-range.ts'

/** How `total` is counted: up to a bound, exactly, or not at all. */
export type CountMode = 'bounded' | 'exact' | 'none'

/** A checked request. `cursor` is decoded after authentication. */
export type ReadRequest = {
  /** All that are read, each once, sorted. */
  readonly channels: readonly string[]
  /** Of the first channel. */
  readonly filter: Filter
  readonly direction: Direction
  readonly offset: number
  readonly cursor: string | undefined
  readonly count: CountMode
  readonly csvSafe: boolean
  readonly keys: RecordKeys
} & (
  | { readonly kind: 'page' | 'latest'; readonly limit: number }
  | { readonly kind: 'export' }
  | {
      readonly kind: 'aggregate'
      readonly limit: number
      readonly aggregation: Aggregation
      readonly intervalUs: number
      /** For JSON documents only. */
      readonly field: PayloadField | undefined
    }
)

/**
 * @param channels at least one, each once, sorted
 * @param publisher the thing whose messages the caller may read; undefined: the whole channels
 * @param ownKeys the keys of records if the request sets none
 * @returns `isEmpty` if the request is valid but no row can match, because it names a publisher that the caller may not read
 * @throws HttpError `malformed_request` that names each invalid parameter
 */
export function requestOf(
  query: QueryString,
  channels: readonly string[],
  publisher: string | undefined,
  limitMax: number,
  ownKeys: RecordKeys = 'capitals',
): { readonly request: ReadRequest; readonly isEmpty: boolean } {
  const faults: Fault[] = []
  const fault = (name: string, detail: string): void => void faults.push({ pointer: `/query/${pointerPart(name)}`, detail })
  const { offset = 0, limit: limitText = '10', format = senmlFormat, cursor, latest, aggregation, interval } = query
  const payload = payloadFilters(query)

  for (const name of senmlFilters) {
    if (format !== senmlFormat && query[name] !== undefined) fault(name, `is for SenML records: omit it, or omit format`)
  }
  if (format === senmlFormat && payload.length > 0) {
    for (const { name } of payload) fault(name, 'is for JSON documents: add their format')
  }
  for (const { name, path } of payload)
    if (path === undefined) fault(name, `is not the path of a field: give ${pathWords}`)
    else if (path.length > depthMax) fault(name, `is deeper than the ${depthMax} levels of a payload: give fewer keys`)
  if (payload.length > payloadFiltersMax)
    fault(payload.at(-1)!.name, `exceeds the limit of ${payloadFiltersMax} payload fields: remove some`)
  if (query.comparator !== undefined && query.v === undefined) fault('comparator', 'needs v, which is missing: add it')
  const value = query.v === undefined ? undefined : Number(query.v)
  if (value !== undefined && !Number.isFinite(value))
    fault('v', 'is beyond the range of a double: give a number between -1.8e308 and 1.8e308')
  const dataValue = query.vd === undefined ? undefined : Buffer.from(query.vd, 'base64url')
  if (dataValue !== undefined && dataValue.toString('base64url') !== query.vd) fault('vd', 'is incomplete: give base64url without padding')
  const { fromNs, toNs, isNever } = boundsOf(query, fault)

  const limit = limitText === 'all' ? undefined : Number(limitText)
  if (limit !== undefined && limit > limitMax) fault('limit', `is not allowed: give a whole number from 1 to ${limitMax}, or all`)
  if (cursor !== undefined && offset > 0) fault('offset', 'cannot be combined with cursor, which sets the start of the page: omit it')
  if (aggregation !== undefined) {
    if (format !== senmlFormat && query.field === undefined)
      fault('aggregation', 'is for SenML records, or for one field of JSON documents: omit format, or give field')
    if (interval === undefined) fault('interval', 'is missing: give the length of the buckets, such as 5m')
    if (cursor !== undefined) fault('cursor', 'cannot be combined with aggregation: page with offset')
    if (latest === 'true') fault('latest', 'cannot be combined with aggregation: use aggregation=last')
  } else if (interval !== undefined) fault('interval', 'needs aggregation, which is missing: add it')
  const fieldPath = query.field?.startsWith(payloadPrefix) === true ? parsePath(query.field.slice(payloadPrefix.length)) : undefined
  if (query.field !== undefined) {
    if (fieldPath === undefined) fault('field', `is not the path of a field: give ${payloadPrefix} and ${pathWords}`)
    if (aggregation === undefined) fault('field', 'needs aggregation, which is missing: add it')
    if (format === senmlFormat) fault('field', 'is for JSON documents: add their format')
  }
  if (limit === undefined && query.count === 'exact') fault('count', 'cannot be combined with limit=all, which has no total: omit it')
  if (limit === undefined && (aggregation !== undefined || latest === 'true')) fault('limit', 'can be all only for records: give a number')
  const intervalUs = interval === undefined ? undefined : microseconds(interval)
  if (intervalUs !== undefined && intervalUs > intervalUsMax) fault('interval', 'is longer than 366 days: shorten it')
  if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults: faults.slice(0, faultsMax) })

  const wanted = query.publisher === undefined ? undefined : canonicalId(query.publisher)
  const filter: Filter = {
    channel: channels[0]!,
    format,
    publisher: publisher ?? wanted,
    subtopic: query.subtopic?.replaceAll('/', '.'),
    protocol: query.protocol,
    fromNs,
    toNs,
    name: query.name,
    unit: query.unit,
    value: value === undefined ? undefined : { comparator: query.comparator ?? 'eq', number: value },
    boolValue: query.vb === undefined ? undefined : query.vb === 'true',
    stringValue: query.vs,
    dataValue,
    payload: payload.map(({ path, text }) => ({ path: path!, text })),
  }
  const rest = {
    channels,
    filter,
    direction: query.dir ?? 'desc',
    // -0 is a valid JSON number, but not every store treats it as 0.
    offset: offset + 0,
    cursor,
    count: query.count ?? 'bounded',
    csvSafe: query.csv_safe === 'true',
    keys: query.keys ?? ownKeys,
  } as const
  const isForeign = publisher !== undefined && wanted !== undefined && wanted !== publisher
  const isEmpty = isForeign || isNever
  if (limit === undefined) return { isEmpty, request: { ...rest, kind: 'export' } }
  if (aggregation !== undefined) {
    const field = fieldPath === undefined ? undefined : { name: query.field!, path: fieldPath }
    return { isEmpty, request: { ...rest, kind: 'aggregate', limit, aggregation, intervalUs: intervalUs!, field } }
  }
  return { isEmpty, request: { ...rest, kind: latest === 'true' ? 'latest' : 'page', limit } }
}

const senmlFilters = ['name', 'unit', 'v', 'comparator', 'vb', 'vs', 'vd'] as const
const payloadPrefix = 'payload.'
/** Depth of a payload, as in the transformer. */
const depthMax = 64
const payloadFiltersMax = 32
/** Bounds the error response of a request with many faults. */
const faultsMax = 20

function payloadFilters(query: QueryString): { name: string; path: PayloadFilter['path'] | undefined; text: string }[] {
  return Object.entries(query as Record<string, string>)
    .filter(([name]) => name.startsWith(payloadPrefix))
    .map(([name, text]) => ({ name, path: parsePath(name.slice(payloadPrefix.length)), text }))
}

/** Range of stored times: int64. Bounds are limited to it, because some stores cannot compare with larger values. */
const timeNsMin = -(2n ** 63n)
const timeNsMax = 2n ** 63n - 1n

interface Bounds extends Pick<Filter, 'fromNs' | 'toNs'> {
  /** True if no time is in the range. */
  readonly isNever: boolean
}

function boundsOf({ from, to }: QueryString, fault: (name: string, detail: string) => void): Bounds {
  const timestamp = (name: string, text: string | undefined): bigint | undefined => {
    if (text === undefined) return undefined
    const ns = nanosecondsOf(text)
    if (ns === undefined) fault(name, 'has a day that does not exist in its month, or a leap second that does not end one: give another')
    return ns
  }
  const fromNs = timestamp('from', from)
  const toNs = timestamp('to', to)
  if (fromNs !== undefined && toNs !== undefined && fromNs > toNs) fault('from', 'is after to: swap them')
  return {
    fromNs: fromNs === undefined || fromNs <= timeNsMin ? undefined : fromNs,
    toNs: toNs === undefined || toNs > timeNsMax ? undefined : toNs,
    isNever: (fromNs !== undefined && (fromNs === toNs || fromNs > timeNsMax)) || (toNs !== undefined && toNs <= timeNsMin),
  }
}

const intervalUsMax = 366 * 86_400_000_000
const unitUs: Readonly<Record<string, number>> = { s: 1_000_000, m: 60_000_000, h: 3_600_000_000, d: 86_400_000_000 }

function microseconds(interval: string): number {
  return Number(interval.slice(0, -1)) * unitUs[interval.at(-1)!]!
}

/** The canonical form of a request, to which cursors are bound: the selected rows and their order. */
export function canonicalRequest({
  channels,
  filter,
  direction,
  kind,
}: Pick<ReadRequest, 'channels' | 'filter' | 'direction' | 'kind'>): string {
  const { dataValue, fromNs, toNs, payload, ...rest } = filter
  // A page and an export have the same rows.
  const rows = kind === 'latest' ? 'latest' : 'rows'
  return JSON.stringify([
    rows,
    direction,
    Object.entries(rest).toSorted(([one], [other]) => (one < other ? -1 : 1)),
    dataValue === undefined ? null : Buffer.from(dataValue).toString('base64url'),
    fromNs === undefined ? null : String(fromNs),
    toNs === undefined ? null : String(toNs),
    payload,
    ...(channels.length > 1 ? [channels] : []),
  ])
}
