// The values of rows and how they are grouped. That Cassandra reads them as meant is shown by the conformance suite.

import { types } from 'cassandra-driver'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openDayRegistry } from '../../../sinks/cassandra/day-registry.ts'
import { type EncodedRow, type Encoding, encode } from '../../../sinks/cassandra/encode.ts'
import { insertStatement } from '../../../sinks/cassandra/schema.ts'
import { batchOf, noonUs, plain, plainBatch, type TestMessage, type TestRecord } from '../batches.ts'

const encoding = (some: Partial<Encoding> = {}): Encoding => ({
  logNumbers: [127],
  bucketDays: 1,
  dayRegistry: openDayRegistry(),
  insert: format => insertStatement('k', format),
  unset: types.unset,
  rowBytesMax: 8_388_608,
  ...some,
})
const encoded = (messages: TestMessage[], some: Partial<Encoding> = {}, partition = 0) =>
  encode(batchOf(messages[0]!.offset, messages.at(-1)!.offset + 1, messages, partition), encoding(some))
const rowsOf = (messages: TestMessage[], some: Partial<Encoding> = {}): EncodedRow[] =>
  encoded(messages, some).tables.flatMap(({ requests }) => requests.flat())
const bytesOf = ({ params }: EncodedRow): number => params.reduce<number>((sum, one) => sum + (one instanceof Buffer ? one.length : 8), 0)

test.each([noonUs, 0, -1, 4_102_444_800_000_001, -(2 ** 52), 2 ** 53 - 1, -(2 ** 53) + 1])(
  'the time %d µs is exact, and on its day',
  timeUs => {
    const [row] = rowsOf([{ offset: 0, records: [{ value: 1, timeUs }] }])
    expect((row!.params[2] as Buffer).readBigInt64BE()).toBe(BigInt(timeUs))
    expect((row!.params[1] as Buffer).readUInt32BE() - 2 ** 31).toBe(Math.floor(timeUs / 86_400e6))
  },
)

test.each([
  [noonUs, 999],
  [0, 0],
  [-1, 1],
  [2 ** 53 - 1, 999],
  [-(2 ** 53) + 1, 0],
  [4_294_967_296, 0],
])('a time of %d µs and %d ns is exact', (createdUs, createdRestNs) => {
  const [row] = rowsOf([{ offset: 0, documents: [{ format: 'f', payload: {}, createdUs, createdRestNs }] }])
  expect((row!.params[2] as Buffer).readBigInt64BE()).toBe(BigInt(createdUs) * 1000n + BigInt(createdRestNs))
})

const year1600Us = Date.UTC(1600, 0) * 1000
test.each([
  ['of the year 1600', year1600Us, 0, true],
  ['of the first instant that fits', -9_223_372_036_854_776, 192, false],
  ['of the one before', -9_223_372_036_854_776, 191, true],
])('a document %s', (_which, createdUs, createdRestNs, isRefused) => {
  const { rejected } = encoded([{ offset: 0, documents: [{ format: 'f', payload: {}, createdUs, createdRestNs }] }])
  expect([...rejected.values()]).toEqual(
    isRefused
      ? [expect.objectContaining({ message: 0, record: 0, rule: 'store-refused', reason: expect.stringMatching(/1677/) as string })]
      : [],
  )
})

test('a bucket of several days is named by its first, also before 1970', () => {
  const bucket = (timeUs: number) =>
    (rowsOf([{ offset: 0, records: [{ value: 1, timeUs }] }], { bucketDays: 7 })[0]!.params[1] as Buffer).readUInt32BE() - 2 ** 31
  expect([0, 6 * 86_400e6, 7 * 86_400e6, -1].map(bucket)).toEqual([0, 0, 7, -7])
})

test('a position packs log, partition and offset, up to the largest of each', () => {
  const position = (row: EncodedRow | undefined): string => (row!.params[3] as Buffer).toString('hex')
  const { tables } = encoded([{ offset: 2 ** 44 - 2, records: [{ value: 1 }] }], {}, 4095)
  expect(position(tables[0]!.requests[0]![0])).toBe('7ffffffffffffffe')
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

test('half a surrogate pair anywhere, and text too long for a key or a mutation, reject the whole message', () => {
  const bad = 'a\ud800'
  const messages: TestMessage[] = [
    { ...plain(0), channel: bad },
    { ...plain(1), subtopic: bad },
    { ...plain(2), publisher: bad },
    { ...plain(3), protocol: bad },
    { offset: 4, records: [{ value: 1 }, { name: bad }] },
    { offset: 5, records: [{ unit: bad }, { value: 1 }] },
    { offset: 6, records: [{ stringValue: bad }] },
    { offset: 7, documents: [{ format: bad, payload: {} }] },
    { ...plain(8), channel: 'ü'.repeat(32_800) },
    { ...plain(9), channel: 'c'.repeat(30_000), publisher: 'p'.repeat(35_600) },
    { offset: 10, documents: [{ format: 'f'.repeat(65_600), payload: {} }] },
    { offset: 11, records: [{ stringValue: 'x'.repeat(1001) }] },
    { offset: 12, records: [{ dataValue: new Uint8Array(1001) }] },
    { offset: 13, documents: [{ format: 'f', payload: { text: '€'.repeat(400) } }] },
    plain(14),
  ]
  const { rejected } = encoded(messages, { rowBytesMax: 1000 })
  expect([...rejected.values()].map(({ message, rule, record }) => [message, rule, record])).toEqual([
    ...[0, 1, 2, 3].map(message => [message, 'store-refused', undefined]),
    [4, 'store-refused', 1],
    [5, 'store-refused', 0],
    [6, 'store-refused', 0],
    [8, 'identifier-length', undefined],
    [9, 'identifier-length', undefined],
    [11, 'store-refused', 0],
    [12, 'store-refused', 0],
    [7, 'store-refused', undefined],
    [10, 'identifier-length', undefined],
    [13, 'store-refused', 0],
  ])
})

test('a document is JSON text with every digit of its integers', () => {
  const payload = JSON.parse('{"__proto__":{"toJSON":1},"b":[0.1,-0,1e21]}') as { [key: string]: number }
  const documents = [
    { format: 'f', payload },
    { format: 'f', payload: { id: [{ deep: -9_223_372_036_854_775_808n }], huge: 10n ** 30n } },
  ]
  expect(rowsOf([{ offset: 0, documents }]).map(({ params }) => String(params[8]))).toEqual([
    '{"__proto__":{"toJSON":1},"b":[0.1,0,1e+21]}',
    `{"id":[{"deep":-9223372036854775808}],"huge":1${'0'.repeat(30)}}`,
  ])
})

test('each format has its own table, and a batch without rows has none', () => {
  const document = (offset: number, format: string) => ({ offset, documents: [{ format, payload: {} }] })
  const { tables } = encoded([document(0, 'a'), document(1, 'B-'), { offset: 2, records: [{ value: 1 }] }, document(3, 'a'), { offset: 4 }])
  expect(tables.map(({ format, requests }) => [format, requests.flat().map(({ message }) => message)])).toEqual([
    ['messages', [2]],
    ['a', [0, 3]],
    ['B-', [1]],
  ])
  expect(tables.every(({ requests }) => requests.flat().every(({ query }) => !query.includes('B-')))).toBe(true)
  expect(encoded([{ offset: 0 }]).tables).toEqual([])
})

test('no text of a device is in a statement', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 4 }), text => {
      const [row] = rowsOf([{ offset: 0, channel: text, publisher: text, subtopic: text, documents: [{ format: text, payload: {} }] }])
      expect(row!.query).toMatch(/^INSERT INTO "k"\."[A-Za-z0-9_]{1,48}" \((?:"[a-z_]+"(?:, )?)+\) VALUES \((?:\?(?:, )?)+\)$/)
    }),
  )
})

test('encoding is pure: the same batch gives the same values', () => {
  const batch = plainBatch(0, 50)
  const one = encoding()
  expect(encode(batch, one)).toEqual(encode(batch, one))
})

test('a message with rows for two tables is an error of its transformer', () => {
  const documents = [
    { format: 'engine', payload: { a: 1 } },
    { format: 'gearbox', payload: { a: 1 } },
  ]
  expect(() => encoded([{ offset: 0, documents }])).toThrow(/message 0 has rows for two tables/)
  expect(() => encoded([{ offset: 0, records: [{ value: 1 }], documents: documents.slice(1) }])).toThrow(/two tables/)
})
