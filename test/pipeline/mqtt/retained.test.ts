// Retained messages: what is kept and when it is acknowledged, which subscribers get it and when, and what is refused.
//
// Longer than most files: its parts share the store, the topic and the clients.

import type { IConnectPacket, IPublishPacket, ISubackPacket, ISubscription } from 'mqtt-packet'
import { expect, onTestFinished, test } from 'vitest'
import { logTag } from '../../../pipeline/live/messages.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import type { RetainedMessage } from '../../../pipeline/mqtt/retained/records.ts'
import type { RetainedStore } from '../../../pipeline/mqtt/retained/store.ts'
import type { Qos } from '../../../pipeline/mqtt/sessions/records.ts'
import { channel, looseKey, thing } from '../ingest/site.ts'
import { openFakeTopic } from '../live/fake-topic.ts'
import { openLive } from '../live/follower.ts'
import type { Client } from './client.ts'
import {
  holdAppends,
  type MqttSite,
  openRetainedFile,
  openSessionsFile,
  openSite,
  pack,
  ping,
  publish,
  type SiteOptions,
  turns,
} from './site.ts'

const base = `channels/${channel}/messages`
const versions = [4, 5] as const

interface RetainingSite extends MqttSite {
  readonly retained: RetainedStore
}

async function open({ retained, ...own }: SiteOptions = {}): Promise<RetainingSite> {
  const store = retained ?? openRetainedFile()
  onTestFinished(() => store.close())
  return { ...(await openSite({ retained: store, ...own })), retained: store }
}

const json = (text: string): Buffer => Buffer.from(JSON.stringify(text))

async function retain(client: Client, subtopic: string, payload: Buffer, own: Partial<IPublishPacket> = {}): Promise<void> {
  publish(client, { topic: `${base}/${subtopic}`, payload, retain: true, ...own })
  expect(await client.next()).toMatchObject({ cmd: 'puback', ...(client.version === 5 ? { reasonCode: 0 } : {}) })
}

type Own = Partial<ISubscription> & { readonly identifier?: number }

async function subscribe(client: Client, filters: readonly string[], { identifier, ...own }: Own = {}): Promise<void> {
  client.send({
    cmd: 'subscribe',
    messageId: 7,
    subscriptions: filters.map(filter => ({ topic: `${base}/${filter}`, qos: 1, ...own })),
    ...(identifier === undefined ? {} : { properties: { subscriptionIdentifier: identifier } }),
  })
  expect(((await client.next()) as ISubackPacket).granted).toEqual(filters.map(() => own.qos ?? 1))
}

/** What is sent before the answer to a ping, acknowledged: each as topic, payload and flag. */
async function heard(client: Client): Promise<string[]> {
  client.send({ cmd: 'pingreq' })
  const all: string[] = []
  for (let packet = await client.next(); packet?.cmd !== 'pingresp'; packet = await client.next()) {
    expect(packet?.cmd).toBe('publish')
    const { topic, payload, qos, messageId, retain: isRetained } = packet as IPublishPacket
    if (qos === 1) client.send({ cmd: 'puback', messageId: messageId! })
    all.push(`${topic.slice(base.length + 1)} ${payload.toString()}${isRetained ? ' retained' : ''}`)
  }
  return all
}

test.each(versions)('version %i: the newest message of each topic is sent after the SUBACK, with the flag', async version => {
  const site = await open()
  const publisher = await site.connect(version)
  await retain(publisher, 'a', json('old'))
  await retain(publisher, 'a', json('new'))
  publish(publisher, { topic: `${base}/a`, payload: json('not retained') })
  expect(await publisher.next()).toMatchObject({ cmd: 'puback' })
  await retain(publisher, 'b/c', json('other'), { qos: 1 })
  expect(site.log.messages).toHaveLength(4)
  const client = await site.connect(version, { clientId: 'b' })
  await subscribe(client, ['a'])
  const packet = (await client.next()) as IPublishPacket
  expect(packet).toMatchObject({ cmd: 'publish', topic: `${base}/a`, qos: 1, retain: true, dup: false })
  expect(packet.payload.toString()).toBe('"new"')
  expect(packet.properties?.contentType).toBe(version === 5 ? 'application/json' : undefined)
  client.send({ cmd: 'puback', messageId: packet.messageId! })
  await subscribe(client, ['b/+', 'none/#'])
  expect(await heard(client)).toEqual(['b/c "other" retained'])
  site.topic.appendPayload(0, channel, 'live', { subtopic: 'a' })
  expect(await client.next()).toMatchObject({ retain: false })
})

test.each(versions)('version %i: an empty message with the flag clears what is kept, and is not stored', async version => {
  const site = await open()
  const client = await site.connect(version)
  await retain(client, 'a', json('kept'))
  await retain(client, 'a', Buffer.alloc(0))
  await retain(client, 'a', Buffer.alloc(0))
  expect(site.log.messages).toHaveLength(1)
  await subscribe(client, ['#'])
  expect(await heard(client)).toEqual([])
})

test.each([
  ['a message', json('x')],
  ['an empty message', Buffer.alloc(0)],
])('%s that is to be retained on a channel of others is refused', async (_, payload) => {
  const site = await open()
  const client = await site.connect(5, { password: Buffer.from(looseKey) })
  publish(client, { topic: `${base}/a`, payload, retain: true })
  expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0x87 })
  expect([site.log.messages, [...site.retained.messagesOf(channel)]]).toEqual([[], []])
})

test('an empty message counts in the quotas, and clears nothing above them', async () => {
  const site = await open({ thingMessagesPerMinute: 3 })
  const client = await site.connect()
  await retain(client, 'a', json('x'))
  await retain(client, 'a', Buffer.alloc(0))
  await retain(client, 'a', json('y'))
  publish(client, { topic: `${base}/a`, payload: Buffer.alloc(0), retain: true })
  expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0x97 })
  expect(site.retained.get({ channel, subtopic: 'a' })).toBeDefined()
})

test('an empty message without the flag is refused, and clears nothing', async () => {
  const site = await open()
  const client = await site.connect()
  await retain(client, 'a', json('kept'))
  publish(client, { topic: `${base}/a`, payload: Buffer.alloc(0) })
  expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0x99 })
  expect(site.retained.get({ channel, subtopic: 'a' })).toBeDefined()
})

test('a message is acknowledged after the log has it and then it is kept; while it cannot be kept it is retried, and stored once', async () => {
  const kept: string[] = []
  const waiting = Promise.withResolvers<void>()
  let failures = 2
  const inner = openRetainedFile()
  const retained: RetainedStore = {
    ...inner,
    async keep(message) {
      kept.push(`${message.subtopic} ${message.offset}`)
      if (failures-- > 0) throw new LogUnavailableError('away')
      await waiting.promise
      await inner.keep(message)
    },
  }
  const site = await open({ retained })
  const client = await site.connect()
  publish(client, { topic: `${base}/a`, payload: json('x'), retain: true })
  publish(client, { topic: `${base}/b`, payload: json('y'), messageId: 2 })
  await expect.poll(() => kept).toEqual(['a 0', 'a 0', 'a 0'])
  client.send({ cmd: 'pingreq' })
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  waiting.resolve()
  expect(await client.next()).toMatchObject({ cmd: 'puback', messageId: 1, reasonCode: 0 })
  expect(await client.next()).toMatchObject({ cmd: 'puback', messageId: 2, reasonCode: 0 })
  expect(site.log.messages).toHaveLength(2)
})

test('keeping and clearing happen in the order of arrival, however long each takes', async () => {
  const inner = openRetainedFile()
  const { waiting, append } = holdAppends()
  const cleared = Promise.withResolvers<void>()
  let clears = 0
  const site = await open({
    append,
    retained: {
      ...inner,
      async clear(topic) {
        clears++
        await cleared.promise
        return inner.clear(topic)
      },
    },
  })
  const client = await site.connect()
  for (const [nth, payload] of [json('first'), Buffer.alloc(0), json('second')].entries())
    publish(client, { topic: `${base}/a`, payload, retain: true, messageId: nth + 1 })
  await turns()
  expect([clears, waiting.length]).toEqual([0, 1])
  waiting[0]!()
  await turns()
  expect([clears, waiting.length]).toEqual([1, 1])
  cleared.resolve()
  await expect.poll(() => waiting.length).toBe(2)
  waiting[1]!()
  for (const messageId of [1, 2, 3]) expect(await client.next()).toMatchObject({ cmd: 'puback', messageId, reasonCode: 0 })
  expect([...site.retained.messagesOf(channel)].map(({ payload }) => Buffer.from(payload))).toEqual([json('second')])
})

test.each<[rh: 0 | 1 | 2, first: string[], second: string[]]>([
  [0, ['a "x" retained'], ['a "x" retained']],
  [1, ['a "x" retained'], []],
  [2, [], []],
])('retain handling %i: a SUBSCRIBE is answered with %j, and the next one of the filter with %j', async (rh, first, second) => {
  const site = await open()
  const client = await site.connect()
  await retain(client, 'a', json('x'))
  await subscribe(client, ['#'], { rh })
  expect(await heard(client)).toEqual(first)
  await subscribe(client, ['#'], { rh })
  expect(await heard(client)).toEqual(second)
})

test.each<[published: Qos, granted: Qos, qos: Qos]>([
  [0, 0, 0],
  [0, 1, 0],
  [1, 0, 0],
  [1, 1, 1],
  [1, 2, 1],
  [2, 1, 1],
  [2, 2, 2],
])('published with QoS %i and granted %i it is sent with QoS %i and the id of the subscription', async (published, granted, qos) => {
  const site = await open()
  const client = await site.connect()
  publish(client, { topic: `${base}/a`, payload: json('x'), retain: true, qos: published })
  if (published === 0) await ping(client)
  else expect(await client.next()).toMatchObject({ cmd: published === 1 ? 'puback' : 'pubrec', reasonCode: 0 })
  await subscribe(client, ['a', 'b'], { qos: granted, identifier: 5 })
  expect(await client.next()).toMatchObject({ cmd: 'publish', qos, retain: true, properties: { subscriptionIdentifier: 5 } })
})

test('no local leaves out what the thing itself published', async () => {
  const site = await open()
  const client = await site.connect()
  await retain(client, 'a', json('own'))
  await site.retained.keep(message({ subtopic: 'b', publisher: 'another', payload: json('others') }))
  await subscribe(client, ['#'], { nl: true })
  expect(await heard(client)).toEqual(['b "others" retained'])
})

test('what is larger than the client takes is left out', async () => {
  const site = await open()
  const client = await site.connect(5, { properties: { maximumPacketSize: 200 } })
  await retain(client, 'a', json('x'.repeat(200)))
  await retain(client, 'b', json('small'))
  await subscribe(client, ['#'])
  expect(await heard(client)).toEqual(['b "small" retained'])
})

function message(own: Partial<RetainedMessage>): RetainedMessage {
  const place = { log: 'other', partition: 0, offset: 0 }
  return { channel, subtopic: 'a', publisher: thing, contentType: 'application/json', qos: 1, payload: json('x'), ...place, ...own }
}

test('no more are unacknowledged than the client allows, and live messages come after them', async () => {
  const site = await open()
  for (const subtopic of ['a', 'b', 'c']) await site.retained.keep(message({ subtopic }))
  const client = await site.connect(5, { properties: { receiveMaximum: 1 } })
  await subscribe(client, ['d'], { qos: 0 })
  // Now it is at the end of the log, from where a message comes without asking for space.
  site.topic.appendPayload(0, channel, 'live', { subtopic: 'd' })
  expect(await client.next()).toMatchObject({ topic: `${base}/d`, retain: false })
  await ping(client)
  await subscribe(client, ['a', 'b', 'c'])
  site.topic.appendPayload(0, channel, 'live', { subtopic: 'd' })
  const order: string[] = []
  for (let at = 0; at < 4; at++) {
    const packet = (await client.next()) as IPublishPacket
    order.push(packet.topic.slice(-1))
    await ping(client)
    if (packet.qos === 1) client.send({ cmd: 'puback', messageId: packet.messageId! })
  }
  expect(order.slice(0, 3).toSorted()).toEqual(['a', 'b', 'c'])
  expect(order[3]).toBe('d')
})

test('a client that does not read gets no more than fits, and the rest when it reads', async () => {
  const retained = openRetainedFile(1_000)
  const site = await open({ retained })
  const payload = Buffer.alloc(64 * 1024, 'x')
  const subtopics = Array.from({ length: 500 }, (_, at) => `t${at}`)
  await Promise.all(subtopics.map(subtopic => retained.keep(message({ subtopic, payload }))))
  const [client, other] = [await site.connect(), await site.connect(5, { clientId: 'other' })]
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: `${base}/#`, qos: 0 }] })
  client.socket.pause()
  await subscribe(other, ['none'])
  await ping(other)
  const sent = Number(/component_sent_events_total\{component_id="mqtt".*\} (\d+)/.exec(await site.registry.metrics())?.[1] ?? 0)
  expect(sent).toBeLessThan(400)
  client.socket.resume()
  expect(await client.next()).toMatchObject({ cmd: 'suback' })
  for (const subtopic of subtopics) expect(((await client.next()) as IPublishPacket).topic).toBe(`${base}/${subtopic}`)
})

test('looking through what is retained, of which nothing matches, leaves turns to others', async () => {
  const inner = openRetainedFile()
  let all = 0
  let turnMessages = 0
  let most = 0
  function* messagesOf(): Generator<RetainedMessage> {
    for (let at = 0; at < 1_000; at++) {
      if (turnMessages++ === 0) setImmediate(() => void (turnMessages = 0))
      most = Math.max(most, turnMessages)
      all++
      yield message({ subtopic: 'other' })
    }
  }
  const site = await open({ retained: { ...inner, messagesOf } })
  const client = await site.connect()
  await subscribe(client, ['a', 'b'])
  site.topic.appendPayload(0, channel, 'live', { subtopic: 'b' })
  expect(await client.next()).toMatchObject({ topic: `${base}/b`, retain: false })
  expect(all).toBe(2_000)
  expect(most).toBeLessThanOrEqual(100)
})

test('an unsubscribed filter gets no more', async () => {
  const site = await open()
  for (const subtopic of ['a', 'b']) await site.retained.keep(message({ subtopic }))
  const client = await site.connect(5, { properties: { receiveMaximum: 1 } })
  await subscribe(client, ['#'])
  const { messageId } = (await client.next()) as IPublishPacket
  client.send({ cmd: 'unsubscribe', messageId: 8, unsubscriptions: [`${base}/#`] })
  client.send({ cmd: 'puback', messageId: messageId! })
  expect(await client.next()).toMatchObject({ cmd: 'unsuback' })
  expect(await heard(client)).toEqual([])
})

test('what stands in the log from where the channel is followed comes live, and only so', async () => {
  const topic = openFakeTopic(1)
  const site = await open({ topic })
  const client = await site.connect()
  const live = openLive(topic)
  const following = await live.follow(channel, undefined)
  const { log } = following
  following.stop()
  await live.close()
  topic.appendPayload(0, channel, '"before"', { subtopic: 'a' })
  await site.retained.keep(message({ log, offset: 0, payload: json('before') }))
  await site.retained.keep(message({ log, offset: 1, subtopic: 'b', payload: json('ahead') }))
  await subscribe(client, ['#'])
  expect(await heard(client)).toEqual(['a "before" retained'])
  topic.appendPayload(0, channel, '"ahead"', { subtopic: 'b' })
  expect(await client.next()).toMatchObject({ topic: `${base}/b`, retain: false })
})

test.each(versions)('version %i: a will is retained, or not', async version => {
  const site = await open()
  const will: NonNullable<IConnectPacket['will']> = { topic: `${base}/state`, payload: json('gone'), qos: 1, retain: true }
  const lost = await site.connect(version, { will, clientId: 'lost' })
  lost.socket.destroy()
  await expect
    .poll(() => site.retained.get({ channel, subtopic: 'state' }))
    .toMatchObject({ qos: 1, publisher: thing, offset: 0, log: logTag(site.log.id) })
  const clearing = await site.connect(version, { will: { ...will, payload: Buffer.alloc(0) }, clientId: 'clearing' })
  clearing.socket.destroy()
  await expect.poll(() => site.retained.get({ channel, subtopic: 'state' })).toBeUndefined()
  const unflagged = await site.connect(version, { will: { ...will, retain: false }, clientId: 'unflagged' })
  unflagged.socket.destroy()
  await expect.poll(() => site.log.messages.length).toBe(2)
  expect(site.retained.get({ channel, subtopic: 'state' })).toBeUndefined()
})

test('a message of one more topic than a channel may have is refused before it is stored', async () => {
  const sentence = /3 topics with a retained message/
  for (const version of versions) {
    const site = await open()
    for (const subtopic of ['a', 'b', 'c']) await site.retained.keep(message({ subtopic }))
    const client = await site.connect(version)
    publish(client, { topic: `${base}/d`, payload: json('x'), retain: true })
    if (version === 5) expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0x97 })
    else expect(await client.rest()).toEqual([])
    expect(site.said.join()).toMatch(sentence)
    expect(site.log.messages).toEqual([])
  }
})

test('a message of a user who registered themselves counts for that user', async () => {
  const site = await open()
  const client = await site.connect()
  for (const isBounded of [true, false]) {
    site.keys.isBounded = isBounded
    await retain(client, `${isBounded}.a`, pack)
  }
  expect([...site.retained.messagesOf(channel)].map(({ boundedOwner }) => boundedOwner)).toEqual(['user', undefined])
  site.keys.isBounded = true
  const payload = Buffer.alloc(64 * 1024)
  for (let at = 0; at < 127; at++) await site.retained.keep(message({ channel: `${at}`, boundedOwner: 'user', payload }))
  publish(client, { topic: `${base}/more`, payload: pack, retain: true })
  expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0x97 })
})

test('a session does not send again what was not acknowledged, and ends the packet ids of QoS 2', async () => {
  const sessions = openSessionsFile()
  onTestFinished(() => sessions.close())
  const site = await open({ sessions })
  await site.retained.keep(message({ subtopic: 'a' }))
  await site.retained.keep(message({ subtopic: 'b', qos: 2 }))
  const own = { clean: false, properties: { sessionExpiryInterval: 60 } }
  const client = await site.connect(5, own)
  await subscribe(client, ['#'], { qos: 2 })
  const packets = [await client.next(), await client.next()] as IPublishPacket[]
  expect(packets.map(({ qos }) => qos)).toEqual([1, 2])
  client.socket.destroy()
  const later = await site.connect(5, own)
  expect(await later.next()).toMatchObject({ cmd: 'pubrel', messageId: packets[1]!.messageId })
  later.send({ cmd: 'pubcomp', messageId: packets[1]!.messageId! })
  expect(await heard(later)).toEqual([])
})

test('while it is not known what is kept a subscription is refused, unless it asks for no retained messages', async () => {
  const inner = openRetainedFile()
  const site = await open({ retained: { ...inner, ready: () => Promise.reject(new LogUnavailableError('away')) } })
  const client = await site.connect()
  const subscriptions = ([0, 1, 2] as const).map(rh => ({ topic: `${base}/a${rh}`, qos: 1 as const, rh }))
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: subscriptions.toReversed() })
  expect(await client.next()).toMatchObject({ granted: [1, 0x80, 0x80] })
})
