// The question that a query string asks: what its parameters mean, also together.
//
// A parameter that is there filters, also where it is empty: `vs=` is the empty text and `subtopic=` no subtopic.

import { type Fault, HttpError } from '../config/http/errors.ts'
import { pointerPart } from '../config/http/json-body.ts'
import { nanosecondsOf } from './instants.ts'
import type { Parameters } from './parameters.ts'
import type { Aggregation, Direction, PayloadFilter, Selection } from './query.ts'
import { senmlFormat } from './reader.ts'
import type { RecordKeys } from './record-keys.ts'

export type CountMode = 'bounded' | 'exact' | 'none'

/** A question, whole. `cursor` is looked at when it is known who asks. */
export type Question = {
  readonly selection: Selection
  readonly direction: Direction
  readonly offset: number
  readonly cursor: string | undefined
  readonly count: CountMode
  readonly csvSafe: boolean
  readonly keys: RecordKeys
} & (
  | { readonly kind: 'page' | 'latest'; readonly limit: number }
  | { readonly kind: 'export' }
  | { readonly kind: 'aggregate'; readonly limit: number; readonly aggregation: Aggregation; readonly intervalUs: number }
)

/**
 * @param publisher whom alone the asker may read; undefined: the whole channel
 * @param ownKeys where none are asked for
 * @returns undefined where the question is right and nothing can be in its answer: another publisher is asked for than may be read
 * @throws HttpError `malformed_request` that names each parameter at fault
 */
export function questionOf(
  parameters: Parameters,
  channel: string,
  publisher: string | undefined,
  limitMax: number,
  ownKeys: RecordKeys = 'capitals',
): { readonly question: Question; readonly isEmpty: boolean } {
  const faults: Fault[] = []
  const fault = (name: string, detail: string): void => void faults.push({ pointer: `/query/${pointerPart(name)}`, detail })
  const { offset = 0, limit: limitText = '10', format = senmlFormat, cursor, latest, aggregation, interval } = parameters
  const payload = payloadFilters(parameters)

  for (const name of senmlFilters) {
    if (format !== senmlFormat && parameters[name] !== undefined) fault(name, `is of SenML records: leave it out, or leave out format`)
  }
  if (format === senmlFormat && payload.length > 0) {
    for (const { name } of payload) fault(name, 'is of JSON documents: name their format')
  }
  for (const { name, path } of payload)
    if (path.includes('')) fault(name, 'has an empty key: give the keys from the root, with one dot between')
    else if (path.length > depthMax) fault(name, `goes deeper than the ${depthMax} levels that a payload may have: give fewer keys`)
  if (payload.length > payloadFiltersMax) fault(payload.at(-1)!.name, `is one of more than ${payloadFiltersMax} fields: ask for fewer`)
  if (parameters.comparator !== undefined && parameters.v === undefined) fault('comparator', 'compares v, which is missing: add it')
  const value = parameters.v === undefined ? undefined : Number(parameters.v)
  if (value !== undefined && !Number.isFinite(value))
    fault('v', 'is beyond the range of a double: give a number between -1.8e308 and 1.8e308')
  const dataValue = parameters.vd === undefined ? undefined : Buffer.from(parameters.vd, 'base64url')
  if (dataValue !== undefined && dataValue.toString('base64url') !== parameters.vd)
    fault('vd', 'is not whole: give base64url without padding')
  const { fromNs, toNs, isNever } = boundsOf(parameters, fault)

  const limit = limitText === 'all' ? undefined : Number(limitText)
  if (limit !== undefined && limit > limitMax) fault('limit', `is not allowed: give a whole number from 1 to ${limitMax}, or all`)
  if (cursor !== undefined && offset > 0) fault('offset', 'does not go with cursor, which says where the page begins: leave it out')
  if (aggregation !== undefined) {
    if (format !== senmlFormat) fault('aggregation', 'is of SenML records: leave out format')
    if (interval === undefined) fault('interval', 'is missing: say how long the buckets of the aggregation are, such as 5m')
    if (cursor !== undefined) fault('cursor', 'does not go with aggregation: page with offset')
    if (latest === 'true') fault('latest', 'does not go with aggregation: use aggregation=last')
  } else if (interval !== undefined) fault('interval', 'is of an aggregation, which is missing: add it')
  if (limit === undefined && parameters.count === 'exact') fault('count', 'does not go with limit=all, which has no total: leave it out')
  if (limit === undefined && (aggregation !== undefined || latest === 'true')) fault('limit', 'can be all for records alone: give a number')
  const intervalUs = interval === undefined ? undefined : microseconds(interval)
  if (intervalUs !== undefined && intervalUs > intervalUsMax) fault('interval', 'is longer than 366 days: give less')
  if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults: faults.slice(0, faultsMax) })

  const selection: Selection = {
    channel,
    format,
    publisher: publisher ?? parameters.publisher,
    subtopic: parameters.subtopic?.replaceAll('/', '.'),
    protocol: parameters.protocol,
    fromNs,
    toNs,
    name: parameters.name,
    unit: parameters.unit,
    value: value === undefined ? undefined : { comparator: parameters.comparator ?? 'eq', number: value },
    boolValue: parameters.vb === undefined ? undefined : parameters.vb === 'true',
    stringValue: parameters.vs,
    dataValue,
    payload: payload.map(({ path, text }) => ({ path, text })),
  }
  const rest = {
    selection,
    direction: parameters.dir ?? 'desc',
    // -0 is a number of JSON; not every store takes it for 0.
    offset: offset + 0,
    cursor,
    count: parameters.count ?? 'bounded',
    csvSafe: parameters.csv_safe === 'true',
    keys: parameters.keys ?? ownKeys,
  } as const
  const isForeign = publisher !== undefined && parameters.publisher !== undefined && parameters.publisher !== publisher
  const isEmpty = isForeign || isNever
  if (limit === undefined) return { isEmpty, question: { ...rest, kind: 'export' } }
  if (aggregation !== undefined) return { isEmpty, question: { ...rest, kind: 'aggregate', limit, aggregation, intervalUs: intervalUs! } }
  return { isEmpty, question: { ...rest, kind: latest === 'true' ? 'latest' : 'page', limit } }
}

const senmlFilters = ['name', 'unit', 'v', 'comparator', 'vb', 'vs', 'vd'] as const
const payloadPrefix = 'payload.'
/** Of a payload, as the transformer takes it. */
const depthMax = 64
const payloadFiltersMax = 32
/** An answer must not grow with what somebody got wrong. */
const faultsMax = 20

function payloadFilters(parameters: Parameters): (PayloadFilter & { name: string })[] {
  return Object.entries(parameters as Record<string, string>)
    .filter(([name]) => name.startsWith(payloadPrefix))
    .map(([name, text]) => ({ name, path: name.slice(payloadPrefix.length).split('.'), text }))
}

/** Of what is stored: int64. Stores are given no bounds beyond, which some of them cannot even compare. */
const timeNsMin = -(2n ** 63n)
const timeNsMax = 2n ** 63n - 1n

interface Bounds extends Pick<Selection, 'fromNs' | 'toNs'> {
  /** Nothing can lie between them. */
  readonly isNever: boolean
}

function boundsOf({ from, to }: Parameters, fault: (name: string, detail: string) => void): Bounds {
  const instant = (name: string, text: string | undefined): bigint | undefined => {
    if (text === undefined) return undefined
    const ns = nanosecondsOf(text)
    if (ns === undefined) fault(name, 'names a day that its month does not have: give another one')
    return ns
  }
  const fromNs = instant('from', from)
  const toNs = instant('to', to)
  if (fromNs !== undefined && toNs !== undefined && fromNs > toNs) fault('from', 'is after to: exchange them')
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

/** The question in one form, for its cursors: everything that says which rows there are, and in which order. */
export function canonicalQuestion({ selection, direction, kind }: Pick<Question, 'selection' | 'direction' | 'kind'>): string {
  const { dataValue, fromNs, toNs, payload, ...rest } = selection
  // A page and an export go through the same rows.
  const rows = kind === 'latest' ? 'latest' : 'rows'
  return JSON.stringify([
    rows,
    direction,
    Object.entries(rest).toSorted(([one], [other]) => (one < other ? -1 : 1)),
    dataValue === undefined ? null : Buffer.from(dataValue).toString('base64url'),
    fromNs === undefined ? null : String(fromNs),
    toNs === undefined ? null : String(toNs),
    payload,
  ])
}
