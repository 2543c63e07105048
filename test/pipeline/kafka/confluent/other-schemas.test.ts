// Messages that other producers frame with their own schemas: fields are matched by name, and others are skipped.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { shapeOf, skip } from '../../../../pipeline/kafka/confluent/avro/shape.ts'
import { planOf, type RecordPlan } from '../../../../pipeline/kafka/confluent/record-plan.ts'
import { avroTypeOf } from '../../../../pipeline/kafka/confluent/schema-lookup.ts'
import { varint } from '../records/record-batches.ts'
import { avroType, emptyTree, framed, messageOf, plainType, planFor } from './framed-messages.ts'

interface Field {
  readonly name: string
  readonly type: unknown
}

function recordOf(...fields: readonly Field[]): { type: 'record'; name: string; fields: readonly Field[] } {
  return { type: 'record', name: 'Reading', fields }
}

/** A message of that schema, encoded by avsc. */
function readAs(schema: ReturnType<typeof recordOf>, value: object): ReturnType<typeof messageOf> {
  return messageOf(framed(avroType(schema).toBuffer(value)), planFor(schema))
}

const payload = { name: 'payload', type: 'bytes' }
const x = Buffer.from('x')
const nullable = (type: unknown): unknown => ['null', type]

test('a payload is enough: the key is the channel, the timestamp the time, and the rest has the defaults of a message without a frame', () => {
  expect(readAs(recordOf(payload), { payload: x })).toEqual({
    offset: 0,
    fault: undefined,
    channel: 'c1',
    subtopic: '',
    publisher: '',
    protocol: 'kafka',
    contentType: '',
    createdUs: 1_700_000_000_000_000,
    createdRestNs: 0,
    payload: new Uint8Array(x),
  })
})

test('fields may come in any order, among unknown ones', () => {
  const schema = recordOf(
    { name: 'site', type: { type: 'record', name: 'Site', fields: [{ name: 'floors', type: { type: 'array', items: 'int' } }] } },
    payload,
    { name: 'battery', type: 'double' },
    { name: 'channel', type: 'string' },
    { name: 'labels', type: { type: 'map', values: nullable('string') } },
    { name: 'created', type: 'long' },
    { name: 'subtopic', type: 'string' },
  )
  const others = { site: { floors: [1, 2, 300] }, battery: 0.5, labels: { a: 'b', c: null } }
  expect(readAs(schema, { ...others, payload: x, channel: 'c9', created: 1_001n, subtopic: 's' })).toMatchObject({
    fault: undefined,
    channel: 'c9',
    subtopic: 's',
    createdUs: 1,
    createdRestNs: 1,
    payload: new Uint8Array(x),
  })
})

test.each([
  ['null first', nullable('string')],
  ['null last', ['string', 'null']],
  ['among others', ['int', 'string', 'null']],
])('fields in a union, %s: null counts as missing', (_name, type) => {
  const schema = recordOf({ name: 'channel', type }, { name: 'publisher', type }, { name: 'protocol', type }, payload)
  expect(readAs(schema, { channel: 'c9', publisher: null, protocol: null, payload: x })).toMatchObject({
    fault: undefined,
    channel: 'c9',
    publisher: '',
    protocol: 'kafka',
  })
  expect(readAs(schema, { channel: null, publisher: 'p', protocol: 'mqtt', payload: x })).toMatchObject({
    fault: undefined,
    channel: 'c1',
    publisher: 'p',
    protocol: 'mqtt',
  })
})

test('a union with another branch than text is not a message', () => {
  const schema = recordOf({ name: 'channel', type: ['int', 'string', 'null'] }, payload)
  expect(readAs(schema, { channel: 5, payload: x }).fault?.rule).toBe('confluent-frame')
})

test('a UUID as channel or publisher is in lower case, from a field and from the key', () => {
  const sent = '7ACB5F9E-3C0E-4A57-9D0A-5F9F0A3C1B77'
  const fields = ['channel', 'publisher', 'subtopic'].map(name => ({ name, type: 'string' }))
  const value = framed(avroType(recordOf(...fields, payload)).toBuffer({ channel: sent, publisher: sent, subtopic: sent, payload: x }))
  expect(messageOf(value, planFor(recordOf(...fields, payload)))).toMatchObject({
    channel: sent.toLowerCase(),
    publisher: sent.toLowerCase(),
    subtopic: sent,
  })
  const bare = framed(avroType(recordOf(payload)).toBuffer({ payload: x }))
  expect(messageOf(bare, planFor(recordOf(payload)), { key: sent })).toMatchObject({ channel: sent.toLowerCase() })
})

test('a null payload is a dead letter', () => {
  const { fault } = readAs(recordOf({ name: 'payload', type: nullable('bytes') }), { payload: null })
  expect(fault).toMatchObject({ rule: 'confluent-frame', reason: 'the payload of the record is null' })
})

test('the payload may be text, and texts may be bytes', () => {
  const schema = recordOf({ name: 'payload', type: 'string' }, { name: 'publisher', type: 'bytes' })
  const message = readAs(schema, { payload: 'ü', publisher: Buffer.from('p') })
  expect(message).toMatchObject({ fault: undefined, publisher: 'p' })
  expect(Buffer.from(message.payload).toString()).toBe('ü')
})

test.each([
  ['long', 1_700_000_000_123_456_789n, 1_700_000_000_123_456, 789],
  ['int', 2_000_000_789, 2_000_000, 789],
  [{ type: 'long', logicalType: 'timestamp-nanos' }, 1_700_000_000_123_456_789n, 1_700_000_000_123_456, 789],
  [{ type: 'long', logicalType: 'timestamp-micros' }, 1_700_000_000_123_456n, 1_700_000_000_123_456, 0],
  [{ type: 'long', logicalType: 'timestamp-millis' }, 1_700_000_000_123n, 1_700_000_000_123_000, 0],
  [{ type: 'long', logicalType: 'constructor' }, 1_700_000_000_123_456_789n, 1_700_000_000_123_456, 789],
  [nullable({ type: 'long', logicalType: 'timestamp-millis' }), 1_700_000_000_123n, 1_700_000_000_123_000, 0],
])('created as %j', (type, created, createdUs, createdRestNs) => {
  expect(readAs(recordOf({ name: 'created', type }, payload), { created, payload: x })).toMatchObject({
    fault: undefined,
    createdUs,
    createdRestNs,
  })
})

test('created in a union has the unit of the branch that carries it, and text or an enum is not a time', () => {
  const created = [
    'null',
    { type: 'string', logicalType: 'uuid' },
    { type: 'long', logicalType: 'timestamp-micros' },
    { type: 'int', logicalType: 'timestamp-millis' },
    { type: 'enum', name: 'Level', symbols: ['low', 'high'] },
  ]
  const plan = planFor(recordOf({ name: 'created', type: created }, payload))
  const at = (branch: number, ...value: number[]) =>
    messageOf(framed(Buffer.from([...varint(branch), ...value, ...varint(x.length), ...x])), plan)
  expect(at(0)).toMatchObject({ fault: undefined, createdUs: 1_700_000_000_000_000, createdRestNs: 0 })
  expect(at(1, ...varint(1), 0x78).fault).toMatchObject({ rule: 'confluent-frame' })
  expect(at(2, ...varint(1_700_000_000_123_456))).toMatchObject({ fault: undefined, createdUs: 1_700_000_000_123_456, createdRestNs: 0 })
  expect(at(3, ...varint(5))).toMatchObject({ fault: undefined, createdUs: 5_000, createdRestNs: 0 })
  expect(at(4, ...varint(1)).fault).toMatchObject({ rule: 'confluent-frame' })

  const plain = planFor(recordOf({ name: 'created', type: [{ type: 'int', logicalType: 'timestamp-millis' }, 'long'] }, payload))
  const ns = framed(Buffer.from([...varint(1), ...varint(5_007), ...varint(x.length), ...x]))
  expect(messageOf(ns, plain)).toMatchObject({ fault: undefined, createdUs: 5, createdRestNs: 7 })
})

test('created keeps its unit in a schema that is only a reference, and in a record with a logical type', () => {
  const record = recordOf({ name: 'created', type: { type: 'long', logicalType: 'timestamp-millis' } }, payload)
  const value = framed(Buffer.from([...varint(5), ...varint(x.length), ...x]))
  for (const texts of [[record, 'Reading'], [{ ...record, logicalType: 'timestamp-micros' }]]) {
    const plan = planOf(avroTypeOf(texts.map(text => JSON.stringify(text))))
    expect(messageOf(value, plan as RecordPlan)).toMatchObject({ fault: undefined, createdUs: 5_000 })
  }
})

test.each([
  ['"string"', 'string', /it is a string, not a record/],
  ['a record without a payload', recordOf({ name: 'value', type: 'bytes' }), /no field payload/],
  ['a payload of numbers', recordOf({ name: 'payload', type: 'double' }), /field payload is a double, not bytes/],
  ['a channel of numbers', recordOf(payload, { name: 'channel', type: 'long' }), /field channel is a long, not string/],
  ['an instant of text', recordOf(payload, { name: 'created', type: 'string' }), /field created is a string, not long/],
  [
    'an instant of symbols',
    recordOf(payload, { name: 'created', type: { type: 'enum', name: 'E', symbols: ['a'] } }),
    /is a enum, not long/,
  ],
  ['an instant of fractions', recordOf(payload, { name: 'created', type: 'double' }), /field created is a double, not long/],
])('a schema that no message can be decoded with: %s', (_name, schema, reason) => {
  expect(planOf(plainType(schema))).toMatch(reason)
})

test('a recursive type, and bytes that nest it endlessly', () => {
  const tree = { type: 'record', name: 'Tree', fields: [{ name: 'kids', type: { type: 'array', items: 'Tree' } }] }
  const schema = recordOf({ name: 'tree', type: tree }, payload)
  expect(readAs(schema, { tree: { kids: [{ kids: [] }, { kids: [{ kids: [] }] }] }, payload: x }).fault).toBeUndefined()
  expect(messageOf(framed(Buffer.alloc(100_000, 2)), planFor(schema)).fault?.rule).toBe('confluent-frame')
})

test('more items than bytes, and items without bytes, cost nothing', () => {
  const items = (type: unknown): ReturnType<typeof recordOf> => recordOf({ name: 'many', type: { type: 'array', items: type } }, payload)
  const huge = Buffer.from([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])
  const rest = Buffer.from([0, 2, 0x78])
  expect(messageOf(framed(Buffer.concat([huge, rest])), planFor(items('null')))).toMatchObject({
    fault: undefined,
    payload: new Uint8Array(x),
  })
  expect(messageOf(framed(Buffer.concat([huge, rest])), planFor(items('int'))).fault?.rule).toBe('confluent-frame')
  const beyond32Bits = Uint8Array.from(varint(2n ** 32n))
  expect(messageOf(framed(Buffer.concat([beyond32Bits, rest])), planFor(items('int'))).fault?.rule).toBe('confluent-frame')
})

test('fields that take no bytes are not a step of a plan, and not a part of a shape', () => {
  const nothings = Array.from({ length: 1000 }, (_, at) => ({ name: `n${at}`, type: 'null' }))
  expect(planFor(recordOf(...nothings, payload)).steps).toHaveLength(1)
  expect(shapeOf(plainType(recordOf(...nothings, payload))).parts).toHaveLength(1)
})

describe('any field beside the payload', () => {
  const name = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'd'), minLength: 3, maxLength: 8 })
  let named = 0
  const { type } = fc.letrec(tie => ({
    type: fc.oneof(
      { maxDepth: 4, depthSize: 'small' },
      fc.constantFrom('null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string'),
      fc.nat(20).map(size => ({ type: 'fixed', name: `Fixed${named++}`, size })),
      fc.nat(6).map(depth => emptyTree(depth, {}, `Empty${named++}of`)),
      fc.constant(null).map(() => ({ type: 'enum', name: `Enum${named++}`, symbols: ['A', 'B', 'C'] })),
      fc.record({ type: fc.constant('array'), items: tie('type') }),
      fc.record({ type: fc.constant('map'), values: tie('type') }),
      tie('type')
        .filter(one => !Array.isArray(one) && one !== 'null')
        .map(one => ['null', one]),
      fc
        .uniqueArray(fc.tuple(name, tie('type')), { selector: ([one]) => one, maxLength: 4 })
        .map(fields => ({ type: 'record', name: `Record${named++}`, fields: fields.map(([name, type]) => ({ name, type })) })),
    ),
  }))

  test('is skipped up to its last byte', () => {
    fc.assert(
      fc.property(type, other => {
        const plain = plainType(other)
        const bytes = plain.toBuffer(plain.random())
        const shape = shapeOf(plain)
        expect(skip(shape, Buffer.concat([bytes, Buffer.from([1, 2, 3])]), 0, bytes.length)).toBe(bytes.length)
        if (bytes.length > 0) expect(skip(shape, bytes, 0, bytes.length - 1)).toBeGreaterThan(bytes.length - 1)
      }),
      { numRuns: 500 },
    )
  })
})
