// The request that a query string asks, and what is wrong with it.

import { describe, expect, test } from 'vitest'
import { HttpError } from '../../../http/errors.ts'
import type { QueryString } from '../../../readers/request/query-schema.ts'
import { timestampPattern } from '../../../readers/request/time-range.ts'
import { canonicalRequest, requestOf } from '../../../readers/request.ts'

const channel = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a10'
const limitMax = 1000

/** As the check leaves them: texts, and the offset as a number. */
function request(parameters: Record<string, unknown> = {}, publisher?: string) {
  return requestOf(parameters as QueryString, [channel], publisher, limitMax)
}

function faults(parameters: Record<string, unknown>): string[] {
  try {
    request(parameters)
  } catch (error) {
    expect(error).toBeInstanceOf(HttpError)
    return (error as HttpError).faults.map(({ pointer, detail }) => `${pointer} ${detail}`)
  }
  return []
}

test('the default is the ten newest', () => {
  expect(request().request).toMatchObject({
    kind: 'page',
    limit: 10,
    offset: 0,
    direction: 'desc',
    count: 'bounded',
    filter: { channel, format: 'messages' },
  })
  expect(request().isEmpty).toBe(false)
})

test('an offset of -0 is 0', () => {
  expect(Object.is(request({ offset: -0 }).request.offset, 0)).toBe(true)
})

test('empty, zero and false values filter', () => {
  const { filter } = request({ v: '0', vb: 'false', vs: '', vd: '', unit: '', subtopic: '', from: '-0.5', to: '0' }).request
  expect(filter).toMatchObject({
    value: { comparator: 'eq', number: 0 },
    boolValue: false,
    stringValue: '',
    dataValue: Buffer.alloc(0),
    unit: '',
    subtopic: '',
    fromNs: -500_000_000n,
    toNs: 0n,
  })
})

test.each([
  ['1600000000', 1_600_000_000_000_000_000n],
  ['1600000000.5', 1_600_000_000_500_000_000n],
  ['1600000000.000000001', 1_600_000_000_000_000_001n],
  ['-1.25', -1_250_000_000n],
  ['2020-09-13T12:26:40Z', 1_600_000_000_000_000_000n],
  ['2020-09-13t12:26:40.000000001z', 1_600_000_000_000_000_001n],
  ['2020-09-13 14:26:40.5+02:00', 1_600_000_000_500_000_000n],
  // A + as a query's decoding leaves it.
  ['2020-09-13T14:26:40.5 02:00', 1_600_000_000_500_000_000n],
  ['2020-09-13T08:56:40-03:30', 1_600_000_000_000_000_000n],
  ['1969-12-31T23:59:59.999999999Z', -1n],
  ['2024-02-29T00:00:00-00:00', 1_709_164_800_000_000_000n],
])('a time has every digit: %s', (text, ns) => {
  expect(text).toMatch(new RegExp(timestampPattern))
  expect(request({ from: text }).request.filter.fromNs).toBe(ns)
})

test('fields of a payload are named by their dotted path', () => {
  const escaped = String.raw`payload.a\\.1-0:1\.8\.0`
  const { filter } = request({ format: 'engine', 'payload.d.tmp': '21.5', [escaped]: '5', 'payload.__proto__': '' }).request
  expect(filter.payload).toEqual([
    { path: ['d', 'tmp'], text: '21.5' },
    { path: ['a\\', '1-0:1.8.0'], text: '5' },
    { path: ['__proto__'], text: '' },
  ])
})

test("a thing reads its own, and gets nothing if it requests another's", () => {
  expect(request({}, 'thing-1')).toMatchObject({ isEmpty: false, request: { filter: { publisher: 'thing-1' } } })
  expect(request({ publisher: 'thing-1' }, 'thing-1').isEmpty).toBe(false)
  expect(request({ publisher: 'thing-2' }, 'thing-1')).toMatchObject({ isEmpty: true, request: { filter: { publisher: 'thing-1' } } })
  expect(request({ publisher: '' }, 'thing-1').isEmpty).toBe(true)
  const thing = '9b2d1c64-7a0e-4f3b-8c5d-2e6f4a1b7d90'
  expect(request({ publisher: thing.toUpperCase() })).toMatchObject({ request: { filter: { publisher: thing } } })
  expect(request({ publisher: thing.toUpperCase() }, thing).isEmpty).toBe(false)
  expect(request({ publisher: 'Thing-2' })).toMatchObject({ request: { filter: { publisher: 'Thing-2' } } })
  expect(request({ publisher: 'thing-2' })).toMatchObject({ isEmpty: false, request: { filter: { publisher: 'thing-2' } } })
})

test.each([
  ['10s', 10_000_000],
  ['5m', 300_000_000],
  ['1h', 3_600_000_000],
  ['1d', 86_400_000_000],
])('an interval of %s', (interval, intervalUs) => {
  expect(request({ aggregation: 'avg', interval }).request).toMatchObject({
    kind: 'aggregate',
    aggregation: 'avg',
    intervalUs,
    limit: 10,
  })
})

describe('an error names its parameter and says what to do', () => {
  test.each<[Record<string, unknown>, RegExp[]]>([
    [{ limit: '1001' }, [/^\/query\/limit .*from 1 to 1000, or all/]],
    [{ format: 'engine', name: 'a', v: '1' }, [/^\/query\/name is for SenML records/, /^\/query\/v is for SenML records/]],
    [{ 'payload.a': '1' }, [/^\/query\/payload\.a is for JSON documents/]],
    [{ format: 'engine', 'payload.a..b': '1' }, [/^\/query\/payload\.a\.\.b is not the path of a field/]],
    [{ format: 'engine', 'payload.a\\b': '1', 'payload.a\\': '1' }, [/^\/query\/payload\.a\\b is not/, /^\/query\/payload\.a\\ is not/]],
    [{ format: 'engine', [`payload.${'a.'.repeat(64)}b`]: '' }, [/^\/query\/payload\.a\..* is deeper than the 64 levels of a payload/]],
    [
      { format: 'engine', ...Object.fromEntries(Array.from({ length: 33 }, (_, nth) => [`payload.f${nth}`, ''])) },
      [/^\/query\/payload\.f32 exceeds the limit of 32 payload fields/],
    ],
    [{ format: 'engine', 'payload.a/b..': '1' }, [/^\/query\/payload\.a~1b\.\. is not the path/]],
    [{ limit: 'all', count: 'exact' }, [/^\/query\/count cannot be combined with limit=all/]],
    [{ comparator: 'gt' }, [/^\/query\/comparator needs v, which is missing/]],
    [{ v: '1e999' }, [/^\/query\/v is beyond the range of a double/]],
    [{ vd: 'A' }, [/^\/query\/vd is incomplete/]],
    [{ vd: 'AB' }, [/^\/query\/vd is incomplete/]],
    [{ from: '2', to: '1' }, [/^\/query\/from is after to/]],
    [{ from: '2026-02-29T00:00:00Z', to: '2026-04-31T00:00:00Z' }, [/^\/query\/from has a day/, /^\/query\/to has a day/]],
    [{ cursor: 'x', offset: 1 }, [/^\/query\/offset cannot be combined with cursor/]],
    [{ aggregation: 'avg' }, [/^\/query\/interval is missing/]],
    [{ interval: '1h' }, [/^\/query\/interval needs aggregation/]],
    [{ aggregation: 'avg', interval: '367d' }, [/^\/query\/interval is longer than 366 days/]],
    [{ aggregation: 'avg', interval: '1h', format: 'engine' }, [/^\/query\/aggregation is for SenML/]],
    [{ field: 'payload.a', format: 'engine' }, [/^\/query\/field needs aggregation/]],
    [{ aggregation: 'avg', interval: '1h', field: 'payload.a' }, [/^\/query\/field is for JSON documents/]],
    ...['payload', 'payload.', 'a', 'Payload.a', 'payload.a..b', String.raw`payload.a\b`, ''].map(
      (field): [Record<string, unknown>, RegExp[]] => [
        { aggregation: 'avg', interval: '1h', format: 'engine', field },
        [/^\/query\/field is not the path of a field: give payload\. and/],
      ],
    ),
    [{ aggregation: 'avg', interval: '1h', cursor: 'x' }, [/^\/query\/cursor cannot be combined with aggregation/]],
    [{ aggregation: 'avg', interval: '1h', latest: 'true' }, [/^\/query\/latest cannot be combined with aggregation/]],
    [{ limit: 'all', latest: 'true' }, [/^\/query\/limit can be all only for records/]],
  ])('%j', (parameters, expected) => {
    expect(faults(parameters)).toEqual(expected.map(pattern => expect.stringMatching(pattern) as string))
  })
})

test('only as many errors are listed as a person reads', () => {
  expect(faults(Object.fromEntries(Array.from({ length: 500 }, (_, nth) => [`payload.f${nth}`, ''])))).toHaveLength(20)
})

test('64 nested keys are as many as a payload can have', () => {
  expect(request({ format: 'engine', [`payload.${'a.'.repeat(63)}b`]: '' }).request.filter.payload[0]?.path).toHaveLength(64)
})

test.each<[parameters: Record<string, string>, expected: Record<string, unknown>]>([
  [{ from: '999999999999' }, { isEmpty: true }],
  [{ from: '9223372036.854775807' }, { isEmpty: false, fromNs: 2n ** 63n - 1n, toNs: undefined }],
  [{ from: '9223372036.854775808' }, { isEmpty: true }],
  [{ from: '-999999999999' }, { isEmpty: false, fromNs: undefined, toNs: undefined }],
  [{ to: '999999999999' }, { isEmpty: false, fromNs: undefined, toNs: undefined }],
  [{ to: '9223372036.854775807' }, { isEmpty: false, fromNs: undefined, toNs: 2n ** 63n - 1n }],
  [{ to: '-999999999999' }, { isEmpty: true }],
  [{ to: '-9223372036.854775807' }, { isEmpty: false, fromNs: undefined, toNs: -(2n ** 63n) + 1n }],
  [
    { from: '-999999999999', to: '999999999999' },
    { isEmpty: false, fromNs: undefined, toNs: undefined },
  ],
])('bounds beyond every stored time are ignored, or match nothing: %j', (parameters, { isEmpty, ...bounds }: Record<string, unknown>) => {
  const found = request(parameters)
  expect(found.isEmpty).toBe(isEmpty)
  if (isEmpty === false) expect(found.request.filter).toMatchObject(bounds)
})

test('the same time twice matches nothing, and is not an error', () => {
  expect(request({ from: '1', to: '1' }).isEmpty).toBe(true)
})

test('the canonical form of a request differs if the rows or their order differ', () => {
  const forms = [
    request(),
    request({ dir: 'asc' }),
    request({ latest: 'true' }),
    request({}, 'thing-1'),
    request({ unit: '' }),
    request({ name: '' }),
    request({ vs: '' }),
    request({ vd: '' }),
    request({ v: '0' }),
    request({ v: '0', comparator: 'gt' }),
    request({ vb: 'false' }),
    request({ from: '0' }),
    request({ to: '0' }),
    request({ format: 'engine' }),
    request({ format: 'engine', 'payload.a': 'b' }),
    request({ format: 'engine', 'payload.a.b': '' }),
  ].map(({ request }) => canonicalRequest(request))
  expect(new Set(forms).size).toBe(forms.length)
  expect(canonicalRequest(request({ limit: '5', count: 'none' }).request)).toBe(forms[0])
  expect(canonicalRequest(request({ limit: 'all' }).request)).toBe(forms[0])
})

test.each<[one: Record<string, string>, other: Record<string, string>]>([
  [{ subtopic: 'bedroom/temperature' }, { subtopic: 'bedroom.temperature' }],
  [{ from: '2020-09-13T12:26:40Z' }, { from: '1600000000' }],
])('%j and %j are one request, also for a cursor', (one, other) => {
  expect(request(one)).toEqual(request(other))
  expect(canonicalRequest(request(one).request)).toBe(canonicalRequest(request(other).request))
})
