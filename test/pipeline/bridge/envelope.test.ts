// The envelope of messages that a broker sends: where each part is looked up, and what it is by default.

import { expect, test } from 'vitest'
import { openEnvelopeReader, type Received } from '../../../pipeline/bridge/envelope.ts'
import type { BrokerOptions } from '../../../pipeline/bridge/options.ts'
import { isMqttSource, isSource } from '../../../pipeline/envelope/layout.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'

const receivedUs = 1_790_000_000_123_456
const id = '7ACB5F9E-3C0E-4A57-9D0A-5F9F0A3C1B77'

function read(envelope: Partial<BrokerOptions['envelope']>, received: Partial<Received>) {
  return openEnvelopeReader({ channel: ['topic'], ...envelope }, 1_000)(
    { topic: 'hall/press-7/a/b', payload: '{}', ...received },
    receivedUs,
  )
}

const properties = (userProperties: Record<string, string | string[]>) => ({ properties: { userProperties } })

test.each<[string, Partial<BrokerOptions['envelope']>, Partial<Received>, Partial<OutgoingMessage>]>([
  ['the whole topic', {}, {}, { channel: 'hall/press-7/a/b' }],
  ['a level of the topic', { channel: ['topic:2'] }, {}, { channel: 'press-7' }],
  ['the levels from one on', { channel: ['topic:2-'] }, {}, { channel: 'press-7/a/b' }],
  ['the next place for an empty level', { channel: ['topic:1', 'const:plant'] }, { topic: '/x' }, { channel: 'plant' }],
  ['a UUID in lower case', { channel: ['topic:1'] }, { topic: `${id}/x` }, { channel: id.toLowerCase() }],
  ['levels as parts of a subtopic', { subtopic: ['topic:3-'] }, {}, { subtopic: 'a.b' }],
  ['no empty parts', { subtopic: ['topic:2-'] }, { topic: 'a//b/c.d/' }, { subtopic: 'b.c.d' }],
  ['a text as it is', { subtopic: ['const:events'] }, {}, { subtopic: 'events' }],
  ['a field', { channel: ['field:device.id'] }, { payload: '{"device":{"id":"d7"}}' }, { channel: 'd7' }],
  ['a user property', { channel: ['header:device'] }, properties({ device: 'd1' }), { channel: 'd1' }],
  ['the last of repeated ones', { publisher: ['header:device'] }, properties({ device: ['d1', 'd2'] }), { publisher: 'd2' }],
  ['the properties of the defaults', {}, properties({ publisher: 'p', subtopic: 'x.y' }), { publisher: 'p', subtopic: 'x.y' }],
  ['nothing without them', {}, {}, { publisher: '', subtopic: '', contentType: '', protocol: 'mqtt' }],
  ['the content type', {}, { properties: { contentType: 'Application/JSON; charset=utf-8' } }, { contentType: 'application/json' }],
  ['another one', { contentType: ['const:application/senml+json'] }, {}, { contentType: 'application/senml+json' }],
  ['when it was received', {}, {}, { createdUs: receivedUs, createdRestNs: 0 }],
  ['a time', { created: ['field:at'] }, { payload: '{"at":1790000001}' }, { createdUs: 1_790_000_001_000_000 }],
  ['when it was received, without a time', { created: ['field:at'] }, {}, { createdUs: receivedUs }],
])('takes %s', (_what, envelope, received, expected) => {
  const { message, fault } = read(envelope, received)
  expect(fault).toBeUndefined()
  expect(message).toMatchObject(expected)
})

test('the topic and the user properties are headers, without those of the envelope', () => {
  const { message } = read({}, properties({ publisher: 'p', line: ['1', '2'] }))
  expect(message.headers).toEqual([
    { key: 'mqtt-topic', value: 'hall/press-7/a/b' },
    { key: 'line', value: '1' },
    { key: 'line', value: '2' },
  ])
})

test.each<[string, Partial<BrokerOptions['envelope']>, string]>([
  ['no-channel', { channel: ['header:device', 'topic:9'] }, '{}'],
  ['created', { created: ['field:at'] }, '{"at":"yesterday"}'],
  ['payload-size', { channel: ['field:device'] }, `{"a":"${'x'.repeat(1_000)}"}`],
])('what cannot be read keeps its payload, and has no key (%s)', (rule, envelope, payload) => {
  const { message, fault } = read(envelope, { payload })
  expect(fault).toMatchObject({ rule })
  expect(message).toMatchObject({ key: null, payload: Buffer.from(payload), createdUs: receivedUs })
  expect(message.headers![0]).toMatchObject({ key: 'mqtt-fault', value: expect.stringMatching(`^${rule}: `) })
})

test('a topic of Kafka has no levels, and a message of MQTT no key', () => {
  const places = ['key', 'topic', 'topic:2', 'topic:2-', 'topic:0', 'topic:-2', 'topic:x', 'header:x', 'field:a.b', 'const:x']
  expect(places.filter(isSource)).toEqual(['key', 'topic', 'header:x', 'field:a.b', 'const:x'])
  expect(places.filter(isMqttSource)).toEqual(['topic', 'topic:2', 'topic:2-', 'header:x', 'field:a.b', 'const:x'])
})
