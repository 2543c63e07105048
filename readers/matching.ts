// Tests whether a row matches a filter, for stores that cannot evaluate it and for messages that are not stored yet.

import { type Json, numberText, parsePayload } from '../transformers/json/canonical.ts'
import { type Comparator, type DocumentRow, type Filter, type PayloadFilter, type Row, type SenmlRow, timeNsOf } from './reader.ts'

/**
 * A predicate for the filter without its channel and format, which determine where rows are searched.
 *
 * @param payloadOf returns the payload of a document, if it is shared with others
 */
export function matcherOf(filter: Filter, payloadOf = parsedPayload): (row: Row) => boolean {
  const { publisher, subtopic, protocol, fromNs, toNs, payload } = filter
  const tests: ((row: Row) => boolean)[] = []
  if (publisher !== undefined) tests.push(row => row.publisher === publisher)
  if (subtopic !== undefined) tests.push(row => row.subtopic === subtopic)
  if (protocol !== undefined) tests.push(row => row.protocol === protocol)
  if (fromNs !== undefined) tests.push(row => timeNsOf(row) >= fromNs)
  if (toNs !== undefined) tests.push(row => timeNsOf(row) < toNs)
  tests.push(...recordTests(filter).map(test => (row: Row) => row.kind === 'senml' && test(row)))
  // Last, and parsed once for all filters, because this is the most expensive part.
  if (payload.length > 0) tests.push(row => row.kind === 'document' && payloadMatches(payloadOf(row), payload))
  return row => tests.every(test => test(row))
}

function parsedPayload({ payloadText }: DocumentRow): Json {
  return parsePayload(payloadText)
}

/** True if the filter has conditions other than channel, format, publisher and time. */
export function isFiltered({ subtopic, protocol, name, unit, value, boolValue, stringValue, dataValue, payload }: Filter): boolean {
  return [subtopic, protocol, name, unit, value, boolValue, stringValue, dataValue].some(one => one !== undefined) || payload.length > 0
}

function recordTests({ name, unit, value, boolValue, stringValue, dataValue }: Filter): ((row: SenmlRow) => boolean)[] {
  const tests: ((row: SenmlRow) => boolean)[] = []
  if (name !== undefined) tests.push(row => row.name === name)
  if (unit !== undefined) tests.push(row => (row.unit ?? '') === unit)
  if (value !== undefined) tests.push(row => row.value !== undefined && compares(row.value, value.comparator, value.number))
  if (boolValue !== undefined) tests.push(row => row.boolValue === boolValue)
  if (stringValue !== undefined) tests.push(row => row.stringValue === stringValue)
  if (dataValue !== undefined) tests.push(row => row.dataValue !== undefined && Buffer.compare(row.dataValue, dataValue) === 0)
  return tests
}

function compares(stored: number, comparator: Comparator, asked: number): boolean {
  switch (comparator) {
    case 'lt':
      return stored < asked
    case 'le':
      return stored <= asked
    case 'gt':
      return stored > asked
    case 'ge':
      return stored >= asked
    case 'eq':
    default:
      return stored === asked
  }
}

function payloadMatches(payload: Json, filters: readonly PayloadFilter[]): boolean {
  return filters.every(({ path, text }) => hasText(payload, path, text))
}

function hasText(payload: Json, path: PayloadFilter['path'], text: string): boolean {
  const value = valueAt(payload, path)
  return value !== undefined && scalarText(value) === text
}

/** What a payload has at a path; undefined if it has nothing there. */
export function valueAt(payload: Json, path: PayloadFilter['path']): Json | undefined {
  let value: Json | undefined = payload
  for (const key of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, key)) return undefined
    value = value[key]
  }
  return value
}

/** undefined for an array or object. */
export function scalarText(value: Json): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return numberText(value)
  if (typeof value === 'object' && value !== null) return undefined
  return String(value)
}
