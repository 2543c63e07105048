// Sessions that outlive their connection: where they go on, what is sent again, and when they end.
//
// Longer than most files: all share one store of sessions and one log.

import type { IConnackPacket, IConnectPacket, IPublishPacket, ISubackPacket } from 'mqtt-packet'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { type LiveMessages, LiveUnavailableError } from '../../../pipeline/live/messages.ts'
import type { SessionStore } from '../../../pipeline/mqtt/sessions/store.ts'
import { channel, thing } from '../ingest/site.ts'
import { type FakeTopic, openFakeTopic } from '../live/fake-topic.ts'
import { openLive } from '../live/follower.ts'
import type { Client, Version } from './client.ts'
import { fullWhile, type MqttSite, openSessionsFile, openSite } from './site.ts'

const base = `channels/${channel}/messages`
let topic: FakeTopic
let sessions: SessionStore
let nowMs: number

beforeEach(() => {
  nowMs = Date.now()
  topic = openFakeTopic(2)
  sessions = openSessionsFile(undefined, () => nowMs)
  onTestFinished(() => sessions.close())
})

const open = (own: Parameters<typeof openSite>[0] = {}): Promise<MqttSite> => openSite({ sessions, topic, ...own })

/** With a session that stays. */
async function connect(
  site: MqttSite,
  version: Version = 5,
  own: Partial<IConnectPacket> = {},
): Promise<Client & { connack: IConnackPacket }> {
  return await site.connect(version, { clean: false, ...(version === 5 ? { properties: { sessionExpiryInterval: 600 } } : {}), ...own })
}

async function subscribe(client: Client, filter = base): Promise<void> {
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: filter, qos: 1 }] })
  expect(((await client.next()) as ISubackPacket).granted).toEqual([1])
}

const append = (payload: string, partition = 0): void => topic.appendPayload(partition, channel, payload)
const acknowledge = (client: Client, { messageId }: IPublishPacket): void => client.send({ cmd: 'puback', messageId: messageId! })

async function next(client: Client): Promise<IPublishPacket> {
  const packet = await client.next()
  expect(packet?.cmd).toBe('publish')
  return packet as IPublishPacket
}

/** The payloads until this one, acknowledged, with a mark on those that are repeats. */
async function heard(client: Client, last: string): Promise<string[]> {
  const all: string[] = []
  for (;;) {
    const packet = await next(client)
    acknowledge(client, packet)
    all.push(`${packet.payload.toString()}${packet.dup ? ' again' : ''}`)
    if (packet.payload.toString() === last) return all
  }
}

async function leave(client: Client): Promise<void> {
  client.send({ cmd: 'disconnect' })
  await client.rest()
}

test.each([4, 5] as const)('version %i: a session goes on behind what was acknowledged, and repeats are marked', async version => {
  const site = await open()
  const client = await connect(site, version)
  expect(client.connack.sessionPresent).toBe(false)
  await subscribe(client)
  append('a')
  append('b')
  append('c', 1)
  const packets = [await next(client), await next(client), await next(client)]
  acknowledge(client, packets.find(({ payload }) => payload.toString() === 'a')!)
  acknowledge(client, packets.find(({ payload }) => payload.toString() === 'c')!)
  await leave(client)
  append('d')
  append('last')
  const later = await connect(site, version)
  expect(later.connack.sessionPresent).toBe(true)
  expect(await heard(later, 'last')).toEqual(['b again', 'd', 'last'])
})

test('it goes on in another process, after a crash of the first: nothing is lost, and what may be a repeat is marked', async () => {
  const first = await open()
  const client = await connect(first)
  await subscribe(client)
  append('a')
  acknowledge(client, await next(client))
  append('b')
  await next(client)
  // The process is gone, and saved nothing but the subscription.
  const second = await open()
  const later = await connect(second)
  expect(later.connack.sessionPresent).toBe(true)
  append('last')
  expect(await heard(later, 'last')).toEqual(['a again', 'b again', 'last'])
  // The first one no longer holds the session, whatever it saves.
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x8e }])
  await leave(later)
  const again = await connect(first)
  append('end')
  expect(await heard(again, 'end')).toEqual(['end'])
})

test('what a connection after a crash did not get to is marked for the next one too', async () => {
  await subscribe(await connect(await open()))
  const lost = await connect(await open())
  for (const text of ['a', 'b', 'c']) append(text)
  for (let nth = 0; nth < 3; nth++) await next(lost)
  const site = await open()
  const slow = await connect(site, 5, { properties: { sessionExpiryInterval: 600, receiveMaximum: 1 } })
  expect(await heard(slow, 'a')).toEqual(['a again'])
  await leave(slow)
  const later = await connect(site)
  append('last')
  expect(await heard(later, 'last')).toEqual(['b again', 'c again', 'last'])
})

test('progress is saved within a second', async () => {
  const first = await open()
  const client = await connect(first)
  await subscribe(client)
  append('a')
  acknowledge(client, await next(client))
  append('b')
  await next(client)
  // Handled after the acknowledgement.
  client.send({ cmd: 'pingreq' })
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  first.timers.find(({ waitMs, isStopped }) => waitMs === 1_000 && !isStopped)!.fire()
  await sessions.discard({ thing: 'another', clientId: 'one' })
  const later = await connect(await open())
  expect(await heard(later, 'b')).toEqual(['b again'])
})

test('a connection that takes over on one instance goes on where the first was', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  append('a')
  await next(client)
  const later = await connect(site)
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x8e }])
  append('last')
  expect(await heard(later, 'last')).toEqual(['a again', 'last'])
})

test('UNSUBSCRIBE and the options of a subscription are kept', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  await subscribe(client, `${base}/b`)
  client.send({
    cmd: 'subscribe',
    messageId: 8,
    subscriptions: [{ topic: `${base}/a`, qos: 0, rap: true }],
    properties: { subscriptionIdentifier: 5 },
  })
  await client.next()
  client.send({ cmd: 'unsubscribe', messageId: 9, unsubscriptions: [base] })
  await client.next()
  await leave(client)
  const later = await connect(site)
  append('unheard')
  topic.appendPayload(0, channel, 'last', { subtopic: 'a', isRetained: true })
  expect(await next(later)).toMatchObject({ qos: 0, retain: true, topic: `${base}/a`, properties: { subscriptionIdentifier: 5 } })
})

test.each<[what: string, own: Partial<IConnectPacket>]>([
  ['clean start', { clean: true, properties: { sessionExpiryInterval: 600 } }],
  ['a clean session', { clean: true, properties: {} }],
])('%s begins without one, and leaves nothing of the session before', async (_what, own) => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  await leave(client)
  const fresh = await connect(site, 5, own)
  expect(fresh.connack.sessionPresent).toBe(false)
  append('unheard')
  await leave(fresh)
  const later = await connect(site)
  expect(later.connack.sessionPresent).toBe(own.properties?.sessionExpiryInterval === 600)
  later.send({ cmd: 'pingreq' })
  expect(await later.next()).toMatchObject({ cmd: 'pingresp' })
})

test('a session expires after its time, which is bounded, and which a DISCONNECT may change', async () => {
  const site = await open()
  const client = await connect(site, 5, { properties: { sessionExpiryInterval: 4_294_967_295 } })
  expect(client.connack.properties).toMatchObject({ sessionExpiryInterval: 3_600 })
  await leave(client)
  nowMs += 3_599_000
  const later = await connect(site)
  expect(later.connack.sessionPresent).toBe(true)
  expect(later.connack.properties).not.toHaveProperty('sessionExpiryInterval')
  await leave(later)
  nowMs += 601_000
  const fresh = await connect(site)
  expect(fresh.connack.sessionPresent).toBe(false)
  fresh.send({ cmd: 'disconnect', reasonCode: 0, properties: { sessionExpiryInterval: 0 } })
  await fresh.rest()
  expect((await connect(site)).connack.sessionPresent).toBe(false)
})

test('a session does not expire while it is connected, however quiet, and its process may crash', async () => {
  const first = await open()
  await subscribe(await connect(first))
  nowMs += 4_100_000
  first.timers.find(({ waitMs }) => waitMs === 1_800_000)!.fire()
  nowMs += 4_100_000
  const later = await connect(await open())
  expect(later.connack.sessionPresent).toBe(true)
  await leave(later)
  nowMs += 600_000
  expect((await connect(first)).connack.sessionPresent).toBe(false)
})

test('without an expiry a session goes on, and ends with its connection', async () => {
  const site = await open()
  const noExpiry = { properties: {} }
  expect((await connect(site, 5, noExpiry)).connack.sessionPresent).toBe(false)
  expect(sessions.count(thing)).toBe(0)
  const client = await connect(site)
  await subscribe(client)
  await leave(client)
  const later = await connect(site, 5, noExpiry)
  expect(later.connack.sessionPresent).toBe(true)
  append('a')
  expect(await heard(later, 'a')).toEqual(['a'])
  await leave(later)
  expect((await connect(site)).connack.sessionPresent).toBe(false)
})

test('a repeat that a later connection could not send is one for those after it', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  append('a')
  append('b')
  await next(client)
  await next(client)
  await leave(client)
  const slow = await connect(site, 5, { properties: { sessionExpiryInterval: 600, receiveMaximum: 1 } })
  expect((await next(slow)).payload.toString()).toBe('a')
  await leave(slow)
  expect(await heard(await connect(site), 'b')).toEqual(['a again', 'b again'])
})

test('what follows a question mark in a filter is not kept, and not compared', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client, `${base}?authorization=key`)
  await leave(client)
  const kept = await sessions.take({ thing, clientId: 'device-1' }, () => undefined)
  expect(kept.kept?.subscriptions).toMatchObject([{ filter: base }])
  const later = await connect(site)
  later.send({ cmd: 'unsubscribe', messageId: 9, unsubscriptions: [`${base}?authorization=other`] })
  expect(await later.next()).toMatchObject({ cmd: 'unsuback', granted: [0] })
})

test('a DISCONNECT does not begin a session that was to end, and the will is published', async () => {
  const site = await open()
  const will = { topic: base, payload: Buffer.from('[{"n":"gone","v":1}]'), qos: 1 as const, retain: false }
  const client = await site.connect(5, { will })
  client.send({ cmd: 'disconnect', reasonCode: 0, properties: { sessionExpiryInterval: 60 } })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x82 }])
  await expect.poll(() => site.log.messages.length).toBe(1)
})

test('whose session is taken before it is accepted gets no DISCONNECT, which would come before the CONNACK', async () => {
  const taken: SessionStore = {
    ...sessions,
    async take(key, onTaken) {
      const held = await sessions.take(key, onTaken)
      onTaken()
      return held
    },
  }
  const site = await open({ sessions: taken })
  const client = await site.open(5, { clean: false, properties: { sessionExpiryInterval: 600 } })
  expect(await client.rest()).toEqual([])
  expect(sessions.count(thing)).toBe(0)
})

test('where sessions are turned off, a client learns that its session ends', async () => {
  const site = await open({ sessionExpirySecondsMax: 0 })
  const client = await connect(site)
  expect(client.connack.properties).toMatchObject({ sessionExpiryInterval: 0 })
  await leave(client)
  expect((await connect(site, 4)).connack.sessionPresent).toBe(false)
})

test('a thing has at most so many sessions', async () => {
  const site = await open()
  for (const clientId of ['a', 'b']) await leave(await connect(site, 5, { clientId }))
  const refused = await site.open(5, { clientId: 'c', clean: false, properties: { sessionExpiryInterval: 600 } })
  expect(await refused.rest()).toMatchObject([{ cmd: 'connack', reasonCode: 0x97 }])
  expect((await connect(site, 5, { clientId: 'b' })).connack.sessionPresent).toBe(true)
})

test('a channel that the thing may no longer read is left out, and the session goes on', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  await leave(client)
  site.keys.isConnected = false
  const later = await connect(site)
  expect(later.connack.sessionPresent).toBe(true)
  expect(site.said.join()).toMatch(/subscription ended: the thing is not connected/)
  append('unheard')
  later.send({ cmd: 'pingreq' })
  expect(await later.next()).toMatchObject({ cmd: 'pingresp' })
})

test('while the log is away a session cannot go on, and keeps what it had', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  await leave(client)
  append('a')
  topic.failure = new Error('the brokers are away')
  const refused = await site.open(5, { clean: false, properties: { sessionExpiryInterval: 600 } })
  expect(await refused.rest()).toMatchObject([{ cmd: 'connack', reasonCode: 0x88 }])
  topic.failure = undefined
  const later = await connect(site)
  expect(await heard(later, 'a')).toEqual(['a'])
})

test('where the log goes away while a session is resumed, it is not followed for nothing', async () => {
  let isAway = false
  const followed = openLive(topic)
  onTestFinished(() => followed.close())
  // The end of the channel is asked for after the session follows it again.
  const live: LiveMessages = {
    async follow(...asked) {
      if (isAway && asked[1] === undefined) throw new LiveUnavailableError('the brokers are away')
      return await followed.follow(...asked)
    },
  }
  const site = await open({ live })
  const client = await connect(site)
  await subscribe(client)
  await leave(client)
  isAway = true
  const refused = await site.open(5, { clean: false, properties: { sessionExpiryInterval: 600 } })
  expect(await refused.rest()).toMatchObject([{ cmd: 'connack', reasonCode: 0x88 }])
  await expect.poll(() => topic.openReaders).toBe(0)
})

test('while sessions cannot be saved, a CONNECT that wants one is refused, and a SUBSCRIBE ends the connection', async () => {
  let isFull = false
  const site = await open({ sessions: fullWhile(() => isFull, sessions) })
  const client = await connect(site)
  isFull = true
  const refused = await site.open(5, { clientId: 'other', clean: false, properties: { sessionExpiryInterval: 600 } })
  expect(await refused.rest()).toMatchObject([{ cmd: 'connack', reasonCode: 0x88 }])
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: base, qos: 1 }] })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x89 }])
  expect(site.said.join()).toMatch(/the session was not saved: the disk is full/)
})

test('messages that the log deleted while nobody was connected are counted', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  await leave(client)
  for (const text of ['a', 'b', 'c']) append(text)
  topic.deleteBelow(0, 2)
  const later = await connect(site)
  expect(await heard(later, 'c')).toEqual(['c'])
  expect(site.said.join()).toMatch(/deleted from the log before they could be delivered/)
})

test('what was acknowledged is not sent again when the log deletes messages before it', async () => {
  const site = await open()
  const client = await connect(site)
  await subscribe(client)
  for (const payload of ['a', 'b', 'c', 'd']) append(payload)
  const packets = [await next(client), await next(client), await next(client), await next(client)]
  for (const packet of packets.slice(1)) acknowledge(client, packet)
  await leave(client)
  const later = await connect(site, 5, { properties: { sessionExpiryInterval: 600, receiveMaximum: 1 } })
  const first = await next(later)
  topic.deleteBelow(0, 3)
  acknowledge(later, first)
  append('last')
  expect(await heard(later, 'last')).toEqual(['last'])
  expect(site.said).toContain('MQTT: messages were deleted from the log before they could be delivered')
})

test('no will of a connection that was refused is published, and one of a session is when its connection is lost', async () => {
  const site = await open()
  const will = { topic: base, payload: Buffer.from('[{"n":"gone","v":1}]'), qos: 1 as const, retain: false }
  const client = await connect(site, 5, { will })
  client.socket.destroy()
  await expect.poll(() => site.log.messages.length).toBe(1)
  topic.failure = new Error('the brokers are away')
  const later = await connect(site, 5, { will })
  await subscribeRefused(later)
})

async function subscribeRefused(client: Client): Promise<void> {
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: base, qos: 1 }] })
  expect(((await client.next()) as ISubackPacket).granted).toEqual([0x80])
}
