// Publishing over MQTT: what is acknowledged is in the log, what is refused is not, and a full log makes clients wait.

import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import type { IPublishPacket } from 'mqtt-packet'
import { expect, test, vi } from 'vitest'
import { AccessUnavailableError } from '../../../control-plane/client.ts'
import { retainHeader } from '../../../pipeline/envelope-headers.ts'
import type { ArrivalListener } from '../../../pipeline/ingest/arrivals.ts'
import { LogUnavailableError, MessageRefusedError } from '../../../pipeline/log.ts'
import { fixture } from '../ingest/device.ts'
import { channel, key, looseKey, thing } from '../ingest/site.ts'
import { holdAppends, openSite, pack, payloadBytesMax, ping, publish, type SiteOptions, topic } from './site.ts'

const document = Buffer.from('{"temperature":21.5}')
const versions = [4, 5] as const
const nameOf = (version: 4 | 5): string => (version === 4 ? 'MQTT 3.1.1' : 'MQTT 5')

const taken: [what: string, topic: string, subtopic: string, payload: Buffer, contentType: string][] = [
  ['a channel', topic, '', pack, 'application/senml+json'],
  ['a topic with a slash before it', `/${topic}`, '', pack, 'application/senml+json'],
  ['a topic with a query', `${topic}?auth=${key}`, '', pack, 'application/senml+json'],
  ['a channel in upper case', `channels/${channel.toUpperCase()}/messages/`, '', pack, 'application/senml+json'],
  ['a subtopic', `${topic}/a//b/küche`, 'a.b.küche', pack, 'application/senml+json'],
  ['a format', `${topic}/weather`, 'weather', document, 'application/json'],
  ['a channel, in CBOR,', topic, '', Buffer.from('81a2006174026178', 'hex'), 'application/senml+cbor'],
]

for (const version of versions) {
  test.each(taken)(`${nameOf(version)}: a message to %s is stored with its envelope`, async (_, topic, subtopic, payload, contentType) => {
    const site = await openSite()
    const client = await site.connect(version)
    const beforeUs = Date.now() * 1000
    publish(client, { topic, payload, messageId: 65_535 })
    expect(await client.next()).toMatchObject({ cmd: 'puback', messageId: 65_535 })
    const [message] = site.log.messages
    expect(message).toMatchObject({ channel, subtopic, publisher: thing, protocol: 'mqtt', contentType, createdRestNs: 0 })
    expect(Buffer.from(message!.payload)).toEqual(payload)
    expect(message!.createdUs).toBeGreaterThanOrEqual(beforeUs)
  })

  test(`${nameOf(version)}: a message of QoS 0 is stored and counted`, async () => {
    const site = await openSite()
    const client = await site.connect(version)
    publish(client, { qos: 0 })
    await ping(client)
    expect(site.log.messages).toHaveLength(1)
    expect(await site.registry.metrics()).toContain('component_received_events_total{component_id="ingest",component_kind="source"} 1')
  })
}

test('the content type of MQTT 5 counts, with its parameters left out', async () => {
  const site = await openSite()
  const client = await site.connect(5)
  publish(client, { topic: `${topic}/a`, properties: { contentType: 'Application/JSON; charset=utf-8' } })
  await client.next()
  expect(site.log.messages).toMatchObject([{ contentType: 'application/json' }])
})

test('the option decides for messages without a content type', async () => {
  const site = await openSite({ contentType: 'application/senml+cbor' })
  const client = await site.connect(4)
  publish(client)
  await client.next()
  expect(site.log.messages).toMatchObject([{ contentType: 'application/senml+cbor' }])
})

type Refusal = [what: string, reasonCode: number, sentence: RegExp, own: Partial<IPublishPacket>]
const refusals: Refusal[] = [
  ['a channel that the thing is not connected to', 0x87, /authorization/, { topic: `channels/${randomUUID()}/messages` }],
  ['a channel id that is not a UUID', 0x87, /authorization/, { topic: 'channels/x/messages' }],
  ['another topic', 0x90, /the topic is not channels\//, { topic: 'v1/devices/me/telemetry' }],
  ['a subtopic with a space', 0x90, /a space or a control character/, { topic: `${topic}/a b` }],
  ['a subtopic that is too long', 0x90, /at most 128/, { topic: `${topic}/${'a'.repeat(129)}` }],
  ['a document without a subtopic', 0x90, /a JSON document needs a subtopic/, { payload: document }],
  ['an empty payload', 0x99, /is empty/, { payload: Buffer.alloc(0) }],
  ['a payload that is too large', 0x97, /larger than 1000 bytes/, { payload: Buffer.alloc(payloadBytesMax + 1, '[') }],
]

for (const version of versions) {
  for (const qos of [0, 1] as const) {
    test.each(refusals)(`${nameOf(version)}, QoS ${qos}: %s is refused`, async (_, reasonCode, sentence, own) => {
      const site = await openSite()
      const client = await site.connect(version)
      publish(client, { ...own, qos })
      if (version === 4) expect(await client.rest()).toEqual([])
      else {
        if (qos === 1)
          expect(await client.next()).toMatchObject({
            cmd: 'puback',
            messageId: 1,
            reasonCode,
            properties: { reasonString: expect.stringMatching(sentence) },
          })
        await ping(client)
      }
      expect(site.log.messages).toEqual([])
      expect(site.said[0]).toMatch(/^MQTT: message refused: /)
      expect(site.said[0]).toMatch(sentence)
      expect(await site.registry.metrics()).toMatch(/component_errors_total\{component_id="ingest".*\} 1/)
    })
  }

  test(`${nameOf(version)}: the log says which messages were published with the retain flag`, async () => {
    const site = await openSite()
    const client = await site.connect(version, { will: { topic, payload: pack, qos: 1, retain: true } })
    for (const [messageId, retain] of [true, false].entries()) publish(client, { messageId: messageId + 1, retain })
    for (const messageId of [1, 2]) expect(await client.next()).toMatchObject({ cmd: 'puback', messageId })
    client.socket.destroy()
    await expect.poll(() => site.log.messages.map(({ headers }) => headers)).toEqual([[retainHeader], undefined, [retainHeader]])
  })

  test(`${nameOf(version)}: a message above the quota is refused`, async () => {
    const site = await openSite({ thingMessagesPerMinute: 1 })
    const client = await site.connect(version)
    publish(client, { messageId: 1 })
    publish(client, { messageId: 2 })
    expect(await client.next()).toMatchObject({ cmd: 'puback', messageId: 1 })
    if (version === 4) expect(await client.rest()).toEqual([])
    else expect(await client.next()).toMatchObject({ messageId: 2, reasonCode: 0x97 })
    expect(site.log.messages).toHaveLength(1)
  })

  test(`${nameOf(version)}: a message that the log can never store is refused`, async () => {
    const site = await openSite({ append: () => Promise.reject(new MessageRefusedError('too large for the topic')) })
    const client = await site.connect(version)
    publish(client)
    if (version === 4) expect(await client.rest()).toEqual([])
    else expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0x97 })
  })

  test(`${nameOf(version)}: a key that is no longer valid ends the connection at the next message`, async () => {
    const site = await openSite()
    const client = await site.connect(version)
    site.keys.authorize = async () => ({ allowed: false, reason: 'unauthenticated' })
    publish(client)
    expect(await client.rest()).toMatchObject(version === 5 ? [{ cmd: 'disconnect', reasonCode: 0x87 }] : [])
    expect(site.log.messages).toEqual([])
  })
}

test('no line of the log has a key, nor what the console shows', async () => {
  const refused = vi.fn<ArrivalListener['refused']>()
  const site = await openSite({ arrivals: { accepted: () => undefined, refused } })
  const client = await site.connect(5)
  publish(client, { topic: `elsewhere?auth=${key}` })
  await client.next()
  publish(client, { topic: `channels/elsewhere?auth=${key}` })
  await client.next()
  publish(client, { topic: '' })
  await client.rest()
  await (await site.open(5, { password: Buffer.from(`${key} `) })).rest()
  expect(site.said).toHaveLength(4)
  expect(site.fieldsOfLines[0]).toMatchObject({ address: '127.0.0.1', client: 'device-1', topic: 'elsewhere', code: 'malformed_request' })
  expect(JSON.stringify([site.said, site.fieldsOfLines, refused.mock.calls])).not.toContain(key)
})

test('MQTT 5: an unknown content type is refused', async () => {
  const site = await openSite()
  const client = await site.connect(5)
  publish(client, { properties: { contentType: 'text/csv' } })
  expect(await client.next()).toMatchObject({ reasonCode: 0x99, properties: { reasonString: expect.stringContaining('text/csv') } })
})

test.each([{ requestProblemInformation: false }, { maximumPacketSize: 100 }])(
  'a client with %j gets codes without texts',
  async properties => {
    const site = await openSite()
    const client = await site.connect(5, { properties })
    publish(client, { topic: 'elsewhere' })
    const puback = await client.next()
    expect(puback).toMatchObject({ reasonCode: 0x90 })
    expect(puback).not.toHaveProperty('properties')
  },
)

test('topic aliases stand for the topic that they were set to', async () => {
  const site = await openSite()
  const client = await site.connect(5)
  publish(client, { topic: `${topic}/a`, properties: { topicAlias: 16 } })
  publish(client, { topic: '', messageId: 2, properties: { topicAlias: 16 } })
  publish(client, { topic: `${topic}/b`, messageId: 3, properties: { topicAlias: 16 } })
  publish(client, { topic: '', messageId: 4, properties: { topicAlias: 16 } })
  for (const messageId of [1, 2, 3, 4]) expect(await client.next()).toMatchObject({ cmd: 'puback', messageId, reasonCode: 0 })
  expect(site.log.messages.map(({ subtopic }) => subtopic)).toEqual(['a', 'a', 'b', 'b'])
})

test.each([
  ['above the maximum', 0x94, { topicAlias: 17 }],
  ['that was not set', 0x82, { topicAlias: 3 }],
])('a topic alias %s ends the connection', async (_, reasonCode, properties) => {
  const site = await openSite()
  const client = await site.connect(5)
  publish(client, { topic: '', properties })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode }])
})

test('a message is acknowledged after the log has it, and not before', async () => {
  const { waiting, append } = holdAppends()
  const site = await openSite({ append })
  const client = await site.connect()
  publish(client)
  await expect.poll(() => waiting).toHaveLength(1)
  await ping(client)
  expect(site.log.messages).toEqual([])
  waiting[0]!()
  expect(await client.next()).toMatchObject({ cmd: 'puback', messageId: 1 })
  expect(site.log.messages).toHaveLength(1)
})

test('messages are acknowledged in the order of arrival, whichever is durable first', async () => {
  const { waiting, append } = holdAppends()
  const site = await openSite({ append })
  const client = await site.connect()
  for (const messageId of [7, 3, 5]) publish(client, { messageId })
  await expect.poll(() => waiting).toHaveLength(3)
  for (const release of waiting.toReversed()) release()
  for (const messageId of [7, 3, 5]) expect(await client.next()).toMatchObject({ cmd: 'puback', messageId })
})

test('MQTT 5: more unacknowledged messages than the Receive Maximum end the connection', async () => {
  const { waiting, append } = holdAppends()
  const site = await openSite({ append, inFlightMax: 2 })
  const client = await site.connect(5)
  for (const messageId of [1, 2, 3]) publish(client, { messageId })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x93 }])
  expect(waiting).toHaveLength(2)
  for (const release of waiting) release()
})

test.each([
  [4, 1],
  [4, 0],
  [5, 0],
] as const)('MQTT version %i, QoS %i: messages beyond those in flight wait, and none is lost', async (version, qos) => {
  const { waiting, append } = holdAppends()
  const site = await openSite({ append, inFlightMax: 2 })
  const client = await site.connect(version)
  for (let messageId = 1; messageId <= 10; messageId++) publish(client, { messageId, qos })
  client.send({ cmd: 'pingreq' })
  await expect.poll(() => waiting).toHaveLength(2)
  for (let turns = 0; turns < 20; turns++) await turn()
  for (let released = 0; released < 10; released++) {
    await expect.poll(() => waiting.length).toBeGreaterThan(released)
    expect(waiting.length - released).toBeLessThanOrEqual(2)
    waiting[released]!()
  }
  const answers = qos === 0 ? 1 : 11
  const packets = []
  while (packets.length < answers) packets.push((await client.next())?.cmd)
  expect(packets.filter(cmd => cmd === 'puback')).toHaveLength(answers - 1)
  expect(site.log.messages).toHaveLength(10)
})

test('a full log stops reading from the socket, and everything is stored in order when it has room', async () => {
  const site = await openSite({ inFlightMax: 1_000 })
  site.log.failure = new LogUnavailableError('the queue of the log is full')
  const client = await site.connect(4, { keepalive: 10 })
  const keepAlive = site.timers.at(-1)!
  const payload = Buffer.from(`[{"n":"${'a'.repeat(900)}","v":1}]`)
  let sent = 0
  // Until the buffers of both sides are full.
  for (; !client.socket.writableNeedDrain || client.socket.writableLength < 1_000_000; sent++) {
    publish(client, { payload, messageId: sent + 1, topic: `${topic}/${sent}` })
    if (sent % 100 === 0) await turn()
  }
  client.send({ cmd: 'pingreq' })
  // A client that is not read is not silent.
  keepAlive.fire()
  expect(site.log.messages).toEqual([])
  expect(client.socket.destroyed).toBe(false)
  site.log.failure = undefined
  const answers = []
  while (answers.length <= sent) answers.push(await client.next())
  const acknowledged = answers.flatMap(packet => (packet?.cmd === 'puback' ? [packet.messageId] : []))
  expect(acknowledged).toEqual(Array.from({ length: sent }, (_, at) => at + 1))
  expect(site.log.messages.map(({ subtopic }) => Number(subtopic))).toEqual(Array.from({ length: sent }, (_, at) => at))
})

test('a message waits while keys cannot be checked, and is stored only if its right still stands', async () => {
  const site = await openSite()
  const client = await site.connect()
  site.keys.fail = new AccessUnavailableError('away')
  publish(client)
  await expect.poll(() => site.keys.requests.length).toBeGreaterThan(3)
  site.keys.authorize = async () => ({ allowed: false, reason: 'forbidden' })
  expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0x87 })
  expect(site.log.messages).toEqual([])
})

test('a client that leaves while the log is full is not acknowledged, and what it sent is not appended later', async () => {
  const site = await openSite()
  site.log.failure = new LogUnavailableError('away')
  const client = await site.connect()
  publish(client)
  await ping(client)
  client.socket.resetAndDestroy()
  await expect.poll(() => site.said).toContainEqual(expect.stringMatching(/^MQTT: message refused: .*retry/))
  site.log.failure = undefined
  expect(site.log.messages).toEqual([])
})

test.each([
  ['TCP', {}],
  ['TLS', { tls: { cert: fixture('server'), key: fixture('server-key') }, ca: fixture('ca') }],
] as const)('%s: packets that arrived before the end of the client are handled, and its will is not published', async (_, options) => {
  for (const qos of [0, 1] as const) {
    // The end of the client arrives while the first messages are being stored.
    const append: SiteOptions['append'] = (messages, log) => turn().then(() => log.append(messages))
    const site = await openSite({ ...options, append, inFlightMax: qos === 1 ? 50 : 4 })
    const client = await site.connect(5, { will })
    const numbers = Array.from({ length: 50 }, (_, at) => at + 1)
    client.socket.cork()
    for (const messageId of numbers) publish(client, { qos, messageId, topic: `${topic}/${messageId}` })
    client.send({ cmd: 'disconnect' })
    client.socket.uncork()
    client.socket.end()
    const answers = await client.rest()
    expect(answers.filter(({ cmd }) => cmd === 'puback').map(({ messageId }) => messageId)).toEqual(qos === 1 ? numbers : [])
    await site.close(1_000)
    expect(site.log.messages.map(({ subtopic }) => Number(subtopic))).toEqual(numbers)
  }
})

const will = { topic: `${topic}/lost`, payload: Buffer.from('{"online":false}') }

for (const version of versions) {
  test(`${nameOf(version)}: the will is published when the connection breaks, and not after a DISCONNECT`, async () => {
    const site = await openSite()
    const [polite, lost] = [await site.connect(version, { will, clientId: 'a' }), await site.connect(version, { will, clientId: 'b' })]
    polite.send({ cmd: 'disconnect' })
    await polite.rest()
    lost.socket.resetAndDestroy()
    await expect.poll(() => site.log.messages).toHaveLength(1)
    expect(site.log.messages).toMatchObject([
      { channel, subtopic: 'lost', publisher: thing, protocol: 'mqtt', contentType: 'application/json' },
    ])
  })

  test(`${nameOf(version)}: the will of a connection that another takes over is published`, async () => {
    const site = await openSite()
    await site.connect(version, { will })
    await site.connect(version)
    await expect.poll(() => site.log.messages).toHaveLength(1)
  })

  test(`${nameOf(version)}: a will passes the checks of a message`, async () => {
    const site = await openSite()
    const client = await site.connect(version, { will, username: '', password: Buffer.from(looseKey) })
    client.socket.destroy()
    await expect.poll(() => site.said).toEqual([expect.stringMatching(/^MQTT: message refused: /)])
    expect(site.log.messages).toEqual([])
  })
}

test.each([0x04, 0x80, 0x97])('MQTT 5: a DISCONNECT with reason code %i publishes the will', async reasonCode => {
  const site = await openSite()
  const client = await site.connect(5, { will })
  client.send({ cmd: 'disconnect', reasonCode })
  await expect.poll(() => site.log.messages).toHaveLength(1)
})

test('a stop publishes no will: its devices are not lost', async () => {
  const site = await openSite()
  const client = await site.connect(5, { will })
  await site.close(1_000)
  await client.rest()
  expect(site.log.messages).toEqual([])
})
