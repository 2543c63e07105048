// The round trip through a time-series point loses only what is documented. The tests' names contain the seed of a run; SEED=<seed> repeats it.

import { isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { DecodeError } from '../../transformers/decode-error.ts'
import { type FieldValue, flatten } from '../../transformers/json/flatten.ts'
import { unflatten } from '../../transformers/json/unflatten.ts'
import type { JsonObject, JsonValue } from '../../transformers/record-batch.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const parameters = { seed, numRuns: 3000 }

const strangeKeys = ['__proto__', 'constructor', 'toString', '0', '10', 'a', 'b', ' ', '.', 'ü', 'channel ', 'protocol']
const goodKey = fc.oneof(fc.constantFrom(...strangeKeys), fc.string({ minLength: 1 }).filter(isGoodKey))
const anyKey = fc.oneof(
  { arbitrary: goodKey, weight: 20 },
  { arbitrary: fc.constantFrom('', '/', 'a/b', 'a/', 'channel', 'publisher', 'subtopic'), weight: 1 },
)

function isGoodKey(key: string): boolean {
  return !key.includes('/') && key !== 'channel' && key !== 'publisher' && key !== 'subtopic'
}

const leaf: fc.Arbitrary<JsonValue> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n }),
  fc.string(),
)

/** Objects whose keys are defined, not assigned, including `__proto__`. */
function documents(key: fc.Arbitrary<string>): fc.Arbitrary<JsonObject> {
  const { object } = fc.letrec<{ value: JsonValue; object: JsonObject }>(tie => ({
    value: fc.oneof({ depthSize: 'small' }, leaf, tie('object'), fc.array(tie('value'), { maxLength: 4 })),
    object: fc.array(fc.tuple(key, tie('value')), { maxLength: 6 }).map(entries => Object.fromEntries(entries)),
  }))
  return object
}

/** The documented losses: nulls and empty objects are removed, arrays become text, integers become doubles. */
function afterLosses(document: JsonObject): JsonObject {
  const kept: [string, JsonValue][] = []
  for (const [key, value] of Object.entries(document)) {
    if (value === null) continue
    if (Array.isArray(value)) kept.push([key, textOf(value)])
    else if (typeof value === 'bigint') kept.push([key, Number(value)])
    else if (typeof value !== 'object') kept.push([key, value])
    else {
      const inside = afterLosses(value as JsonObject)
      if (Object.keys(inside).length > 0) kept.push([key, inside])
    }
  }
  return Object.fromEntries(kept)
}

function textOf(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(textOf).join(',')}]`
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, inside]) => `${JSON.stringify(key)}:${textOf(inside)}`)
    .join(',')}}`
}

test(`a document comes back without its nulls and empty objects, arrays as text, integers as doubles (seed ${seed})`, () => {
  fc.assert(
    fc.property(documents(goodKey), document => {
      const [found, expected] = [unflatten(flatten(document)), afterLosses(document)]
      expect(textOf(found)).toBe(textOf(expected))
      // The text is the same for 0 and -0, and for any prototype; and `toEqual` fails for a key `constructor`.
      expect(isDeepStrictEqual(found, expected)).toBe(true)
    }),
    parameters,
  )
})

test(`the unflattened document is flattened to the same fields (seed ${seed})`, () => {
  fc.assert(
    fc.property(documents(goodKey), document => {
      const fields = flatten(document)
      expect(flatten(unflatten(fields))).toStrictEqual(fields)
    }),
    parameters,
  )
})

test(`a document is refused with a DecodeError if and only if a key cannot be joined, and is not changed (seed ${seed})`, () => {
  const refused = (value: JsonValue, top: boolean): boolean =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.entries(value).some(([key, inside]) => key === '' || key.includes('/') || (top && !isGoodKey(key)) || refused(inside, false))
  let refusals = 0
  fc.assert(
    fc.property(documents(anyKey), document => {
      const before = textOf(document)
      const rule = ruleOf(() => flatten(document))
      expect(rule).toBe(refused(document, true) ? 'flatten-key' : 'none')
      expect(textOf(document)).toBe(before)
      if (rule !== 'none') refusals++
    }),
    parameters,
  )
  expect(refusals).toBeGreaterThan(parameters.numRuns / 20)
})

test(`any fields are unflattened without loss or refused with a DecodeError (seed ${seed})`, () => {
  const part = fc.constantFrom('a', 'b', '__proto__', 'constructor', '')
  const key = fc.oneof(
    fc.array(part, { minLength: 1, maxLength: 4 }).map(parts => parts.join('/')),
    fc.string(),
  )
  const value: fc.Arbitrary<FieldValue> = fc.oneof(fc.integer(), fc.string(), fc.boolean())
  let given = 0
  fc.assert(
    fc.property(fc.array(fc.tuple(key, value), { maxLength: 5 }), pairs => {
      const fields = { keys: pairs.map(([key]) => key), values: pairs.map(([, value]) => value) }
      const rule = ruleOf(() => unflatten(fields))
      if (rule !== 'none') expect(rule).toMatch(/^unflatten-(key|conflict)$/)
      else if (!fields.keys.some(key => !key.includes('/') && !isGoodKey(key))) {
        given++
        const again = flatten(unflatten(fields))
        const sorted = (keys: readonly string[], values: readonly FieldValue[]) =>
          keys.map((key, at) => JSON.stringify([key, values[at]])).sort()
        expect(sorted(again.keys, again.values)).toEqual(sorted(fields.keys, fields.values))
      }
    }),
    parameters,
  )
  expect(given).toBeGreaterThan(parameters.numRuns / 20)
})

function ruleOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (error instanceof DecodeError) return error.rule
    throw error
  }
  return 'none'
}
