// The question that a query string asks, and what is wrong with it.

import { describe, expect, test } from 'vitest'
import { HttpError } from '../../config/http/errors.ts'
import { instantPattern } from '../../readers/instants.ts'
import type { Parameters } from '../../readers/parameters.ts'
import { canonicalQuestion, questionOf } from '../../readers/question.ts'

const channel = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a10'
const limitMax = 1000

/** As the check leaves them: texts, and the offset as a number. */
function question(parameters: Record<string, unknown> = {}, publisher?: string) {
  return questionOf(parameters as Parameters, channel, publisher, limitMax)
}

function faults(parameters: Record<string, unknown>): string[] {
  try {
    question(parameters)
  } catch (error) {
    expect(error).toBeInstanceOf(HttpError)
    return (error as HttpError).faults.map(({ pointer, detail }) => `${pointer} ${detail}`)
  }
  return []
}

test('without parameters the ten newest are meant', () => {
  expect(question().question).toMatchObject({
    kind: 'page',
    limit: 10,
    offset: 0,
    direction: 'desc',
    count: 'bounded',
    selection: { channel, format: 'messages' },
  })
  expect(question().isEmpty).toBe(false)
})

test('an offset of -0 is none', () => {
  expect(Object.is(question({ offset: -0 }).question.offset, 0)).toBe(true)
})

test('what is empty, zero or false filters', () => {
  const { selection } = question({ v: '0', vb: 'false', vs: '', vd: '', unit: '', subtopic: '', from: '-0.5', to: '0' }).question
  expect(selection).toMatchObject({
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
])('an instant has every digit: %s', (text, ns) => {
  expect(text).toMatch(new RegExp(instantPattern))
  expect(question({ from: text }).question.selection.fromNs).toBe(ns)
})

test('fields of a payload are told by their dotted path', () => {
  const { selection } = question({ format: 'engine', 'payload.d.tmp': '21.5', 'payload.__proto__': '' }).question
  expect(selection.payload).toEqual([
    { path: ['d', 'tmp'], text: '21.5' },
    { path: ['__proto__'], text: '' },
  ])
})

test('a thing reads its own, and nothing where it asks for another', () => {
  expect(question({}, 'thing-1')).toMatchObject({ isEmpty: false, question: { selection: { publisher: 'thing-1' } } })
  expect(question({ publisher: 'thing-1' }, 'thing-1').isEmpty).toBe(false)
  expect(question({ publisher: 'thing-2' }, 'thing-1')).toMatchObject({ isEmpty: true, question: { selection: { publisher: 'thing-1' } } })
  expect(question({ publisher: '' }, 'thing-1').isEmpty).toBe(true)
  expect(question({ publisher: 'thing-2' })).toMatchObject({ isEmpty: false, question: { selection: { publisher: 'thing-2' } } })
})

test.each([
  ['10s', 10_000_000],
  ['5m', 300_000_000],
  ['1h', 3_600_000_000],
  ['1d', 86_400_000_000],
])('an interval of %s', (interval, intervalUs) => {
  expect(question({ aggregation: 'avg', interval }).question).toMatchObject({
    kind: 'aggregate',
    aggregation: 'avg',
    intervalUs,
    limit: 10,
  })
})

describe('a fault names its parameter and says what to do', () => {
  test.each<[Record<string, unknown>, RegExp[]]>([
    [{ limit: '1001' }, [/^\/query\/limit .*from 1 to 1000, or all/]],
    [{ format: 'engine', name: 'a', v: '1' }, [/^\/query\/name is of SenML records/, /^\/query\/v is of SenML records/]],
    [{ 'payload.a': '1' }, [/^\/query\/payload\.a is of JSON documents/]],
    [{ format: 'engine', 'payload.a..b': '1' }, [/^\/query\/payload\.a\.\.b has an empty key/]],
    [
      { format: 'engine', [`payload.${'a.'.repeat(64)}b`]: '' },
      [/^\/query\/payload\.a\..* goes deeper than the 64 levels that a payload may have/],
    ],
    [
      { format: 'engine', ...Object.fromEntries(Array.from({ length: 33 }, (_, nth) => [`payload.f${nth}`, ''])) },
      [/^\/query\/payload\.f32 is one of more than 32 fields/],
    ],
    [{ format: 'engine', 'payload.a/b..': '1' }, [/^\/query\/payload\.a~1b\.\. has an empty key/]],
    [{ limit: 'all', count: 'exact' }, [/^\/query\/count does not go with limit=all/]],
    [{ comparator: 'gt' }, [/^\/query\/comparator compares v, which is missing/]],
    [{ v: '1e999' }, [/^\/query\/v is beyond the range of a double/]],
    [{ vd: 'A' }, [/^\/query\/vd is not whole/]],
    [{ vd: 'AB' }, [/^\/query\/vd is not whole/]],
    [{ from: '2', to: '1' }, [/^\/query\/from is after to/]],
    [{ from: '2026-02-29T00:00:00Z', to: '2026-04-31T00:00:00Z' }, [/^\/query\/from names a day/, /^\/query\/to names a day/]],
    [{ cursor: 'x', offset: 1 }, [/^\/query\/offset does not go with cursor/]],
    [{ aggregation: 'avg' }, [/^\/query\/interval is missing/]],
    [{ interval: '1h' }, [/^\/query\/interval is of an aggregation/]],
    [{ aggregation: 'avg', interval: '367d' }, [/^\/query\/interval is longer than 366 days/]],
    [{ aggregation: 'avg', interval: '1h', format: 'engine' }, [/^\/query\/aggregation is of SenML/]],
    [{ aggregation: 'avg', interval: '1h', cursor: 'x' }, [/^\/query\/cursor does not go with aggregation/]],
    [{ aggregation: 'avg', interval: '1h', latest: 'true' }, [/^\/query\/latest does not go with aggregation/]],
    [{ limit: 'all', latest: 'true' }, [/^\/query\/limit can be all for records alone/]],
  ])('%j', (parameters, expected) => {
    expect(faults(parameters)).toEqual(expected.map(pattern => expect.stringMatching(pattern) as string))
  })
})

test('no more faults are told than a person reads', () => {
  expect(faults(Object.fromEntries(Array.from({ length: 500 }, (_, nth) => [`payload.f${nth}`, ''])))).toHaveLength(20)
})

test('64 keys, one below the other, are as many as a payload has', () => {
  expect(question({ format: 'engine', [`payload.${'a.'.repeat(63)}b`]: '' }).question.selection.payload[0]?.path).toHaveLength(64)
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
])(
  'bounds beyond every instant that is stored are none, or leave nothing: %j',
  (parameters, { isEmpty, ...bounds }: Record<string, unknown>) => {
    const found = question(parameters)
    expect(found.isEmpty).toBe(isEmpty)
    if (isEmpty === false) expect(found.question.selection).toMatchObject(bounds)
  },
)

test('the same instant twice is nothing, and no fault', () => {
  expect(question({ from: '1', to: '1' }).isEmpty).toBe(true)
})

test('the canonical form of a question tells apart whatever has other rows or another order', () => {
  const forms = [
    question(),
    question({ dir: 'asc' }),
    question({ latest: 'true' }),
    question({}, 'thing-1'),
    question({ unit: '' }),
    question({ name: '' }),
    question({ vs: '' }),
    question({ vd: '' }),
    question({ v: '0' }),
    question({ v: '0', comparator: 'gt' }),
    question({ vb: 'false' }),
    question({ from: '0' }),
    question({ to: '0' }),
    question({ format: 'engine' }),
    question({ format: 'engine', 'payload.a': 'b' }),
    question({ format: 'engine', 'payload.a.b': '' }),
  ].map(({ question }) => canonicalQuestion(question))
  expect(new Set(forms).size).toBe(forms.length)
  expect(canonicalQuestion(question({ limit: '5', count: 'none' }).question)).toBe(forms[0])
  expect(canonicalQuestion(question({ limit: 'all' }).question)).toBe(forms[0])
})

test.each<[one: Record<string, string>, other: Record<string, string>]>([
  [{ subtopic: 'bedroom/temperature' }, { subtopic: 'bedroom.temperature' }],
  [{ from: '2020-09-13T12:26:40Z' }, { from: '1600000000' }],
])('%j and %j are one question, also for a cursor', (one, other) => {
  expect(question(one)).toEqual(question(other))
  expect(canonicalQuestion(question(one).question)).toBe(canonicalQuestion(question(other).question))
})
