// The text of a row, and the names of what differs between two.

import { expect, test } from 'vitest'
import {
  addDigests,
  differingColumns,
  digestOf,
  ForeignRowError,
  type RowColumns,
  rowOf,
  storedPayload,
  textOf,
  textsOf,
  withoutCreated,
  withoutDigest,
  withPayload,
} from '../../sinks/contents.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { everyValue } from '../conformance/sink/fixture.ts'
import { append, batchOf } from './batches.ts'

const record: RowColumns = { index: 0, channel: 'c', subtopic: 's', publisher: 'p', protocol: 'http', name: 'n', time: 5, value: 1 }

test.each<[what: string, one: RowColumns, other: RowColumns, columns: string[]]>([
  ['a text and none', { unit: '' }, { unit: undefined }, ['unit']],
  ['a text and a number', { value: '1' }, { value: 1 }, ['value']],
  ['a text and a boolean', { bool_value: 'true' }, { bool_value: true }, ['bool_value']],
  ['no bytes and none', { data_value: new Uint8Array() }, { data_value: undefined }, ['data_value']],
  ['bytes and a boolean', { data_value: Buffer.from('true', 'base64url') }, { data_value: true }, ['data_value']],
  ['a text and NULL', { channel: '' }, { channel: null }, ['channel']],
  ['doubles next to each other', { value: 0.1 + 0.2 }, { value: 0.3 }, ['value']],
  [
    'two neighbours that together are the same',
    { channel: 'ab', subtopic: 'c' },
    { channel: 'a', subtopic: 'bc' },
    ['channel', 'subtopic'],
  ],
])('%s differ', (_what, one, other, columns) => {
  expect(differingColumns(textOf('messages', { ...record, ...one }), textOf('messages', { ...record, ...other }))).toEqual(columns)
})

test.each<[what: string, one: RowColumns, other: RowColumns]>([
  ['null and undefined', { unit: null }, {}],
  ['an integer as number and as bigint', { time: 5n }, { time: 5 }],
  ['0 and -0', { value: 0 }, { value: -0 }],
  ['bytes, wherever they are', { data_value: Buffer.from('xab').subarray(1) }, { data_value: Uint8Array.from([0x61, 0x62]) }],
])('%s are the same', (_what, one, other) => {
  expect(textOf('messages', { ...record, ...one })).toBe(textOf('messages', { ...record, ...other }))
})

test('a document and a record, and documents of two formats, differ in their format', () => {
  const document = { ...record, created: 7n, payload: '{}' }
  expect(differingColumns(textOf('messages', record), textOf('engine', { ...document, channel: 'd' }))).toEqual(['format', 'channel'])
  expect(differingColumns(textOf('engine', document), textOf('gearbox', document))).toEqual(['format'])
})

test('the time of receipt, and no other column, is left out of what a sender knows of a row', () => {
  const document = { ...record, created: 7n, payload: '{}' }
  const known = (format: string, row: RowColumns): string => withoutCreated(textOf(format, row))
  expect(known('engine', document)).toBe(known('engine', { ...document, created: 8n }))
  for (const other of [{ index: 1 }, { channel: 'd' }, { subtopic: 't' }, { publisher: 'q' }, { protocol: 'mqtt' }, { payload: '{"a":1}' }])
    expect(known('engine', { ...document, ...other })).not.toBe(known('engine', document))
  expect(known('messages', record)).toBe(textOf('messages', record))
})

test('payloads are compared by their content, and one that is not JSON differs from all', () => {
  expect(storedPayload('{"b": 1.0, "a": [1e2]}')).toBe('{"a":[100],"b":1}')
  expect(storedPayload('{"a"')).toBe('not JSON: {"a"')
  expect(storedPayload('['.repeat(100_000) + ']'.repeat(100_000))).toMatch(/^not JSON: \[/)
})

test('a row that is read from its text is the row that was written', () => {
  const payload = { a: [1, { b: null }], big: 9_007_199_254_740_993n, tiny: 1e-7, __proto__: 1, '': '' }
  const documents = [998, 999].map(createdRestNs => ({ format: 'engine', payload, createdUs: -1, createdRestNs }))
  const records = Object.values(everyValue).sort(
    (one, other) => ('timeUs' in one ? one.timeUs : 0) - ('timeUs' in other ? other.timeUs : 0),
  )
  const written = batchOf(0, 2, [
    { offset: 0, channel: '', subtopic: '', publisher: '="#', records },
    { offset: 1, documents },
  ])
  const read = new RecordBatch()
  append(read, { offset: 0, channel: '', subtopic: '', publisher: '="#' })
  const texts = [...textsOf(written, 0, 0)]
  for (const text of texts.filter(text => text.startsWith('messages\0'))) rowOf(text).append(read)
  append(read, { offset: 1 })
  for (const text of texts.filter(text => text.startsWith('engine\0'))) rowOf(text).append(read)
  expect([...textsOf(read, 0, 0)]).toEqual(texts)
  expect(texts).toHaveLength(records.length + 2)
})

test.each<[column: string, format: string, changed: RowColumns]>([
  ['index', 'messages', { index: 0.5 }],
  ['channel', 'messages', { channel: null }],
  ['channel', 'messages', { channel: 7 }],
  ['index', 'messages', { channel: 'a\0b' }],
  ['name', 'messages', { name: null }],
  ['unit', 'messages', { unit: 5 }],
  ['time', 'messages', { time: null }],
  ['time', 'messages', { time: '5, but the date 6' }],
  ['value', 'messages', { value: Number.POSITIVE_INFINITY }],
  ['value', 'messages', { value: Symbol('BSON type 3') }],
  ['string_value', 'messages', { string_value: 'a' }],
  ['bool_value', 'messages', { value: null, bool_value: 1 }],
  ['data_value', 'messages', { value: null, data_value: 'a' }],
  ['sum', 'messages', { sum: Number.NaN }],
  ['created', 'engine', { created: '7, but the date 8' }],
  ['payload', 'engine', { payload: 'not JSON: {' }],
  ['payload', 'engine', { payload: '[1]' }],
  ['payload', 'engine', { payload: 7 }],
])('a text whose %s no sink has written in %s is no row', (column, format, changed) => {
  const row = { ...record, created: 7n, payload: '{}', ...changed }
  expect(() => rowOf(textOf(format, row))).toThrow(new ForeignRowError(column))
})

test('only the text of a document gets another payload', () => {
  const document = { ...record, created: 7n, payload: '{"a":"="}' }
  expect(withPayload(textOf('engine', document), () => ({ b: 1 }))).toBe(textOf('engine', { ...document, payload: '{"b":1}' }))
  expect(withPayload(textOf('engine', document), () => undefined)).toBeUndefined()
  expect(withPayload(textOf('messages', record), () => undefined)).toBe(textOf('messages', record))
})

test('a digest is taken out of a sum again, also the largest', () => {
  const digests = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map(digestOf)
  for (const digest of digests)
    expect(withoutDigest(digests.reduce(addDigests), digest)).toBe(digests.filter(one => one !== digest).reduce(addDigests))
})

test('the digest of rows depends on each, and not on their order', () => {
  const [a, b, c] = ['a', 'b', 'c'].map(digestOf) as [number, number, number]
  const sums = [
    [a, b, c],
    [c, a, b],
    [a, a, b],
    [a, b],
  ].map(some => some.reduce(addDigests))
  expect(sums[0]).toBe(sums[1])
  expect(new Set(sums).size).toBe(3)
  for (const sum of sums) expect(Number.isSafeInteger(sum) && sum < 2 ** 52).toBe(true)
})
