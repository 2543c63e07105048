// By which field of its point a row is found: the storage compares one field at a time, and points have no others beside it.

import { fluxText } from '../../sinks/influxdb/flux.ts'
import { numberText } from '../payload-json.ts'
import type { PayloadFilter, Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'
import { type Compared, fluxCompared } from './flux-number.ts'

/** A field that a point which is looked for has. */
export interface Finder extends Compared {
  readonly field: string
}

export interface Search {
  /** A row is found by exactly one of them. None: there can be no such row. */
  readonly finders: readonly Finder[]
  /** False where what is found need not be what is asked for: rows have to be looked at. */
  readonly isExact: boolean
  /** Whether a value is compared, so that what is found may be little of what there is. */
  readonly comparesValue: boolean
  /** Whether the field's type may differ from one shard to another: then the storage sees the first shard's alone in a question. */
  readonly mixesTypes: boolean
}

/** Every point has it. */
export const everyPoint: Finder = { field: '/position', filter: '', rowFilter: '' }
/** Every record with a number. */
export const everyNumber: Finder = { field: 'value', filter: '', rowFilter: '' }

/** Tags are filtered beside: the index knows them. */
export function searchOf(selection: Selection): Search {
  const fields = selection.format === senmlFormat ? recordFields(selection) : documentFields(selection)
  const [first] = fields
  if (first === undefined) return { finders: [everyPoint], isExact: true, comparesValue: false, mixesTypes: false }
  // One that nothing can have says it all.
  const finders = fields.some(one => one.length === 0) ? [] : first
  return { finders, isExact: fields.length === 1, comparesValue: true, mixesTypes: selection.payload.length > 0 }
}

function recordFields({ value, boolValue, stringValue, dataValue, protocol }: Selection): Finder[][] {
  const fields: Finder[] = []
  if (value !== undefined) fields.push({ field: 'value', ...fluxCompared(value.comparator, value.number) })
  if (boolValue !== undefined) fields.push(equal('boolValue', String(boolValue)))
  if (stringValue !== undefined) fields.push(equal('stringValue', fluxText(stringValue)))
  if (dataValue !== undefined) fields.push(equal('dataValue', fluxText(base64url(dataValue))))
  if (protocol !== undefined) fields.push(equal('protocol', fluxText(protocol)))
  return fields.map(field => [field])
}

function documentFields({ payload, protocol }: Selection): Finder[][] {
  const fields = payload.map(payloadFinders)
  if (protocol !== undefined) fields.push([equal('/protocol', fluxText(protocol))])
  return fields
}

/** The values that have the asked text: the text itself, and a number or a truth value whose text it is. Keys hold no `/`. */
function payloadFinders({ path, text }: PayloadFilter): Finder[] {
  if (path.some(key => key === '' || key.includes('/'))) return []
  const field = path.join('/')
  const finders = [equal(field, fluxText(text))]
  if (text === 'true' || text === 'false') finders.push(equal(field, text))
  const number = Number(text)
  if (Number.isFinite(number) && numberText(number) === text) finders.push({ field, ...fluxCompared('eq', number) })
  return finders
}

function equal(field: string, literal: string): Finder {
  return { field, filter: ` |> filter(fn: (r) => r._value == ${literal})`, rowFilter: '' }
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
