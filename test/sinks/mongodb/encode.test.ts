// Batches as BSON: what the driver reads of it is what came.

import * as fc from 'fast-check'
import { BSON, type Document } from 'mongodb'
import { expect, test } from 'vitest'
import { rowIdAt } from '../../../sinks/mongodb/bson.ts'
import { type EncodedTable, encode } from '../../../sinks/mongodb/encode.ts'
import type { JsonObject, JsonValue } from '../../../transformers/record-batch.ts'
import { batchOf, noonUs, type TestMessage } from '../batches.ts'

/** With the type of every number. */
const exact = { promoteValues: false, promoteLongs: false, bsonRegExp: true }

function bytesOf({ bytes, rowStart }: EncodedTable, row: number): Uint8Array {
  return bytes.subarray(rowStart[row], rowStart[row + 1])
}

function rowsOf(
  messages: readonly TestMessage[],
  options: BSON.DeserializeOptions = { useBigInt64: true, promoteBuffers: true },
): Document[] {
  const { tables } = encode(batchOf(0, messages.length, messages, 3), [5])
  return tables.flatMap(table => table.rowMessage.map((_, row) => BSON.deserialize(bytesOf(table, row), options)))
}

/** `-0` and `0` are one to `toEqual` of a JSON text, and two to BSON. */
function payloadBack(payload: JsonObject): unknown {
  return rowsOf([{ offset: 0, documents: [{ format: 'engine', payload }] }])[0]!['payload']
}

test('a record is a document with its fields in their order, and no others', () => {
  const bytes = Uint8Array.of(0, 255, 7)
  const records = [
    { name: 'a', value: 1.5, unit: 'Cel', sum: 2, updateTime: 3, timeUs: noonUs + 1 },
    { name: 'b', boolValue: true },
    { name: 'c', stringValue: 'ü€😀\0' },
    { name: 'd', dataValue: bytes, timeUs: -1 },
    { name: 'e', sum: 0 },
  ]
  const origin = { channel: 'channel-1', subtopic: 'room', publisher: 'thing-1', protocol: 'http' }
  const noon = { time: new Date(noonUs / 1000), timeUs: BigInt(noonUs) }
  const rows = rowsOf([{ offset: 7, records }])
  const id = (index: number): Buffer => Buffer.from(`05003000000000070000000${index}`, 'hex')
  expect(rows).toEqual([
    { _id: id(0), ...origin, name: 'a', unit: 'Cel', ...noon, timeUs: BigInt(noonUs + 1), value: 1.5, sum: 2, updateTime: 3 },
    { _id: id(1), ...origin, name: 'b', ...noon, boolValue: true },
    { _id: id(2), ...origin, name: 'c', ...noon, stringValue: 'ü€😀\0' },
    { _id: id(3), ...origin, name: 'd', time: new Date(-1), timeUs: -1n, dataValue: Buffer.from(bytes) },
    { _id: id(4), ...origin, name: 'e', ...noon, sum: 0 },
  ])
  expect(Object.keys(rows[0]!)).toEqual('_id channel subtopic publisher protocol name unit time timeUs value sum updateTime'.split(' '))
})

test('ids sort as bytes in the order of the log: partition, offset, index', () => {
  const place = fc.record({ partition: fc.nat(4095), offset: fc.nat(2 ** 44 - 1), index: fc.nat(1000) })
  const idOf = ({ partition, offset, index }: { partition: number; offset: number; index: number }): Buffer => {
    const records = Array.from({ length: index + 1 }, () => ({ value: 1 }))
    const [table] = encode(batchOf(offset, offset + 1, [{ offset, records }], partition), [127]).tables
    return Buffer.from(rowIdAt(table!.bytes, table!.rowStart[index]!))
  }
  fc.assert(
    fc.property(place, place, (one, other) => {
      const order = one.partition - other.partition || one.offset - other.offset || one.index - other.index
      expect(Math.sign(Buffer.compare(idOf(one), idOf(other)))).toBe(Math.sign(order))
      expect(idOf(one)[0]).toBeLessThan(128)
    }),
    { numRuns: 50 },
  )
})

test('a document keeps its time to the nanosecond, also before 1970', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.nat(999), (createdUs, createdRestNs) => {
      const [row] = rowsOf([{ offset: 0, documents: [{ format: 'engine', payload: {}, createdUs, createdRestNs }] }])
      expect(row!['created']).toBe(BigInt(createdUs) * 1000n + BigInt(createdRestNs))
      expect((row!['createdAt'] as Date).getTime()).toBe(Number((BigInt(createdUs) - BigInt(((createdUs % 1000) + 1000) % 1000)) / 1000n))
    }),
  )
})

test('every payload comes back unchanged, whatever its keys', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 12 })
  const key = fc.oneof(
    text.filter(text => !text.includes('\0')),
    fc.constantFrom('__proto__', 'constructor', 'a.b', '$set', '', '_bsontype', 'toBSON', '$ref', '_id', '0'),
  )
  const { value } = fc.letrec<{ value: JsonValue }>(tie => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constant(null),
      fc.boolean(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer(),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      text,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(key, tie('value'), { maxKeys: 4 }),
    ),
  }))
  fc.assert(
    fc.property(fc.dictionary(key, value, { maxKeys: 5, noNullPrototype: true }), payload => {
      const [table] = encode(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'engine', payload }] }]), [1]).tables
      const view = new DataView(table!.bytes.buffer, table!.bytes.byteOffset)
      expect(view.getInt32(0, true)).toBe(table!.bytes.length)
      expect(plainOf(jsonOf(BSON.deserialize(table!.bytes, exact)['payload']))).toEqual(plainOf(payload))
    }),
    { numRuns: 500 },
  )
})

/** Of what the driver gives with all its types: int64s as bigints, other numbers as numbers. A `$ref` it takes for a reference of its own. */
function jsonOf(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value
  if (value instanceof BSON.Long) return value.toBigInt()
  if (value instanceof BSON.Double || value instanceof BSON.Int32) return value.value
  if (value instanceof BSON.DBRef) return jsonOf({ $ref: value.collection, $id: value.oid, ...value.fields })
  if (Array.isArray(value)) return value.map(jsonOf)
  if ('_bsontype' in value && !Object.hasOwn(value, '_bsontype')) throw new Error('it is of a type of the driver')
  return new Map(Object.entries(value).map(([key, one]) => [key, jsonOf(one)]))
}

/** As maps, in which every key is the same to a comparison. */
function plainOf(value: unknown): unknown {
  if (value instanceof Map) return new Map(Array.from(value, ([key, one]) => [key as string, plainOf(one)]))
  if (Array.isArray(value)) return value.map(plainOf)
  if (value === null || typeof value !== 'object') return value
  return new Map(Object.entries(value).map(([key, one]) => [key, plainOf(one)]))
}

test('a whole number is an int32 if it fits, a bigint an int64, and a larger one a double', () => {
  const payload = { a: 1, b: 2 ** 31 - 1, c: 2 ** 31, d: -(2 ** 31), e: -0, f: 2 ** 53 + 2, g: 5n, h: 2n ** 63n, i: -(2n ** 63n), j: 1.5 }
  const [row] = rowsOf([{ offset: 0, documents: [{ format: 'engine', payload }] }], exact)
  const types = Object.values(row!['payload'] as Document).map(value => (value as Record<string, string>)['_bsontype'])
  expect(types).toEqual(['Int32', 'Int32', 'Double', 'Int32', 'Double', 'Double', 'Long', 'Double', 'Long', 'Double'])
  expect(Object.is((payloadBack({ e: -0 }) as { e: number }).e, -0)).toBe(true)
})

test('refused messages leave nothing that affects their neighbours', () => {
  const good = (offset: number): TestMessage => ({ offset, documents: [{ format: 'engine', payload: { offset } }] })
  const bad = (offset: number): TestMessage => ({
    offset,
    documents: [
      { format: 'engine', payload: { offset } },
      { format: 'engine', payload: { a: { deep: ['x', { 'b\0': 1 }] } } },
      { format: 'engine', payload: { offset } },
    ],
  })
  const encoded = encode(batchOf(0, 4, [good(0), bad(1), good(2), bad(3)]), [1])
  expect([...encoded.rejected].map(([message, { record, rule }]) => [message, record, rule])).toEqual([
    [1, 1, 'store-refused'],
    [3, 1, 'store-refused'],
  ])
  const [table] = encoded.tables
  expect(table!.rowMessage).toEqual([0, 1, 2, 3])
  const payloads = table!.rowMessage.map((_, row) => BSON.deserialize(bytesOf(table!, row))['payload'] as Document)
  expect(payloads).toEqual([{ offset: 0 }, { offset: 1 }, { offset: 2 }, { offset: 3 }])
})
