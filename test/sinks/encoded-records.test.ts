// What every sink encodes of a batch: each field of a record, exact times and positions, tables of formats. That the stores read it as meant is shown
// by the conformance suite.

import { types } from 'cassandra-driver'
import { BSON } from 'mongodb'
import { describe, expect, test } from 'vitest'
import { openDayRegistry } from '../../sinks/cassandra/day-registry.ts'
import { encode as encodeCassandra } from '../../sinks/cassandra/encode.ts'
import { insertStatement } from '../../sinks/cassandra/schema.ts'
import { encode as encodeInfluxdb } from '../../sinks/influxdb/encode.ts'
import { encode as encodeMongodb } from '../../sinks/mongodb/encode.ts'
import type { Rejection } from '../../sinks/sink.ts'
import type { JsonObject, RecordBatch } from '../../transformers/record-batch.ts'
import { batchOf, fullRecord, noonUs, plainBatch, type RecordField, type TestMessage, type TestRecord } from './batches.ts'
import { copiedRows, encodeWithTexts } from './postgres/copied-rows.ts'

interface EncodedRow {
  /** `messages` or the format. */
  readonly table: string
  /** Microseconds of a record, nanoseconds of a document. */
  readonly time: bigint
  readonly position: bigint
  /** The JSON text of a document, for stores that get one. */
  readonly payload?: string
}

interface Encoder {
  readonly encode: (batch: RecordBatch) => { readonly rejected: ReadonlyMap<number, Rejection> }
  /** The first row. */
  readonly bytes: (batch: RecordBatch) => Uint8Array
  readonly rows: (batch: RecordBatch) => EncodedRow[]
}

function encoderOf<Encoded extends ReturnType<Encoder['encode']>>(
  encode: (batch: RecordBatch) => Encoded,
  bytes: (encoded: Encoded) => Uint8Array,
  rows: (encoded: Encoded) => EncodedRow[],
): Encoder {
  return { encode, bytes: batch => bytes(encode(batch)), rows: batch => rows(encode(batch)) }
}

const logNumbers = [127]
const int64 = (hex: string | null | undefined): bigint => BigInt.asIntN(64, BigInt(`0x${hex!}`))
/** The time of a point down to the millisecond, and the rest from `/index`. */
const exactUs = (ns: bigint, index: bigint): bigint => (ns - (((ns % 1_000_000n) + 1_000_000n) % 1_000_000n)) / 1000n + (index % 1000n)

const encoders: Readonly<Record<string, Encoder>> = {
  PostgreSQL: encoderOf(
    batch => encodeWithTexts(batch, logNumbers),
    ({ tables }) => tables[0]!.bytes,
    ({ tables }) =>
      tables.flatMap(({ format, bytes }) =>
        copiedRows(bytes).map(row => ({
          table: format,
          position: int64(row[format === 'messages' ? 1 : 4]),
          // A record's counts from the year 2000.
          time: format === 'messages' ? int64(row[3]) + 946_684_800_000_000n : int64(row[5]),
          // The first byte is the version of jsonb.
          payload: Buffer.from(row[6] ?? '', 'hex')
            .toString()
            .replace('\x01', ''),
        })),
      ),
  ),
  Cassandra: encoderOf(
    batch =>
      encodeCassandra(batch, {
        logNumbers,
        bucketDays: 1,
        dayRegistry: openDayRegistry(),
        insert: (format: string) => insertStatement('k', format),
        unset: types.unset,
        rowBytesMax: Number.POSITIVE_INFINITY,
      }),
    ({ tables }) =>
      Buffer.concat(tables[0]!.requests[0]![0]!.params.map(value => (value instanceof Uint8Array ? value : Buffer.from(String(value))))),
    ({ tables }) =>
      tables.flatMap(({ format, requests }) =>
        requests.flat().map(({ params: [, , time, position, ...rest] }) => ({
          table: format,
          time: (time as Buffer).readBigInt64BE(),
          position: (position as Buffer).readBigInt64BE(),
          payload: String(rest[4]),
        })),
      ),
  ),
  InfluxDB: encoderOf(
    // Into a buffer without room, which the encoder has to replace.
    batch => encodeInfluxdb(batch, logNumbers, Buffer.alloc(1)),
    ({ lines }) => lines.bytes,
    ({ lines }) =>
      [
        ...Buffer.from(lines.bytes)
          .toString()
          .matchAll(/^(\w+),.* (-?\d+)$/gm),
      ].map(([line, table, ns]) => ({
        table: table!,
        time: BigInt(/\/created=(-?\d+)i/.exec(line)?.[1] ?? exactUs(BigInt(ns!), BigInt(/\/index=(\d+)i/.exec(line)![1]!))),
        position: BigInt(/\/position=(\d+)i/.exec(line)![1]!),
      })),
  ),
  MongoDB: encoderOf(
    batch => encodeMongodb(batch, logNumbers),
    ({ tables }) => tables[0]!.bytes,
    ({ tables }) =>
      tables.flatMap(({ format, bytes, rowMessage, rowStart }) =>
        rowMessage.map((_, nth) => {
          const row = BSON.deserialize(bytes.subarray(rowStart[nth], rowStart[nth + 1]), { useBigInt64: true, promoteBuffers: true })
          return { table: format, time: (row['timeUs'] ?? row['created']) as bigint, position: (row['_id'] as Buffer).readBigInt64BE() }
        }),
      ),
  ),
}

const fields = Object.keys(fullRecord) as RecordField[]
const textFields = [...fields.filter(field => typeof fullRecord[field as keyof typeof fullRecord] === 'string'), 'stringValue' as const]
const lowestUs = -(2 ** 53) + 1

describe.each(Object.entries(encoders))('%s', (store, { encode, bytes, rows }) => {
  const encoded = (record: TestRecord): Buffer => Buffer.from(bytes(batchOf(0, 1, [{ offset: 0, records: [record] }])))
  const rowsOf = (messages: readonly TestMessage[], partition = 0) =>
    rows(batchOf(messages[0]!.offset, messages.at(-1)!.offset + 1, messages, partition))
  const document = (offset: number, format: string, some: object = {}): TestMessage => ({
    offset,
    documents: [{ format, payload: {}, ...some }],
  })

  test.each(fields)('a record with %s is another row than one without', field => {
    const { [field]: _without, ...rest } = fullRecord as TestRecord
    expect(encoded(rest).equals(encoded(fullRecord))).toBe(false)
  })

  test.each(textFields)('%s is encoded whole, however long it is', field => {
    const text = '€'.repeat(5000)
    expect(encoded({ [field]: text }).includes(text)).toBe(true)
  })

  test('encoding is pure: the same batch gives the same again', () => {
    const batch = plainBatch(0, 50)
    expect(encode(batch)).toEqual(encode(batch))
  })

  test.each([
    noonUs,
    0,
    -1,
    946_684_800_000_000,
    946_684_799_999_999,
    946_684_800_000_000 + 2 ** 32,
    4_102_444_800_000_001,
    -(2 ** 52),
    2 ** 53 - 1,
    // No double counts its microseconds since 2000.
    ...[lowestUs].filter(() => store !== 'PostgreSQL'),
  ])('the time %d µs of a record is exact', timeUs => {
    expect(rowsOf([{ offset: 0, records: [{ value: 1, timeUs }] }])).toMatchObject([{ time: BigInt(timeUs) }])
  })

  test.each([
    [noonUs, 999],
    [0, 0],
    [-1, 1],
    [2 ** 53 - 1, 999],
    [lowestUs, 0],
    [4_294_967_296, 0],
  ])('the time %d µs and %d ns of a document is exact', (createdUs, createdRestNs) => {
    const time = BigInt(createdUs) * 1000n + BigInt(createdRestNs)
    expect(rowsOf([document(0, 'f', { createdUs, createdRestNs })])).toMatchObject([{ time }])
  })

  // InfluxDB takes nothing before the microseconds that a double holds.
  test.each([
    ['of the first instant that fits', 192, store === 'InfluxDB'],
    ['of the one before', 191, true],
  ])('a document %s', (_which, createdRestNs, isRefused) => {
    const { rejected } = encode(batchOf(0, 1, [document(0, 'f', { createdUs: -9_223_372_036_854_776, createdRestNs })]))
    const reason = expect.stringMatching(store === 'InfluxDB' ? /time/ : /1677/) as string
    expect([...rejected.values()]).toMatchObject(isRefused ? [{ message: 0, record: 0, rule: 'store-refused', reason }] : [])
  })

  test('a position packs log, partition and offset, up to the largest of each', () => {
    expect(rowsOf([{ offset: 2 ** 44 - 2, records: [{ value: 1 }] }], 4095)).toMatchObject([{ position: 0x7ffffffffffffffen }])
  })

  test('each format has its own table, and a batch without rows has none', () => {
    const found = rowsOf([document(0, 'a'), document(1, 'b'), { offset: 2, records: [{ value: 1 }] }, document(3, 'a'), { offset: 4 }])
    const byTable = Map.groupBy(found, ({ table }) => table)
    expect([...byTable].map(([table, rows]) => [table, rows.map(({ position }) => Number(position & 0xfff_ffff_ffffn))])).toEqual([
      ['messages', [2]],
      ['a', [0, 3]],
      ['b', [1]],
    ])
    expect(rowsOf([{ offset: 0 }])).toEqual([])
  })

  test('a message that has rows and is not to be stored is an error of the caller', () => {
    const batch = plainBatch(0, 1)
    batch.messages.outcome[0] = 1
    expect(() => encode(batch)).toThrow(RangeError)
  })
})

test.each(['PostgreSQL', 'Cassandra'])('in %s a document is JSON text with every digit of its integers', store => {
  const payload = JSON.parse('{"__proto__":{"toJSON":1},"b":[0.1,-0,1e21]}') as JsonObject
  const documents = [
    { format: 'f', payload },
    { format: 'f', payload: { id: [{ deep: -9_223_372_036_854_775_808n }], huge: 10n ** 30n } },
  ]
  expect(encoders[store]!.rows(batchOf(0, 1, [{ offset: 0, documents }])).map(({ payload }) => payload)).toEqual([
    '{"__proto__":{"toJSON":1},"b":[0.1,0,1e+21]}',
    `{"id":[{"deep":-9223372036854775808}],"huge":1${'0'.repeat(30)}}`,
  ])
})
