// The text of a row, and the names of what differs between two.

import { expect, test } from 'vitest'
import { addDigests, differingColumns, digestOf, type RowColumns, storedPayload, textOf, withoutCreated } from '../../sinks/contents.ts'

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
