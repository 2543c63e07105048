// Flattening and unflattening: the result is the document without the documented losses, or one of the documented errors.

import { DecodeError } from '../../../transformers/decode-error.ts'
import { type Fields, flatten } from '../../../transformers/json/flatten.ts'
import { jsonText } from '../../../transformers/json/json-text.ts'
import { unflatten } from '../../../transformers/json/unflatten.ts'
import type { JsonObject, JsonValue } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { differ, type Property } from '../property.ts'
import { openSlate, sameJson } from './slate.ts'

const utf8 = new TextDecoder()

/** The documents that a transformer returns. */
export function documentsComeBack(transformer: Transformer): Property {
  const slate = openSlate()
  return {
    name: 'a flattened document is restored, except for documented losses',
    holds(input) {
      if (slate.decode(transformer, input) !== undefined) return
      const { payload, length } = slate.batch.documents
      for (let row = 0; row < length; row++) mustComeBack(payload[row]!)
    },
  }
}

/** Any JSON, as a tool may get it: deeper, longer and with other roots than a transformer allows. */
export const anyJsonComesBack: Property = {
  name: 'any JSON is flattened and restored, or refused by a documented rule',
  holds(input) {
    const value = parse(input)
    if (value !== undefined) mustComeBack(value)
  },
}

function mustComeBack(document: JsonValue): void {
  const fields = attempt(() => flatten(document), /^flatten-(root|key|depth|size|number)$/)
  if (fields === undefined) return
  if (fields.keys.length !== fields.values.length) throw new Error(differ('fields', fields.keys.length, fields.values.length))
  // A flattened document can always be unflattened.
  const back = unflatten(fields)
  const expected = afterLosses(document as JsonObject)
  if (!sameJson(back, expected)) throw new Error(differ('the document', back, expected))
  mustBeSame(flatten(back), fields)
}

/** The documented losses: nulls and empty objects are removed, arrays become text, integers become doubles. */
function afterLosses(document: JsonObject): JsonObject {
  const kept: [string, JsonValue][] = []
  for (const [key, value] of Object.entries(document)) {
    if (value === null) continue
    if (Array.isArray(value)) kept.push([key, jsonText(value)])
    else if (typeof value === 'bigint') kept.push([key, Number(value)])
    else if (typeof value !== 'object') kept.push([key, value])
    else {
      const inside = afterLosses(value as JsonObject)
      if (Object.keys(inside).length > 0) kept.push([key, inside])
    }
  }
  return Object.fromEntries(kept)
}

/** Any fields. */
export const anyFieldsComeBack: Property = {
  name: 'any fields are unflattened without loss, or refused by a documented rule',
  holds(input) {
    const given = fieldsOf(parse(input))
    if (given === undefined) return
    const document = attempt(() => unflatten(given), /^unflatten-(key|conflict|depth)$/)
    if (document === undefined) return
    // A stored point may have tags as fields, and long keys: only these may be refused.
    const again = attempt(() => flatten(document), /^flatten-(key|size)$/)
    if (again !== undefined) mustBeSame(sorted(again), sorted(given))
    else if (
      !given.keys.some(key => ['channel', 'publisher', 'subtopic'].includes(key.split('/', 1)[0]!)) &&
      given.keys.join('').length <= 2 ** 20
    ) {
      throw new Error('what was unflattened cannot be flattened again')
    }
  },
}

function fieldsOf(value: JsonValue | undefined): Fields | undefined {
  if (!Array.isArray(value)) return undefined
  const fields: Fields = { keys: [], values: [] }
  for (const pair of value as readonly JsonValue[]) {
    if (!Array.isArray(pair)) return undefined
    const [key, field] = pair as readonly JsonValue[]
    if (typeof key !== 'string' || (typeof field !== 'number' && typeof field !== 'string' && typeof field !== 'boolean')) return undefined
    fields.keys.push(key)
    fields.values.push(field)
  }
  return fields
}

/** Unflattening groups the fields of an object: the order does not count. */
function sorted({ keys, values }: Fields): Fields {
  const order = keys.map((_, at) => at).sort((a, b) => (keys[a]! < keys[b]! ? -1 : 1))
  return { keys: order.map(at => keys[at]!), values: order.map(at => values[at]!) }
}

function mustBeSame(one: Fields, other: Fields): void {
  const length = Math.max(one.keys.length, other.keys.length)
  for (let at = 0; at < length; at++) {
    const [mine, yours] = [one.values[at], other.values[at]]
    if (one.keys[at] !== other.keys[at] || !Object.is(mine, yours)) {
      throw new Error(differ(`field ${at}`, [one.keys[at], mine], [other.keys[at], yours]))
    }
  }
}

/** The result; undefined if one of these rules refuses it. */
function attempt<T>(run: () => T, rules: RegExp): T | undefined {
  try {
    return run()
  } catch (error) {
    if (error instanceof DecodeError && rules.test(error.rule)) return undefined
    throw error
  }
}

function parse(input: Uint8Array): JsonValue | undefined {
  try {
    return JSON.parse(utf8.decode(input)) as JsonValue
  } catch {
    return undefined
  }
}
