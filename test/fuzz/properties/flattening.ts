// Flattening and its reverse: what comes back is the document less the documented losses, or one of the documented errors.

import { DecodeError } from '../../../transformers/decode-error.ts'
import { type Fields, flatten } from '../../../transformers/json/flatten.ts'
import { jsonText } from '../../../transformers/json/json-text.ts'
import { unflatten } from '../../../transformers/json/unflatten.ts'
import type { JsonObject, JsonValue } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { differ, type Property } from '../property.ts'
import { openSlate, sameJson } from './slate.ts'

const utf8 = new TextDecoder()

/** The documents that a transformer gives. */
export function documentsComeBack(transformer: Transformer): Property {
  const slate = openSlate()
  return {
    name: 'a flattened document comes back, less what is documented',
    holds(input) {
      if (slate.decode(transformer, input) !== undefined) return
      const { payload, length } = slate.batch.documents
      for (let row = 0; row < length; row++) mustComeBack(payload[row]!)
    },
  }
}

/** Any JSON whatever, as a tool may give it: deeper, longer and with other roots than a transformer takes. */
export const anyJsonComesBack: Property = {
  name: 'any JSON at all is flattened and comes back, or is refused by a documented rule',
  holds(input) {
    const value = parse(input)
    if (value !== undefined) mustComeBack(value)
  },
}

function mustComeBack(document: JsonValue): void {
  const fields = attempt(() => flatten(document), /^flatten-(root|key|depth|size|number)$/)
  if (fields === undefined) return
  if (fields.keys.length !== fields.values.length) throw new Error(differ('fields', fields.keys.length, fields.values.length))
  // What was flattened is never refused on its way back.
  const back = unflatten(fields)
  const expected = afterLosses(document as JsonObject)
  if (!sameJson(back, expected)) throw new Error(differ('the document', back, expected))
  mustBeSame(flatten(back), fields)
}

/** What is left of a document: nulls and empty objects are gone, arrays are text, integers are doubles. */
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

/** Any fields at all. */
export const anyFieldsComeBack: Property = {
  name: 'any fields at all are unflattened without a loss, or refused by a documented rule',
  holds(input) {
    const given = fieldsOf(parse(input))
    if (given === undefined) return
    const document = attempt(() => unflatten(given), /^unflatten-(key|conflict|depth)$/)
    if (document === undefined) return
    // Tags may be fields of a point that was read, and keys in all be long: that alone may refuse them.
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

/** Fields of one object come together on the way back: only what there is counts, not where. */
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

/** What is given; undefined where it is refused by one of these rules. */
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
