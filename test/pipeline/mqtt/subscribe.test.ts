// What subscribers hear, when, and how often; and which subscriptions are refused.
//
// Longer than most files: all share what is appended and heard.

import { setImmediate as turn } from 'node:timers/promises'
import type { IPublishPacket, ISubackPacket, ISubscription, Packet } from 'mqtt-packet'
import { expect, test } from 'vitest'
import { AccessUnavailableError } from '../../../control-plane/client.ts'
import { openRetainedRecords } from '../../../pipeline/mqtt/retained/records.ts'
import { channel, looseKey, thing } from '../ingest/site.ts'
import type { FakeTopic } from '../live/fake-topic.ts'
import type { Client, Version } from './client.ts'
import { type MqttSite, openSite, publish } from './site.ts'

const base = `channels/${channel}/messages`
const other = crypto.randomUUID()

type Own = Partial<ISubscription> & { readonly identifier?: number }

async function subscribe(client: Client, filters: readonly string[], { identifier, ...own }: Own = {}): Promise<number[]> {
  client.send({
    cmd: 'subscribe',
    messageId: 7,
    subscriptions: filters.map(topic => ({ topic, qos: 1, ...own })),
    ...(identifier === undefined ? {} : { properties: { subscriptionIdentifier: identifier } }),
  })
  const suback = (await client.next()) as ISubackPacket
  expect(suback).toMatchObject({ cmd: 'suback', messageId: 7 })
  return suback.granted as number[]
}

function append({ topic }: MqttSite, payload: string, own: Parameters<FakeTopic['appendPayload']>[3] = {}): void {
  topic.appendPayload(0, channel, payload, own)
}

async function published(client: Client): Promise<IPublishPacket> {
  const packet = await client.next()
  expect(packet?.cmd).toBe('publish')
  return packet as IPublishPacket
}

async function delivered({ registry }: MqttSite): Promise<number> {
  return Number(/component_sent_events_total\{component_id="mqtt".*\} (\d+)/.exec(await registry.metrics())?.[1] ?? 0)
}

const textOf = ({ payload }: IPublishPacket): string => payload.toString()

/** The payloads until this one, acknowledged. */
async function heard(client: Client, last = 'last'): Promise<string[]> {
  const all: string[] = []
  for (;;) {
    const packet = await published(client)
    if (packet.qos === 1) client.send({ cmd: 'puback', messageId: packet.messageId! })
    if (textOf(packet) === last) return all
    all.push(textOf(packet))
  }
}

test.each<[filter: string, subtopics: readonly string[]]>([
  [base, ['']],
  [`/${base}`, ['']],
  [`${base}?auth=x`, ['']],
  [`${base}/`, ['']],
  [`${base}/#`, ['', 'a', 'b', 'a.b', 'a.b.c']],
  [`${base}/+`, ['a', 'b']],
  [`${base}/a`, ['a']],
  [`${base}/a/b`, ['a.b']],
  [`${base}/a.b`, ['a.b']],
  [`${base}/a/#`, ['a', 'a.b', 'a.b.c']],
  [`${base}/+/b`, ['a.b']],
  [`${base}/+/+/#`, ['a.b', 'a.b.c']],
  [base.toUpperCase().replace('CHANNELS', 'channels').replace('MESSAGES', 'messages'), ['']],
])('the filter %s matches the subtopics %j', async (filter, expected) => {
  const site = await openSite()
  const client = await site.connect()
  expect(await subscribe(client, [filter, `${base}/last`])).toEqual([1, 1])
  for (const subtopic of ['', 'a', 'b', 'a.b', 'a.b.c']) append(site, subtopic, { subtopic })
  append(site, 'last', { subtopic: 'last' })
  const found = await heard(client)
  expect(found.filter(subtopic => subtopic !== 'last')).toEqual(expected)
})

const refused: [filter: string, code: number, sentence: RegExp][] = [
  [`channels/${other}/messages`, 0x87, /not connected to the channel/],
  ['channels/nothing/messages/#', 0x87, /not connected to the channel/],
  ['#', 0x87, /names one channel/],
  ['+/#', 0x87, /names one channel/],
  ['channels/#', 0x87, /names one channel/],
  ['channels/+/messages', 0x87, /names one channel/],
  ['$SYS/#', 0x8f, /is not channels/],
  [`channels/${channel}`, 0x8f, /is not channels/],
  [`${base}/a+`, 0x8f, /stands alone/],
  [`${base}/a#`, 0x8f, /stands alone/],
  [`${base}/#/a`, 0x8f, /stands alone/],
  [`${base}/a.#`, 0x8f, /stands alone/],
  [`${base}/a.+`, 0x8f, /stands alone/],
  [`${base}?${'a'.repeat(2_048)}`, 0x8f, /more than 2048 bytes/],
  [`${base}${'/a'.repeat(20)}`, 0x8f, /more than 16 levels/],
  [`$share/group/${base}`, 0x9e, /shared subscriptions are turned off/],
  [`$share/group/channels/${other}/messages`, 0x9e, /shared subscriptions are turned off/],
  ['$share', 0x8f, /a shared filter is/],
  [`$share//${base}`, 0x8f, /a shared filter is/],
  [`$share/a+/${base}`, 0x8f, /a shared filter is/],
  [`$share/a#/${base}`, 0x8f, /a shared filter is/],
  [`$share/a?b/${base}`, 0x8f, /a shared filter is/],
  ['$share/group', 0x8f, /a shared filter is/],
  ['$share/group/plant/#', 0x8f, /is not channels/],
  ['$share/group/channels/+/messages', 0x87, /names one channel/],
]

test.each(refused)('the filter %s is refused with %i, and the connection stays', async (filter, code, sentence) => {
  const site = await openSite()
  for (const version of [5, 4] as const) {
    const client = await site.connect(version)
    expect(await subscribe(client, [filter])).toEqual([version === 5 ? code : 0x80])
    expect(site.said.at(-1)).toMatch(sentence)
    client.send({ cmd: 'pingreq' })
    expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  }
})

test('a thing that is connected to no channel hears nothing of one that exists', async () => {
  const site = await openSite()
  const client = await site.connect(5, { password: Buffer.from(looseKey) })
  expect(await subscribe(client, [base])).toEqual([0x87])
})

test.each([4, 5] as const)('version %i: messages of all protocols arrive as they are in the log, with the granted QoS', async version => {
  const site = await openSite()
  const client = await site.connect(version)
  append(site, 'before')
  expect(await subscribe(client, [`${base}/#`], { qos: 1 })).toEqual([1])
  const payload = '[{"n":"a","v":1}]'
  append(site, payload, { subtopic: 'a.b', contentType: 'application/senml+json', protocol: 'http' })
  append(site, 'not SenML', { protocol: 'kafka' })
  const first = await published(client)
  expect(first).toMatchObject({ topic: `${base}/a/b`, qos: 1, retain: false, dup: false })
  expect(first.properties?.contentType).toBe(version === 5 ? 'application/senml+json' : undefined)
  expect(textOf(first)).toBe(payload)
  const second = await published(client)
  expect(second).toMatchObject({ topic: base, qos: 1 })
  expect(textOf(second)).toBe('not SenML')
  expect(second.messageId).not.toBe(first.messageId)
  expect(await site.registry.metrics()).toContain('component_sent_events_total{component_id="mqtt",component_kind="source"} 2')
})

test('a message that matches several filters is sent once, with the highest QoS and the ids of all', async () => {
  const site = await openSite()
  const client = await site.connect()
  await subscribe(client, [`${base}/#`], { qos: 0, identifier: 3 })
  await subscribe(client, [`${base}/a`], { qos: 1, identifier: 268_435_455 })
  append(site, 'both', { subtopic: 'a' })
  append(site, 'one', { subtopic: 'b' })
  expect(await published(client)).toMatchObject({ qos: 1, properties: { subscriptionIdentifier: [3, 268_435_455] } })
  expect(await published(client)).toMatchObject({ qos: 0, properties: { subscriptionIdentifier: 3 } })
})

test('no local leaves out what the thing itself published', async () => {
  const site = await openSite()
  const client = await site.connect()
  await subscribe(client, [base], { nl: true })
  append(site, 'own', { publisher: thing })
  append(site, 'last', { publisher: 'another' })
  expect(await heard(client)).toEqual([])
})

test.each([0, 1] as const)(
  'retain as published with QoS %i: messages have the flag that they had, also beside others that share them',
  async qos => {
    const site = await openSite()
    const flags: [client: Client, expected: boolean][] = []
    for (const rap of [true, false]) {
      for (const filters of [[base], [base, `${base}/#`]]) {
        const client = await site.connect(5, { clientId: crypto.randomUUID() })
        await subscribe(client, filters, { qos, rap })
        flags.push([client, rap])
      }
    }
    append(site, 'flagged', { isRetained: true })
    append(site, 'unflagged')
    for (const [client, rap] of flags) {
      expect(await published(client)).toMatchObject({ retain: rap, dup: false, qos })
      expect(await published(client)).toMatchObject({ retain: false, dup: false, qos })
    }
  },
)

test('a filter that is sent again takes the place of the one before, and after UNSUBSCRIBE nothing arrives', async () => {
  const site = await openSite()
  const client = await site.connect()
  await subscribe(client, [base], { qos: 1 })
  expect(await subscribe(client, [base], { qos: 0 })).toEqual([0])
  append(site, 'first')
  expect(await published(client)).toMatchObject({ qos: 0 })
  client.send({ cmd: 'unsubscribe', messageId: 9, unsubscriptions: [base, `${base}/a`] })
  expect(await client.next()).toMatchObject({ cmd: 'unsuback', messageId: 9, granted: [0, 0x11] })
  append(site, 'unheard')
  await subscribe(client, [`${base}/a`])
  append(site, 'last', { subtopic: 'a' })
  expect(await heard(client)).toEqual([])
})

test('a connection has at most so many subscriptions', async () => {
  const site = await openSite({ subscriptionsMax: 2 })
  const client = await site.connect()
  expect(await subscribe(client, [base, `${base}/a`, `${base}/b`, base])).toEqual([1, 1, 0x97, 1])
})

test('where subscribing is turned off, CONNACK and SUBACK say so', async () => {
  const site = await openSite({ subscriptionsMax: 0 })
  const client = await site.connect()
  expect(client.connack.properties).toMatchObject({ wildcardSubscriptionAvailable: false, subscriptionIdentifiersAvailable: false })
  expect(await subscribe(client, [base])).toEqual([0x83])
})

test('no more are unacknowledged than the client allows; the rest waits in the log, in order, and nothing is lost', async () => {
  const site = await openSite({ inFlightMax: 4 })
  const client = await site.connect(5, { properties: { receiveMaximum: 2 } })
  await subscribe(client, [base])
  for (let nth = 0; nth < 50; nth++) append(site, String(nth))
  const [first, second] = [await published(client), await published(client)]
  client.send({ cmd: 'pingreq' })
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  // Out of order.
  client.send({ cmd: 'puback', messageId: second.messageId! })
  const third = await published(client)
  expect([first, second, third].map(textOf)).toEqual(['0', '1', '2'])
  client.send({ cmd: 'puback', messageId: first.messageId! })
  client.send({ cmd: 'puback', messageId: third.messageId! })
  append(site, 'last')
  expect(await heard(client)).toEqual(Array.from({ length: 47 }, (_, nth) => String(nth + 3)))
})

test('a client that does not read costs no memory here, and then gets everything', async () => {
  const site = await openSite()
  const client = await site.connect()
  const quick = await site.connect(5, { clientId: 'quick' })
  for (const one of [client, quick]) await subscribe(one, [base], { qos: 0 })
  client.socket.pause()
  const payload = 'x'.repeat(200_000)
  const numbers = Array.from({ length: 60 }, (_, nth) => `${String(nth).padStart(3, '0')} ${payload}`)
  for (const text of numbers) append(site, text)
  append(site, 'last')
  expect((await heard(quick)).length).toBe(60)
  client.socket.resume()
  expect(await heard(client)).toEqual(numbers)
})

test('pings of a client that takes large messages slowly are answered, and it is not silent', async () => {
  const site = await openSite()
  const client = await site.connect(5, { keepalive: 10 })
  await subscribe(client, [base], { qos: 0 })
  const keepAlive = site.timers.at(-1)!
  client.socket.pause()
  const payload = 'x'.repeat(200_000)
  for (let nth = 0; nth < 60; nth++) append(site, payload)
  // More than the buffers of both sides hold.
  await expect.poll(() => delivered(site)).toBeGreaterThan(5)
  await expect.poll(async () => (await delivered(site)) === (await delivered(site))).toBe(true)
  const before = keepAlive.restarts
  client.send({ cmd: 'pingreq' })
  await expect.poll(() => keepAlive.restarts).toBe(before + 1)
  client.socket.resume()
  for (let nth = 0; nth < 60; nth++) expect((await client.next())?.cmd).toMatch(/publish|pingresp/)
})

test('a client that takes neither messages nor answers is silent', async () => {
  const site = await openSite()
  const client = await site.connect(4, { keepalive: 10 })
  await subscribe(client, [base], { qos: 0 })
  const keepAlive = site.timers.at(-1)!
  client.socket.pause()
  for (let nth = 0; nth < 60; nth++) append(site, 'x'.repeat(200_000))
  const payload = Buffer.from(`[{"n":"${'a'.repeat(900)}","v":1}]`)
  // Until it is not read, as it has more answers to take than are kept for it.
  for (let sent = 0; !client.socket.writableNeedDrain || client.socket.writableLength < 1_000_000; sent++) {
    publish(client, { payload, messageId: (sent % 65_535) + 1, topic: `${base}/own` })
    if (sent % 100 === 0) await turn()
  }
  keepAlive.fire()
  expect(site.said).toEqual([expect.stringContaining('keep-alive')])
})

test('what is larger than the client takes is left out', async () => {
  const site = await openSite()
  const client = await site.connect(5, { properties: { maximumPacketSize: 300 } })
  await subscribe(client, [base])
  append(site, 'x'.repeat(300))
  append(site, 'last')
  expect(await heard(client)).toEqual([])
})

test('a subtopic of another producer that is no topic is left out', async () => {
  const site = await openSite()
  const client = await site.connect()
  await subscribe(client, [`${base}/#`])
  append(site, 'plus', { subtopic: 'a+' })
  append(site, 'hash', { subtopic: '#' })
  append(site, 'nul', { subtopic: 'a\0' })
  append(site, 'long', { subtopic: 'a'.repeat(65_500) })
  append(site, 'long type', { contentType: 'a'.repeat(65_536) })
  append(site, 'last')
  expect(await heard(client)).toEqual([])
})

test.each<[what: string, end: (site: MqttSite) => void, reasonCode: number]>([
  ['the thing is disconnected from the channel', site => site.change({ kind: 'disconnected', thing, channel }), 0x87],
  ['the channel is deleted', site => site.change({ kind: 'channel', channel }), 0x87],
])('when %s, the connection ends', async (_what, end, reasonCode) => {
  const site = await openSite()
  const client = await site.connect()
  await subscribe(client, [base])
  site.keys.isConnected = false
  end(site)
  expect(await client.next()).toMatchObject({ cmd: 'disconnect', reasonCode })
  expect(await client.next()).toBeUndefined()
})

test('the right to a channel is asked for once', async () => {
  const site = await openSite()
  const client = await site.connect()
  const asked = site.keys.requests.length
  expect(await subscribe(client, [base, `${base}/a`])).toEqual([1, 1])
  expect(site.keys.requests.slice(asked)).toMatchObject([{ channel, action: 'read' }])
})

test('a right that ends while it is asked for is refused', async () => {
  const site = await openSite()
  const client = await site.connect()
  const authorize = site.keys.authorize.bind(site.keys)
  site.keys.authorize = request => {
    const right = authorize(request)
    if (site.keys.isConnected) {
      site.keys.isConnected = false
      site.change({ kind: 'disconnected', thing, channel })
    }
    return right
  }
  expect(await subscribe(client, [base])).toEqual([0x87])
})

test('a right that ends while the subscription begins ends the connection', async () => {
  const ready = async (): Promise<void> => {
    site.keys.isConnected = false
    site.change({ kind: 'disconnected', thing, channel })
  }
  const [keep, clear, close] = [async () => undefined, async () => undefined, async () => undefined]
  const site = await openSite({ retained: { ...openRetainedRecords(3), ready, keep, clear, close } })
  const client = await site.connect()
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: base, qos: 1 }] })
  expect((await client.rest()).at(-1)).toMatchObject({ cmd: 'disconnect', reasonCode: 0x87 })
})

test('a key after a question mark of a refused filter is in no line', async () => {
  const site = await openSite()
  const client = await site.connect()
  await subscribe(client, [`channels/${other}/messages?auth=secret-of-a-thing`])
  expect(JSON.stringify([site.said, site.fieldsOfLines])).not.toContain('secret-of-a-thing')
})

test('once the log is away for one filter, it is not asked for the others of a packet', async () => {
  const site = await openSite()
  const client = await site.connect()
  site.topic.failure = new Error('the brokers are away')
  const opened = site.topic.opened
  expect(await subscribe(client, [base, `${base}/a`, `${base}/b`])).toEqual([0x80, 0x80, 0x80])
  expect(site.topic.opened - opened).toBeLessThan(2)
})

test('a subscription is refused while the log or the rights cannot be asked, and succeeds afterwards', async () => {
  const site = await openSite()
  const client = await site.connect()
  site.topic.failure = new Error('the brokers are away')
  expect(await subscribe(client, [base])).toEqual([0x80])
  const asked = site.keys.requests.length
  site.topic.failure = undefined
  site.keys.fail = new AccessUnavailableError('the control plane is away')
  expect(await subscribe(client, [base])).toEqual([0x80])
  site.change({ kind: 'channel', channel })
  // What was refused is not watched.
  expect(site.keys.requests).toHaveLength(asked + 1)
  delete site.keys.fail
  expect(await subscribe(client, [base])).toEqual([1])
})

test('messages that the log deleted before they were sent are counted and logged', async () => {
  const site = await openSite({ inFlightMax: 1 })
  const client = await site.connect()
  await subscribe(client, [base])
  for (let nth = 0; nth < 5; nth++) append(site, String(nth))
  const first = await published(client)
  site.topic.deleteBelow(0, 4)
  client.send({ cmd: 'puback', messageId: first.messageId! })
  append(site, 'last')
  // The next one may have been read before it was deleted.
  expect([['4'], ['1', '4']]).toContainEqual(await heard(client))
  expect(site.said.join()).toMatch(/deleted from the log before they could be delivered/)
  expect(await site.registry.metrics()).toContain('error_code="lost"} 1')
})

test('nothing of a subscription is left after the connection', async () => {
  const site = await openSite()
  for (const version of [4, 5] as Version[]) {
    const client = await site.connect(version)
    await subscribe(client, [`${base}/#`])
    append(site, 'unread')
    client.socket.destroy()
  }
  await expect.poll(() => [site.topic.openReaders, site.topic.listeners]).toEqual([0, 0])
})

test('acknowledgements without a message cost like other packets, and end nothing', async () => {
  const site = await openSite()
  const client = await site.connect()
  client.send({ cmd: 'puback', messageId: 4 })
  client.send({ cmd: 'pingreq' })
  const answer: Packet | undefined = await client.next()
  expect(answer).toMatchObject({ cmd: 'pingresp' })
})
