// The bytes of a COPY, field by field. That PostgreSQL reads them as meant is shown by the conformance suite.

import { expect, test } from 'vitest'
import { encode } from '../../../sinks/postgres/encode.ts'
import { batchOf, noonUs, plainBatch, type TestMessage } from '../batches.ts'

function fieldsOf(bytes: Uint8Array): (string | null)[][] {
  const buffer = Buffer.from(bytes)
  expect(buffer.subarray(0, 19).toString('latin1')).toBe('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0')
  const rows: (string | null)[][] = []
  let at = 19
  for (let count = buffer.readInt16BE(at); count !== -1; count = buffer.readInt16BE(at)) {
    at += 2
    const row: (string | null)[] = []
    for (let field = 0; field < count; field++) {
      const length = buffer.readInt32BE(at)
      at += 4
      row.push(length === -1 ? null : buffer.toString('hex', at, at + length))
      at += Math.max(length, 0)
    }
    rows.push(row)
  }
  return rows
}

const hex = (text: string) => Buffer.from(text).toString('hex')
const int64 = (value: bigint) => BigInt.asUintN(64, value).toString(16).padStart(16, '0')
const tablesOf = (messages: TestMessage[], partition = 0) =>
  encode(batchOf(messages[0]!.offset, messages.at(-1)!.offset + 1, messages, partition), [127]).tables

test.each([noonUs, 0, -1, 946_684_800_000_000, 946_684_799_999_999, 946_684_800_000_000 + 2 ** 32, 4_102_444_800_000_001, -(2 ** 52)])(
  'the time %d µs is an int64 since 2000, exact',
  timeUs => {
    const [row] = fieldsOf(tablesOf([{ offset: 0, records: [{ value: 1, timeUs }] }])[0]!.bytes)
    expect(row?.[5]).toBe(int64(BigInt(timeUs) - 946_684_800_000_000n))
  },
)

test.each([
  [noonUs, 999],
  [0, 0],
  [-1, 1],
  [2 ** 53 - 1, 999],
  [-(2 ** 53) + 1, 0],
  [4_294_967_296, 0],
])('a time of %d µs and %d ns is an int64 of nanoseconds, exact', (createdUs, createdRestNs) => {
  const [row] = fieldsOf(tablesOf([{ offset: 0, documents: [{ format: 'f', payload: {}, createdUs, createdRestNs }] }])[0]!.bytes)
  expect(row?.[5]).toBe(int64(BigInt(createdUs) * 1000n + BigInt(createdRestNs)))
})

test('a position packs log, partition and offset, up to the largest of each', () => {
  const [row] = fieldsOf(tablesOf([{ offset: 2 ** 44 - 2, records: [{ value: 1 }] }], 4095)[0]!.bytes)
  expect(row?.[4]).toBe('7ffffffffffffffe')
})

test('rows of one message share their first fields, and the next message has its own', () => {
  const message = (offset: number, channel: string) => ({
    offset,
    channel,
    records: [
      { name: 'a', value: 1 },
      { name: 'b', value: 2 },
    ],
  })
  const rows = fieldsOf(tablesOf([message(0, 'ü-one'), message(1, 'two')])[0]!.bytes)
  expect(rows.map(row => [row[0], row[4], row[6], row[14]])).toEqual([
    [hex('ü-one'), '7f00000000000000', hex('a'), '00000000'],
    [hex('ü-one'), '7f00000000000000', hex('b'), '00000001'],
    [hex('two'), '7f00000000000001', hex('a'), '00000000'],
    [hex('two'), '7f00000000000001', hex('b'), '00000001'],
  ])
})

test('texts of every length and alphabet, while the buffer grows', () => {
  const texts = ['', 'x', 'a'.repeat(64), 'a'.repeat(65), `${'a'.repeat(63)}é`, 'é'.repeat(64), '😀'.repeat(40_000), 'z'.repeat(300_000)]
  const records = texts.map(stringValue => ({ name: stringValue, unit: stringValue, stringValue }))
  const rows = fieldsOf(tablesOf([{ offset: 0, records }])[0]!.bytes)
  expect(rows.map(row => [row[6], row[7], row[9]])).toEqual(texts.map(text => [hex(text), hex(text), hex(text)]))
})

test('a document is jsonb text with every digit of its integers', () => {
  const payload = JSON.parse('{"__proto__":{"toJSON":1},"b":[0.1,-0,1e21]}') as { [key: string]: number }
  const documents = [
    { format: 'f', payload },
    { format: 'f', payload: { id: [{ deep: -9_223_372_036_854_775_808n }], huge: 10n ** 30n } },
  ]
  const rows = fieldsOf(tablesOf([{ offset: 0, documents }])[0]!.bytes)
  expect(rows.map(row => row[6])).toEqual([
    `01${hex('{"__proto__":{"toJSON":1},"b":[0.1,0,1e+21]}')}`,
    `01${hex(`{"id":[{"deep":-9223372036854775808}],"huge":1${'0'.repeat(30)}}`)}`,
  ])
})

test('documents of every size, while the buffer grows', () => {
  const texts = ['', 'x'.repeat(900), 'é'.repeat(400), '😀'.repeat(50_000), 'z'.repeat(300_000)]
  const rows = fieldsOf(tablesOf([{ offset: 0, documents: texts.map(text => ({ format: 'f', payload: { text } })) }])[0]!.bytes)
  expect(rows.map(row => row[6])).toEqual(texts.map(text => `01${hex(JSON.stringify({ text }))}`))
})

test('each format has its own table, and a batch without rows has none', () => {
  const document = (offset: number, format: string) => ({ offset, documents: [{ format, payload: {} }] })
  const tables = tablesOf([document(0, 'a'), document(1, 'b'), { offset: 2, records: [{ value: 1 }] }, document(3, 'a'), { offset: 4 }])
  expect(tables.map(table => [table.format, table.rows, table.unitMessage])).toEqual([
    ['messages', 1, [2]],
    ['a', 2, [0, 3]],
    ['b', 1, [1]],
  ])
  expect(tablesOf([{ offset: 0 }])).toEqual([])
})

test('encoding is pure: the same batch gives the same bytes and is not changed', () => {
  const batch = plainBatch(0, 50)
  expect(encode(batch, [1])).toEqual(encode(batch, [1]))
})

test('a message with rows for two tables is an error of its transformer, since a refusal could not remove all of it', () => {
  const documents = [
    { format: 'engine', payload: { a: 1 } },
    { format: 'gearbox', payload: { a: 1 } },
  ]
  expect(() => tablesOf([{ offset: 0, documents }])).toThrow(/message 0 has rows for two tables/)
  expect(() => tablesOf([{ offset: 0, records: [{ value: 1 }], documents: documents.slice(1) }])).toThrow(/two tables/)
  expect(
    tablesOf([
      { offset: 0, documents: documents.slice(1) },
      { offset: 1, documents: documents.slice(0, 1) },
    ]),
  ).toHaveLength(2)
})
