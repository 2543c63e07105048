// How framed messages are decoded, and the faults of those that cannot be.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeFrame, frame } from '../../../../pipeline/kafka/confluent/encode.ts'
import { envelopeSchema } from '../../../../pipeline/kafka/confluent/envelope-schema.ts'
import { unknownSchema, unusableSchema } from '../../../../pipeline/kafka/confluent/faults.ts'
import { type Decoding, schemaIdOf } from '../../../../pipeline/kafka/confluent/framed-cursor.ts'
import { jsonPlan } from '../../../../pipeline/kafka/confluent/record-plan.ts'
import type { OutgoingMessage } from '../../../../pipeline/log.ts'
import { outgoing } from '../../message.ts'
import { framed, framedChunk, messageOf, messagesOf, ourId, ourPlan, ourType } from './framed-messages.ts'

const text = fc.string({ unit: 'grapheme', maxLength: 80 })
const outgoingMessage: fc.Arbitrary<OutgoingMessage> = fc
  .record({
    channel: text.filter(channel => channel !== ''),
    subtopic: text,
    publisher: text,
    protocol: text.filter(protocol => protocol !== ''),
    contentType: fc.constantFrom('', 'application/senml+json', 'text/x-ü'),
    createdUs: fc.maxSafeInteger(),
    createdRestNs: fc.nat(999),
    payload: fc.uint8Array({ maxLength: 300 }),
  })
  .map(fields => fields as OutgoingMessage)

test('avsc decodes what we frame', () => {
  fc.assert(
    fc.property(outgoingMessage, message => {
      const value = encodeFrame(message, 0x01020304)
      expect([...value.subarray(0, 5)]).toEqual([0, 1, 2, 3, 4])
      expect(schemaIdOf(value)).toBe(0x01020304)
      expect(ourType.fromBuffer(value.subarray(5))).toEqual({
        channel: message.channel,
        subtopic: message.subtopic,
        publisher: message.publisher,
        protocol: message.protocol,
        created: BigInt(message.createdUs) * 1000n + BigInt(message.createdRestNs),
        content_type: message.contentType,
        payload: Buffer.from(message.payload),
      })
    }),
  )
})

test('what avsc encodes is the message, many in one chunk', () => {
  fc.assert(
    fc.property(fc.array(outgoingMessage, { minLength: 1, maxLength: 5 }), messages => {
      const chunk = framedChunk(
        messages.map(({ createdUs, createdRestNs, contentType, payload, ...texts }) => ({
          key: 'another',
          value: framed(
            ourType.toBuffer({
              ...texts,
              created: BigInt(createdUs) * 1000n + BigInt(createdRestNs),
              content_type: contentType,
              payload: Buffer.from(payload),
            }),
          ),
        })),
      )
      expect(messagesOf(chunk)).toEqual(messages.map((message, offset) => ({ ...message, offset, fault: undefined })))
    }),
  )
})

test('a message that we frame is decoded unchanged, also if its texts contain what UTF-8 cannot represent', () => {
  const message = outgoing({ subtopic: 'a\ud800b', publisher: 'p'.repeat(70) })
  expect(messageOf(encodeFrame(message, ourId))).toEqual({ ...message, subtopic: 'a\ufffdb', offset: 0, fault: undefined })
})

test('an encoded message is not framed again, and a framed one keeps its own headers and its channel as the key', () => {
  const letter = outgoing({ channel: '', key: null, headers: [{ key: 'a', value: '1' }] })
  expect(frame(letter, ourId)).toBe(letter)
  const { key, headers, payload } = frame(outgoing({ headers: letter.headers! }), ourId)
  expect([Buffer.from(key!).toString(), headers]).toEqual(['c1', letter.headers])
  expect(schemaIdOf(payload)).toBe(ourId)
  expect(frame(outgoing({ channel: '' }), ourId).key).toBeNull()
})

const whole = { channel: 'c1', subtopic: 'a.b', publisher: 't1', protocol: 'mqtt', content_type: 'a/b', payload: Buffer.from('x') }
const record = ourType.toBuffer({ ...whole, created: 5000n })

test('the channel comes from the record and not from the key, and headers do not count', () => {
  const headers = [
    ['subtopic', 'from.a.header'],
    ['publisher', Buffer.from([0xff])],
  ] as const
  for (const key of ['another', null, Buffer.from([0xff])]) {
    expect(messageOf(framed(record), undefined, { key, headers })).toMatchObject({
      fault: undefined,
      channel: 'c1',
      subtopic: 'a.b',
      publisher: 't1',
    })
  }
})

test('a content type becomes its media type, and an empty protocol becomes kafka, as in a message without a frame', () => {
  const value = framed(ourType.toBuffer({ ...whole, protocol: '', content_type: 'Text/Plain; charset=utf-8', created: 0n }))
  expect(messageOf(value)).toMatchObject({ fault: undefined, protocol: 'kafka', contentType: 'text/plain' })
})

test('JSON that follows a frame is the payload, and the rest is taken from the Kafka message', () => {
  const value = (text: string): Buffer => framed(Buffer.from(text))
  const rest = { fault: undefined, channel: 'c1', subtopic: '', publisher: '', protocol: 'kafka', contentType: '' }
  for (const json of ['{"a":1}', ''])
    expect(messageOf(value(json), jsonPlan)).toMatchObject({ ...rest, payload: new TextEncoder().encode(json) })
  expect(messageOf(value('{}'), jsonPlan, { key: null }).fault?.rule).toBe('no-key')
  expect(messageOf(Buffer.from('{"a":1}'), jsonPlan).fault?.rule).toBe('confluent-frame')
  expect(messageOf(null, jsonPlan).fault?.rule).toBe('no-value')
})

test('an empty channel is taken from the key, and without a key the message has none', () => {
  const value = framed(ourType.toBuffer({ ...whole, channel: '', created: 0n }))
  expect(messageOf(value)).toMatchObject({ fault: undefined, channel: 'c1' })
  expect(messageOf(value, undefined, { key: null }).fault?.rule).toBe('no-key')
  expect(messageOf(value, undefined, { key: Buffer.from([0xff]) }).fault?.rule).toBe('key-text')
})

describe('an unreadable message is a dead letter, and affects no other', () => {
  const badText = framed(Buffer.from(record.toString('latin1').replace('a.b', '\xff\xff\xff'), 'latin1'))
  const cases: [name: string, value: Uint8Array | null, rule: string, reason: RegExp][] = [
    ['nothing', Buffer.alloc(0), 'confluent-frame', /does not start with the byte 0/],
    ['a payload without a frame', Buffer.from('[{"n":"a","v":1}]'), 'confluent-frame', /does not start with the byte 0/],
    ['a head that is cut', Buffer.from([0, 0, 0, 0]), 'confluent-frame', /does not start with the byte 0/],
    ['a negative id', framed(record, -5), 'confluent-frame', /does not start with the byte 0/],
    ['a frame without a record', framed(Buffer.alloc(0)), 'confluent-frame', /not a record of its schema/],
    ['a record that is cut', framed(record.subarray(0, -1)), 'confluent-frame', /not a record of its schema/],
    ['something behind the record', framed(Buffer.concat([record, Buffer.from([0])])), 'confluent-frame', /not a record of its schema/],
    ['a text that is not UTF-8', badText, 'confluent-frame', /not UTF-8/],
    ['no value', null, 'no-value', /has no value/],
    ['a schema that the registry does not have', framed(record, 8), 'schema-unknown', /has no schema 8/],
    ['a schema that is not a record', framed(record, 9), 'schema-unusable', /schema 9 .* it is a string/],
  ]
  const decodings = new Map<number, Decoding>([
    [ourId, ourPlan],
    [8, unknownSchema(8)],
    [9, unusableSchema(9, 'it is a string, not a record')],
  ])

  test.each(cases)('%s', (_name, value, rule, reason) => {
    const key = 'the key'
    const messages = messagesOf(framedChunk([{ value: framed(record) }, { key, value }, { value: framed(record) }], decodings))
    expect(messages.map(({ fault }) => fault?.rule)).toEqual([undefined, rule, undefined])
    const [before, refused, after] = messages
    expect(refused!.fault!.reason).toMatch(reason)
    expect(refused!.fault!.hint).not.toBe('')
    // No subject may filter it.
    expect(refused!.fault!.subjectKnown).toBeUndefined()
    expect(refused).toMatchObject({ channel: key, subtopic: '', publisher: '', protocol: 'kafka', contentType: '' })
    expect(refused!.payload).toHaveLength(0)
    expect({ ...before, offset: 2 }).toEqual(after)
  })
})

test('a message with more than a thousand headers is a dead letter, as without a frame: none of them could be a part of its envelope', () => {
  const headers = Array.from({ length: 1001 }, () => ['device', 'd1'] as const)
  expect(messageOf(framed(record), ourPlan, { headers })).toMatchObject({ channel: 'c1', fault: { rule: 'header-limit' } })
  expect(messageOf(framed(record), ourPlan, { headers: headers.slice(1) })).toMatchObject({ fault: undefined })
})

test('a time beyond 2^53 microseconds is a fault of a message whose subject is known', () => {
  for (const created of [2n ** 63n - 1n, -(2n ** 63n)]) {
    const message = messageOf(framed(ourType.toBuffer({ ...whole, created })))
    expect(message).toMatchObject({ channel: 'c1', subtopic: 'a.b', createdUs: 0, createdRestNs: 0 })
    expect(message.fault).toMatchObject({ rule: 'created', subjectKnown: true })
  }
})

test('the value is returned unchanged, with key and headers, whether it was decoded or not', () => {
  const values = [framed(record), Buffer.from('no frame'), framed(record, 8)]
  const chunk = framedChunk(
    values.map(value => ({ key: 'k', value, headers: [['mqtt-retain', '1']] as const })),
    new Map<number, Decoding>([
      [ourId, ourPlan],
      [8, unknownSchema(8)],
    ]),
  )
  const cursor = chunk.cursor()
  for (const value of values) {
    expect(cursor.next()).toBe(true)
    expect(Buffer.from(cursor.value!())).toEqual(value)
    expect(Buffer.from(cursor.key()!).toString()).toBe('k')
    expect(cursor.headers()).toEqual([{ key: 'mqtt-retain', value: '1' }])
    expect(cursor.isRetained!()).toBe(true)
  }
  expect(cursor.next()).toBe(false)
})

test('a chunk whose schemas were not looked up is a bug', () => {
  expect(() => messagesOf(framedChunk([{ value: framed(record, 12) }]))).toThrow('the schema 12 was not looked up')
})

test('old and new versions of the registered schema can read each other: optional fields have a default', () => {
  const required = envelopeSchema.fields.filter(field => !('default' in field)).map(({ name }) => name)
  expect(required).toEqual(['channel', 'created', 'payload'])
})
