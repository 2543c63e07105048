// How rows are grouped, and what is left out of them or refused. What all sinks have in common stands in encoded-records.test.ts.

import { types } from 'cassandra-driver'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openDayRegistry } from '../../../sinks/cassandra/day-registry.ts'
import { type EncodedRow, type Encoding, encode } from '../../../sinks/cassandra/encode.ts'
import { insertStatement } from '../../../sinks/cassandra/schema.ts'
import { batchOf, plain, plainBatch, type TestMessage, type TestRecord } from '../batches.ts'

const encoding = (some: Partial<Encoding> = {}): Encoding => ({
  logNumbers: [127],
  bucketDays: 1,
  dayRegistry: openDayRegistry(),
  insert: format => insertStatement('k', format),
  unset: types.unset,
  rowBytesMax: 8_388_608,
  ...some,
})
const encoded = (messages: TestMessage[], some: Partial<Encoding> = {}) =>
  encode(batchOf(messages[0]!.offset, messages.at(-1)!.offset + 1, messages), encoding(some))
const rowsOf = (messages: TestMessage[], some: Partial<Encoding> = {}): EncodedRow[] =>
  encoded(messages, some).tables.flatMap(({ requests }) => requests.flat())
const bytesOf = ({ params }: EncodedRow): number => params.reduce<number>((sum, one) => sum + (one instanceof Buffer ? one.length : 8), 0)

test('a bucket of several days is named by its first, also before 1970', () => {
  const bucket = (timeUs: number, bucketDays = 7) =>
    (rowsOf([{ offset: 0, records: [{ value: 1, timeUs }] }], { bucketDays })[0]!.params[1] as Buffer).readUInt32BE() - 2 ** 31
  expect([0, 6 * 86_400e6, 7 * 86_400e6, -1].map(timeUs => bucket(timeUs))).toEqual([0, 0, 7, -7])
  for (const timeUs of [2 ** 53 - 1, -(2 ** 52), -(2 ** 53) + 1]) expect(bucket(timeUs, 1)).toBe(Math.floor(timeUs / 86_400e6))
})

const value: fc.Arbitrary<TestRecord> = fc.record(
  {
    unit: fc.string({ unit: 'grapheme' }),
    value: fc.double({ noNaN: true, noDefaultInfinity: true }),
    stringValue: fc.string({ unit: 'grapheme' }),
    boolValue: fc.boolean(),
    dataValue: fc.uint8Array(),
    sum: fc.double({ noNaN: true, noDefaultInfinity: true }),
    updateTime: fc.double({ noNaN: true, noDefaultInfinity: true }),
  },
  { requiredKeys: [] },
)

test('a missing value is unset, and nothing is ever null', () => {
  fc.assert(
    fc.property(value, record => {
      const [row] = rowsOf([{ offset: 0, records: [record] }])
      expect(row!.params).toHaveLength(16)
      expect(row!.params.every(one => one !== null && one !== undefined)).toBe(true)
      const kinds = [record.dataValue, record.boolValue, record.stringValue, record.value]
      // The last of these counts in the tests' own way of making batches.
      const kind = kinds.findIndex(one => one !== undefined)
      const isSet = row!.params.slice(9).map(one => one !== types.unset)
      expect(isSet).toEqual([
        record.unit !== undefined,
        kind === 3,
        kind === 2,
        kind === 1,
        kind === 0,
        record.sum !== undefined,
        record.updateTime !== undefined,
      ])
    }),
  )
})

test('rows of one partition are sent together, up to 32 and to 5 KB, and never of two partitions', () => {
  const message = fc.record({
    channel: fc.constantFrom('a', 'b', 'ü'),
    day: fc.integer({ min: -2, max: 2 }),
    length: fc.oneof(fc.nat(300), fc.nat(6000)),
  })
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 150 }), messages => {
      const { tables } = encoded(
        messages.map(({ channel, day, length }, offset) => ({
          offset,
          channel,
          records: [{ timeUs: day * 86_400e6, stringValue: 'x'.repeat(length) }],
        })),
      )
      const requests = tables.flatMap(({ requests }) => requests)
      for (const request of requests) {
        expect(new Set(request.map(({ params }) => `${String(params[0])} ${(params[1] as Buffer).toString('hex')}`)).size).toBe(1)
        expect(request.length).toBeLessThanOrEqual(32)
        if (request.length > 1) expect(request.reduce((sum, row) => sum + bytesOf(row), 0)).toBeLessThanOrEqual(5_120)
      }
      expect(new Set(requests.flat().map(({ message }) => message)).size).toBe(messages.length)
      expect(requests.flat()).toHaveLength(messages.length)
      for (const { params } of requests.flat()) {
        const day = Number((params[2] as Buffer).readBigInt64BE()) / 86_400e6
        expect((params[1] as Buffer).readUInt32BE() - 2 ** 31).toBe(Math.floor(day))
      }
    }),
  )
})

test('a channel with rows on many days is grouped like one with few', () => {
  const daysOf = (count: number) => Array.from({ length: 2 * count }, (_, at) => ((at * 7) % count) * 86_400e6)
  const requestsFor = (count: number) => {
    const { tables, days } = encoded(daysOf(count).map((timeUs, offset) => ({ offset, records: [{ value: 1, timeUs }] })))
    expect(days).toHaveLength(count)
    return tables[0]!.requests
  }
  for (const count of [1, 2, 8, 9, 10, 11, 100, 5_000]) {
    const requests = requestsFor(count)
    expect(requests).toHaveLength(count)
    expect(requests.every(rows => rows.length === 2 && (rows[0]!.params[1] as Buffer).equals(rows[1]!.params[1] as Buffer))).toBe(true)
  }
})

test('small rows are grouped by 32', () => {
  const { tables } = encode(plainBatch(0, 100), encoding())
  expect(tables[0]!.requests.map(request => request.length)).toEqual([32, 32, 32, 4])
})

test('text too long for a key or a mutation rejects the whole message', () => {
  const messages: TestMessage[] = [
    { ...plain(0), channel: 'ü'.repeat(32_800) },
    { ...plain(1), channel: 'c'.repeat(30_000), publisher: 'p'.repeat(35_600) },
    { offset: 2, documents: [{ format: 'f'.repeat(65_600), payload: {} }] },
    { offset: 3, records: [{ value: 1 }, { stringValue: 'x'.repeat(1001) }] },
    { offset: 4, records: [{ dataValue: new Uint8Array(1001) }] },
    { offset: 5, documents: [{ format: 'f', payload: { text: '€'.repeat(400) } }] },
    plain(6),
  ]
  const { rejected } = encoded(messages, { rowBytesMax: 1000 })
  expect([...rejected.values()].map(({ message, rule, record }) => [message, rule, record])).toEqual([
    [0, 'identifier-length', undefined],
    [1, 'identifier-length', undefined],
    [3, 'store-refused', 1],
    [4, 'store-refused', 0],
    [2, 'identifier-length', undefined],
    [5, 'store-refused', 0],
  ])
})

test('no text of a device is in a statement', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 4 }), text => {
      const [row] = rowsOf([{ offset: 0, channel: text, publisher: text, subtopic: text, documents: [{ format: text, payload: {} }] }])
      expect(row!.query).toMatch(/^INSERT INTO "k"\."[A-Za-z0-9_]{1,48}" \((?:"[a-z_]+"(?:, )?)+\) VALUES \((?:\?(?:, )?)+\)$/)
    }),
  )
})
