// Rows out of BSON: what the sink encodes is decoded equal, and what others have put beside it harms nothing.

import * as fc from 'fast-check'
import { Binary, BSON, Code, Decimal128, type Document, Double, Int32, Long, MaxKey, MinKey, ObjectId, Timestamp } from 'mongodb'
import { expect, test } from 'vitest'
import { documentOf, recordOf } from '../../../readers/mongodb/rows.ts'
import { encode } from '../../../sinks/mongodb/encode.ts'
import { canonicalPayload } from '../../../transformers/json/canonical.ts'
import { jsonText } from '../../../transformers/json/json-text.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { type JsonObject, RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'

/** The one row of the batch, in the bytes of a longer buffer, as the driver hands it over. */
function rowOf(batch: RecordBatch): Buffer {
  const [table] = encode(batch, [3]).tables
  const { bytes, rowStart } = table!
  return Buffer.concat([Buffer.alloc(7, 0xff), bytes.subarray(rowStart[0], rowStart[1]), Buffer.alloc(7, 0xff)]).subarray(7, -7)
}

const wellFormed = (text: string): boolean => text.isWellFormed()
const text = fc
  .oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', '\0', '"', '\\', 'a\n', '😀', 'ü', '\u007f', '\u2028'))
  .filter(wellFormed)
const double = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(0, -0, 5e-324, 1e308, -1e308, 2 ** 53 + 2))
const origin = fc.record({ subtopic: text, publisher: text, protocol: text })

test('a SenML record of any kind is decoded unchanged, without missing fields', () => {
  const value = fc.oneof(
    fc.record({ kind: fc.constant(ValueKind.number), number: double }),
    fc.record({ kind: fc.constant(ValueKind.boolean), number: fc.constantFrom(0, 1) }),
    fc.record({ kind: fc.constant(ValueKind.string), content: text }),
    fc.record({ kind: fc.constant(ValueKind.data), content: fc.uint8Array() }),
    fc.record({ kind: fc.constant(ValueKind.none) }),
  )
  const record = fc.record({
    origin,
    value,
    index: fc.integer({ min: 0, max: 0xffff_ffff }),
    offset: fc.integer({ min: 0, max: 2 ** 44 - 1 }),
    name: text,
    unit: fc.option(text, { nil: undefined }),
    timeUs: fc.integer({ min: -(2 ** 53) + 1, max: 2 ** 53 - 1 }),
    sum: fc.option(double, { nil: undefined }),
    updateTime: fc.option(double, { nil: undefined }),
  })
  fc.assert(
    fc.property(record, ({ origin, value, index, offset, name, unit, timeUs, sum, updateTime }) => {
      const batch = new RecordBatch()
      batch.beginMessage({ at: logPartition(0, 5), offset, channel: 'c', ...origin })
      const { kind, number = Number.NaN, content } = { number: undefined, content: undefined, ...value }
      batch.appendRecord(index, name, unit, timeUs, kind, number, content, sum ?? Number.NaN, updateTime ?? Number.NaN)
      batch.endMessage()
      batch.cover(logPartition(0, 5), offset, offset + 1)
      expect(recordOf(rowOf(batch), 'c')).toStrictEqual({
        kind: 'senml',
        channel: 'c',
        ...origin,
        position: (3n << 56n) | (5n << 44n) | BigInt(offset),
        index,
        name,
        unit,
        timeUs,
        value: kind === ValueKind.number ? number : undefined,
        stringValue: kind === ValueKind.string ? content : undefined,
        boolValue: kind === ValueKind.boolean ? number === 1 : undefined,
        dataValue: kind === ValueKind.data ? Buffer.from(content as Uint8Array) : undefined,
        sum,
        updateTime,
      })
    }),
  )
})

function documentBatch(payload: JsonObject, createdUs = 1, restNs = 0): RecordBatch {
  const batch = new RecordBatch()
  batch.beginMessage({ at: logPartition(0, 0), offset: 1, channel: 'c', subtopic: 'room', publisher: 'p', protocol: 'mqtt' })
  batch.appendDocument(2, 'room', createdUs, restNs, payload)
  batch.endMessage()
  batch.cover(logPartition(0, 0), 1, 2)
  return batch
}

test('a JSON document is decoded with every digit, to the nanosecond', () => {
  const leaf = fc.oneof(fc.constant(null), fc.boolean(), text, double, fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }))
  const { payload } = fc.letrec<{ value: never; payload: JsonObject }>(tie => ({
    value: fc.oneof({ depthSize: 'small' }, leaf, fc.array(tie('value'), { maxLength: 4 }), tie('payload')) as fc.Arbitrary<never>,
    payload: fc.dictionary(
      fc.oneof(text, fc.constantFrom('$ref', '$id', '_bsontype', 'a.b', '__proto__', '')).filter(key => !key.includes('\0')),
      tie('value'),
      { maxKeys: 5 },
    ),
  }))
  const createdUs = fc.integer({ min: -(2 ** 53) + 1, max: 2 ** 53 - 1 }).filter(us => Math.abs(us) < 9.2e15)
  fc.assert(
    fc.property(payload, createdUs, fc.integer({ min: 0, max: 999 }), (payload, createdUs, restNs) => {
      const row = documentOf(rowOf(documentBatch(payload, createdUs, restNs)), 'c')
      expect(row.createdNs).toBe(BigInt(createdUs) * 1000n + BigInt(restNs))
      expect(canonicalPayload(row.payloadText)).toBe(canonicalPayload(jsonText(payload)))
    }),
  )
})

test("a device's keys that the driver would interpret are ordinary keys", () => {
  const payload: JsonObject = { ref: { $ref: 'messages', $id: 1 }, long: { _bsontype: 'Long', low: 1, high: 2 }, $set: { a: 1 } }
  expect(documentOf(rowOf(documentBatch(payload)), 'c').payloadText).toBe(JSON.stringify(payload))
})

const row: Document = {
  _id: new Binary(Buffer.from('010000000000000700000009', 'hex')),
  channel: 'c',
  subtopic: '',
  publisher: 'p',
  protocol: 'http',
  name: 'n',
  timeUs: Long.fromNumber(1_700_000_000_000_000),
}
const bytesOf = (document: Document): Buffer => Buffer.from(BSON.serialize(document))
const foreign: Document = {
  label: 'valve',
  values: [1],
  id: new ObjectId(),
  when: new Timestamp(5n),
  exact: Decimal128.fromString('1.5'),
  least: new MinKey(),
  most: new MaxKey(),
  code: new Code('x', { a: 1 }),
  plainCode: new Code('x'),
  pattern: /a.b/i,
  nothing: null,
  small: new Int32(1),
  nested: { value: 7, time: 1 },
}

test('fields that an operator has added are skipped, whatever their type and order', () => {
  const found = { position: (1n << 56n) | 7n, index: 9, name: 'n', timeUs: 1_700_000_000_000_000, value: 1.5 }
  expect(recordOf(bytesOf({ ...foreign, value: new Double(1.5), ...row }), 'c')).toMatchObject(found)
  expect(recordOf(bytesOf({ value: 1.5, ...Object.fromEntries(Object.entries({ ...foreign, ...row }).toReversed()) }), 'c')).toMatchObject(
    found,
  )
})

test('a number that an operator has changed is that number, whatever its type', () => {
  expect(recordOf(bytesOf({ ...row, value: new Int32(-5), sum: Long.fromNumber(-6) }), 'c')).toMatchObject({ value: -5, sum: -6 })
  expect(recordOf(bytesOf({ ...row, value: 'text', boolValue: 1, dataValue: 'x', unit: 5 }), 'c')).toMatchObject({
    value: undefined,
    boolValue: undefined,
    dataValue: undefined,
    unit: undefined,
  })
})

test('a value that JSON cannot represent is null', () => {
  const payload = { ...foreign, none: Number.NaN, most: Infinity }
  const created = Long.fromNumber(1)
  const { payloadText } = documentOf(bytesOf({ ...row, created, payload }), 'c')
  expect(JSON.parse(payloadText)).toMatchObject({
    label: 'valve',
    id: null,
    when: null,
    exact: null,
    code: null,
    pattern: null,
    none: null,
  })
  expect(JSON.parse(payloadText)).toMatchObject({ small: 1, nested: { value: 7 }, values: [1], most: null })
})

test.each(['_id', 'publisher', 'subtopic', 'protocol', 'name', 'timeUs'])(
  'a document without its %s was not written by the sink, and the error says so',
  field => {
    const { [field]: _, ...rest } = row
    expect(() => recordOf(bytesOf(rest), 'c')).toThrow(/not written by sluice/)
  },
)

test('an _id of another length was not written by the sink, and neither was a time that is a text', () => {
  expect(() => recordOf(bytesOf({ ...row, _id: new Binary(Buffer.alloc(11)) }), 'c')).toThrow(/_id of 12 bytes/)
  expect(() => recordOf(bytesOf({ ...row, timeUs: '1' }), 'c')).toThrow(/no time/)
  expect(() => documentOf(bytesOf(row), 'c')).toThrow(/no time/)
})
