// What the store is asked for: the channel always, texts of strangers as values alone, and in the order that the indexes have.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { scalarText } from '../../../readers/matching.ts'
import {
  behind,
  type Conditions,
  conditionsOf,
  orderOf,
  payloadCondition,
  rowsWith,
  timeFieldOf,
  withNumber,
} from '../../../readers/mongodb/select.ts'
import type { Filter } from '../../../readers/reader.ts'
import { rowIdOf } from '../../../sinks/mongodb/bson.ts'
import { rowIndexes } from '../../../sinks/mongodb/registry.ts'
import { type Json, parsePayload } from '../../../transformers/json/canonical.ts'
import { jsonText } from '../../../transformers/json/json-text.ts'
import type { JsonValue } from '../../../transformers/record-batch.ts'
import { filterOf } from '../../conformance/reader/oracle.ts'

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const hostile = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '$where', '{"$ne":null}', '$gt', 'a.b', '\0', '__proto__', '_bsontype', 'x'.repeat(10_000)),
)
const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined })
const filters = fc
  .record({
    channel: hostile,
    format: fc.constantFrom('messages', 'weather'),
    publisher: optional(hostile),
    subtopic: optional(hostile),
    protocol: optional(hostile),
    fromNs: optional(int64),
    toNs: optional(int64),
    name: optional(hostile),
    unit: optional(hostile),
    value: optional(fc.record({ comparator: fc.constantFrom('eq', 'lt', 'le', 'gt', 'ge'), number: fc.double({ noNaN: true }) })),
    boolValue: optional(fc.boolean()),
    stringValue: optional(hostile),
    dataValue: optional(fc.uint8Array()),
    payload: fc.array(fc.record({ path: fc.array(hostile, { minLength: 1, maxLength: 3 }), text: hostile }), { maxLength: 2 }),
  })
  .map(some => filterOf(some as Filter))

/** Names and operators, and how many of each; what they are given is taken out. Of a payload's path the keys are names. */
function shapeOf(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(shapeOf)
  if (typeof part !== 'object' || part === null || part instanceof Uint8Array) return '?'
  return Object.entries(part).map(([name, inside]) => [name, name === '$in' ? '?' : shapeOf(inside)])
}

/** The same filters with harmless texts; whether a unit is empty is another query. */
function harmless(filter: Filter): Filter {
  const plain = (text: string | undefined): string | undefined => (text === undefined ? undefined : 'plain')
  const { publisher, subtopic, protocol, name, unit, stringValue, payload } = filter
  return {
    ...filter,
    channel: 'plain',
    publisher: plain(publisher),
    subtopic: plain(subtopic),
    protocol: plain(protocol),
    name: plain(name),
    unit: unit === '' ? '' : plain(unit),
    stringValue: plain(stringValue),
    dataValue: filter.dataValue === undefined ? undefined : new Uint8Array(1),
    payload: payload.map(({ path, text }) => ({ path, text: text === 'null' ? text : 'plain' })),
  }
}

const key = fc.record({ timeNs: int64, position: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), index: fc.nat() })

test("untrusted text does not change the query's shape, and every query contains the channel", () => {
  fc.assert(
    fc.property(filters, optional(key), fc.constantFrom('asc', 'desc'), (filter, after, direction) => {
      const conditions = conditionsOf(filter)
      if (conditions === undefined) return
      const time = timeFieldOf(filter.format)
      for (const of of [(one: Conditions) => one, withNumber, (one: Conditions) => behind(one, after, direction, time)]) {
        expect(of(conditions)).toMatchObject({ channel: { $eq: filter.channel } })
        expect(shapeOf(of(conditions))).toEqual(shapeOf(of(conditionsOf(harmless(filter))!)))
      }
      expect(rowsWith(filter.channel, [])['channel']).toEqual({ $eq: filter.channel })
    }),
  )
})

test('a key of a payload becomes part of a name only if it cannot mean anything else', () => {
  fc.assert(
    fc.property(fc.array(hostile, { minLength: 1, maxLength: 3 }), path => {
      const [name] = Object.keys(payloadCondition({ path, text: 'x' }) ?? {})
      if (name !== undefined) expect(name.split('.')).toEqual(['payload', ...path])
      expect(name ?? '').not.toMatch(/\.\$|\0|\s/)
    }),
  )
  for (const odd of ['$where', 'a.b', '', ' a', 'a ', 'a\0', '\u0085', '\u00a0a', '\n']) {
    expect(payloadCondition({ path: ['a', odd], text: 'x' }), odd).toBeUndefined()
  }
  expect(payloadCondition({ path: ['a/b', '__proto__', '10', 'cost$', '温度'], text: 'x' })).toEqual({
    'payload.a/b.__proto__.10.cost$.温度': { $in: ['x'] },
  })
})

test('half a surrogate pair is in no row, although the driver would query another character', () => {
  for (const some of [{ channel: '\ud800' }, { name: 'a\udc00' }, { payload: [{ path: ['\ud800'], text: 'x' }] }]) {
    expect(conditionsOf(filterOf({ channel: 'c', ...some }))).toBeUndefined()
  }
})

describe('times', () => {
  const times = (some: Partial<Filter>): unknown => conditionsOf(filterOf({ channel: 'c', ...some }))?.['timeUs']

  test('bounds of records are the next whole microsecond, before 1970 and after', () => {
    expect(times({ fromNs: 1_001n, toNs: 2_000n })).toEqual({ $gte: 2n, $lt: 2n })
    expect(times({ fromNs: -1_999n, toNs: -1n })).toEqual({ $gte: -1n, $lt: 0n })
  })

  test('bounds beyond all possible rows are ignored, or match nothing', () => {
    const beyond = 2n ** 63n
    const nanoseconds = (some: Partial<Filter>): unknown => conditionsOf(filterOf({ channel: 'c', format: 'weather', ...some }))
    expect(nanoseconds({ fromNs: -beyond, toNs: beyond })).toEqual({ channel: { $eq: 'c' } })
    expect(nanoseconds({ fromNs: beyond })).toBeUndefined()
    expect(nanoseconds({ toNs: -beyond })).toBeUndefined()
    expect(nanoseconds({ fromNs: beyond - 1n })).toEqual({ channel: { $eq: 'c' }, created: { $gte: beyond - 1n } })
  })

  test('after a key the narrower time bound is used, in both directions', () => {
    const after = { timeNs: 5_000n, position: 1n, index: 2 }
    const from = (us: bigint): Conditions => conditionsOf(filterOf({ channel: 'c', fromNs: us * 1000n, toNs: 9_000n }))!
    expect(behind(from(7n), after, 'asc', 'timeUs')['timeUs']).toEqual({ $gte: 7n, $lt: 9n })
    expect(behind(from(3n), after, 'asc', 'timeUs')['timeUs']).toEqual({ $gte: 5n, $lt: 9n })
    expect(behind(from(3n), after, 'desc', 'timeUs')['timeUs']).toEqual({ $gte: 3n, $lt: 9n, $lte: 5n })
    expect(behind(from(3n), undefined, 'desc', 'timeUs')).toEqual(from(3n))
  })

  test('with the time of a key, rows up to the key are left out, in both directions', () => {
    const after = { timeNs: 5_000n, position: 1n, index: 2 }
    const conditions = conditionsOf(filterOf({ channel: 'c' }))!
    const passed = (operator: string): unknown => [{ timeUs: { $eq: 5n }, _id: { [operator]: rowIdOf(1n, 2) } }]
    expect(behind(conditions, after, 'desc', 'timeUs')['$nor']).toEqual(passed('$gte'))
    expect(behind(conditions, after, 'asc', 'timeUs')['$nor']).toEqual(passed('$lte'))
  })
})

test.each(['messages', 'weather'])('pages of %s are in the order of an index, after the conditions on its first fields', format => {
  const time = timeFieldOf(format)
  const [channelIndex, publisherIndex] = rowIndexes(time).map(({ key }) => key)
  const keyOf = (some: Partial<Filter>): unknown => {
    const conditions = conditionsOf(filterOf({ channel: 'c', format, ...some }))!
    return { ...Object.fromEntries(Object.keys(conditions).map(name => [name, 1])), ...orderOf('desc', time) }
  }
  expect(keyOf({})).toEqual(channelIndex)
  expect(keyOf({ publisher: 'p' })).toEqual(publisherIndex)
  const reversed = Object.fromEntries(Object.entries(orderOf('desc', time)).map(([name, sign]) => [name, -sign]))
  expect(orderOf('asc', time)).toEqual(reversed)
})

test('the condition for a payload never excludes a row with the text', () => {
  const scalar: fc.Arbitrary<JsonValue> = fc.oneof(
    fc.boolean(),
    fc.string({ unit: 'binary' }).filter(text => text.isWellFormed()),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(Math.round),
    fc.integer(),
    int64,
    fc.constantFrom<JsonValue[]>(1e17 + 16, Number('123456789012345678'), -(2 ** 63), 2 ** 63, 1e21, 1e-7, 0, -0),
  )
  fc.assert(
    fc.property(scalar, value => {
      const parsed = parsePayload(jsonText({ value })) as { value: Json }
      const text = scalarText(parsed.value)!
      const condition = payloadCondition({ path: ['value'], text })
      if (text === 'null') return expect(condition).toBeUndefined()
      const { $in: scalars } = condition!['payload.value'] as { $in: unknown[] }
      // Both servers compare numbers by their exact values.
      const exact = (one: unknown): unknown => (typeof one === 'number' && Number.isInteger(one) ? BigInt(one) : one)
      const same = (one: unknown): boolean => exact(one) === exact(value)
      expect(scalars.some(same), `${text} among ${String(scalars)}`).toBe(true)
    }),
    { numRuns: 1000 },
  )
})
