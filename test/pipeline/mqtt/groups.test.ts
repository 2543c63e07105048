// Shared subscriptions: each message goes to one member of the group, and what one leaves behind to another.
//
// Longer than most files: its parts share the log, the sessions and the clients.

import type { IConnectPacket, IPublishPacket, ISubackPacket, ISubscription } from 'mqtt-packet'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { type SessionStore, SessionsUnavailableError } from '../../../pipeline/mqtt/sessions/store.ts'
import type { RawMessage } from '../../../pipeline/source.ts'
import { channel, looseKey, thing } from '../ingest/site.ts'
import { type FakeTopic, away as logAway, openFakeTopic } from '../live/fake-topic.ts'
import type { Client, Version } from './client.ts'
import { type MqttSite, openSessionsFile, openSite, ping } from './site.ts'

const base = `channels/${channel}/messages`
const shared = `$share/workers/${base}/#`
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
const append = (payload: string, own: Partial<RawMessage> = {}, partition = 0): void =>
  topic.appendPayload(partition, channel, payload, own)

async function subscribe(client: Client, filter = shared, own: Partial<ISubscription> = {}): Promise<number> {
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: filter, qos: 1, ...own }] })
  return ((await client.next()) as ISubackPacket).granted[0] as number
}

/** A client with the subscription. */
async function join(site: MqttSite, clientId: string, own: Partial<IConnectPacket> = {}, version: Version = 5): Promise<Client> {
  const client = await site.connect(version, { clientId, ...own })
  expect(await subscribe(client)).toBe(1)
  return client
}
const kept = { clean: false, properties: { sessionExpiryInterval: 600 } }

const textOf = ({ payload, dup }: IPublishPacket): string => `${payload.toString()}${dup ? ' again' : ''}`

async function next(client: Client): Promise<IPublishPacket> {
  const packet = await client.next()
  expect(packet?.cmd).toBe('publish')
  return packet as IPublishPacket
}

/** So many messages, acknowledged. */
async function heard(client: Client, count: number): Promise<string[]> {
  const all: string[] = []
  while (all.length < count) {
    const packet = await next(client)
    if (packet.qos > 0) client.send({ cmd: 'puback', messageId: packet.messageId! })
    all.push(textOf(packet))
  }
  return all
}

async function leave(client: Client): Promise<void> {
  client.send({ cmd: 'disconnect' })
  await client.rest()
}

/** What groups do each second. */
const tick = ({ timers }: MqttSite): void => {
  for (const timer of timers) if (timer.waitMs === 1_000 && !timer.isStopped) timer.fire()
}

test('each message goes to one member in turn, of either version, and others get all', async () => {
  const site = await open()
  const [one, two] = [await join(site, 'one', {}, 4), await join(site, 'two')]
  const [alone, plain] = [await site.connect(5, { clientId: 'alone' }), await site.connect(5, { clientId: 'plain' })]
  await subscribe(alone, `$share/others/${base}/#`)
  await subscribe(plain, `${base}/#`)
  for (const payload of ['a', 'b', 'c', 'd']) append(payload)
  expect(await heard(one, 2)).toEqual(['a', 'c'])
  expect(await heard(two, 2)).toEqual(['b', 'd'])
  for (const client of [alone, plain]) expect(await heard(client, 4)).toEqual(['a', 'b', 'c', 'd'])
  for (const client of [one, two, alone, plain]) await ping(client)
})

test('a client may have it beside other subscriptions, and gets a message for each; only what matches comes', async () => {
  const site = await open()
  const client = await site.connect()
  client.send({
    cmd: 'subscribe',
    messageId: 7,
    subscriptions: [{ topic: `$share/g/${base}/a/+?auth=x`, qos: 1 }],
    properties: { subscriptionIdentifier: 5 },
  })
  await client.next()
  await subscribe(client, `${base}/a/#`, { qos: 0 })
  append('unheard', { subtopic: 'b' })
  append('x', { subtopic: 'a.b', contentType: 'text/plain' })
  append('y', { subtopic: 'a' })
  const packets = [await next(client), await next(client), await next(client)]
  expect(packets.map(({ qos, payload, properties }) => [qos, payload.toString(), properties?.subscriptionIdentifier])).toEqual(
    expect.arrayContaining([
      [1, 'x', 5],
      [0, 'x', undefined],
      [0, 'y', undefined],
    ]),
  )
})

test.each([0, 1, 2] as const)('QoS %i is granted with at most 1, and may be changed', async qos => {
  const site = await open()
  const client = await site.connect()
  expect(await subscribe(client, shared, { qos })).toBe(Math.min(qos, 1))
  append('a')
  expect(await next(client)).toMatchObject({ qos: Math.min(qos, 1) })
  expect(await subscribe(client, shared, { qos: 0 })).toBe(0)
  append('b')
  expect(await next(client)).toMatchObject({ qos: 0 })
})

test('no retained messages are sent', async () => {
  const site = await open()
  const client = await site.connect()
  client.send({ cmd: 'publish', qos: 1, dup: false, retain: true, messageId: 1, topic: base, payload: '[{"n":"a","v":1}]' })
  expect(await client.next()).toMatchObject({ cmd: 'puback' })
  await subscribe(client)
  await ping(client)
  await subscribe(client, base)
  expect(await next(client)).toMatchObject({ retain: true })
})

test('a member without space is skipped, and while none has space the group waits in the log', async () => {
  const site = await open()
  const properties = { receiveMaximum: 1 }
  const [one, two] = [await join(site, 'one', { properties }), await join(site, 'two', { properties })]
  for (const payload of ['a', 'b', 'c', 'd']) append(payload)
  expect(textOf(await next(one))).toBe('a')
  expect(await heard(two, 3)).toEqual(['b', 'c', 'd'])
  append('e')
  append('f')
  expect(textOf(await next(two))).toBe('e')
  await ping(one)
  one.send({ cmd: 'puback', messageId: 1 })
  expect(textOf(await next(one))).toBe('f')
})

test.each<[what: string, end: (client: Client) => unknown]>([
  ['UNSUBSCRIBE', client => client.send({ cmd: 'unsubscribe', messageId: 9, unsubscriptions: [shared] })],
  ['a DISCONNECT', client => client.send({ cmd: 'disconnect' })],
  ['a broken connection', ({ socket }) => socket.destroy()],
])('what a member has not acknowledged before %s goes to another, and nothing more to it', async (_what, end) => {
  const site = await open()
  const [one, two] = [await join(site, 'one', kept), await join(site, 'two')]
  for (const [at, payload] of ['a', 'b', 'c', 'd', 'e', 'f'].entries()) append(payload, {}, at === 4 ? 1 : 0)
  const packets = [await next(one), await next(one), await next(one)]
  const own = packets.map(textOf)
  one.send({ cmd: 'puback', messageId: packets[1]!.messageId! })
  const first = await heard(two, 3)
  await ping(one)
  end(one)
  const again = [`${own[0]} again`, `${own[2]} again`]
  expect((await heard(two, 2)).toSorted()).toEqual(again.toSorted())
  append('last')
  expect(await heard(two, 1)).toEqual(['last'])
  expect([...own, ...first].toSorted()).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
})

test('a message that its client refuses goes to no other', async () => {
  const site = await open()
  const [one, two] = [await join(site, 'one'), await join(site, 'two')]
  append('a')
  const { messageId } = await next(one)
  one.send({ cmd: 'puback', messageId: messageId!, reasonCode: 0x83 })
  await ping(one)
  await leave(one)
  append('b')
  expect(await heard(two, 1)).toEqual(['b'])
})

test('a message that cannot be sent, or is larger than its client takes, is left out', async () => {
  const site = await open()
  const one = await join(site, 'one', { clean: false, properties: { ...kept.properties, maximumPacketSize: 100 } })
  append('unsendable', { subtopic: 'a+' })
  append('a'.repeat(200))
  append('b')
  expect(await heard(one, 1)).toEqual(['b'])
  await ping(one)
  await leave(one)
  const later = await site.connect(5, { clientId: 'one', ...kept })
  append('c')
  expect(await heard(later, 1)).toEqual(['c'])
})

test.each([4, 5] as const)('version %i: a group with a session goes on where it was, without another SUBSCRIBE', async version => {
  const site = await open()
  const own = version === 5 ? kept : { clean: false }
  const one = await join(site, 'one', own, version)
  append('a')
  append('b')
  const packets = [await next(one), await next(one)]
  one.send({ cmd: 'puback', messageId: packets[0]!.messageId! })
  await ping(one)
  await leave(one)
  append('c')
  const later = await site.connect(version, { clientId: 'one', ...own })
  expect(await heard(later, 2)).toEqual(['b again', 'c'])
  await leave(later)
  append('d')
  expect(await heard(await join(site, 'another'), 1)).toEqual(['d'])
})

test('what other members acknowledged does not come again', async () => {
  const site = await open()
  const [one, two] = [await join(site, 'one', kept), await join(site, 'two')]
  for (const payload of ['a', 'b', 'c', 'd']) append(payload)
  await heard(two, 2)
  await ping(two)
  await leave(two)
  await leave(one)
  const later = await site.connect(5, { clientId: 'one', ...kept })
  append('e')
  expect(await heard(later, 3)).toEqual(['a again', 'c again', 'e'])
})

test('its position is kept for as long as the sessions', async () => {
  const site = await open()
  await leave(await join(site, 'one', kept))
  append('unheard')
  nowMs += (600 + 3_600) * 1_000
  const later = await join(site, 'two')
  append('a')
  expect(await heard(later, 1)).toEqual(['a'])
})

test('after a crash another process goes on behind what was saved, and the first one waits', async () => {
  const first = await open()
  const one = await join(first, 'one', kept)
  append('a')
  expect(await heard(one, 1)).toEqual(['a'])
  append('b')
  await next(one)
  await ping(one)
  tick(first)
  append('c')
  await next(one)
  // The process is gone.
  const second = await open()
  const two = await join(second, 'two')
  expect(await heard(two, 2)).toEqual(['b again', 'c'])
  append('d')
  expect(await heard(two, 1)).toEqual(['d'])
  await ping(one)
  await leave(two)
  tick(first)
  append('e')
  expect(await heard(one, 1)).toEqual(['e'])
})

test('a member waits while another instance has the group, and then misses nothing', async () => {
  let isElsewhere = true
  const site = await open({ sessions: { ...sessions, isHeldElsewhere: async () => isElsewhere } })
  const holder = await open()
  const gone = await join(holder, 'gone')
  const one = await join(site, 'one')
  append('a')
  expect(await heard(gone, 1)).toEqual(['a'])
  tick(site)
  await leave(gone)
  append('b')
  await ping(one)
  isElsewhere = false
  tick(site)
  expect(await heard(one, 1)).toEqual(['b'])
})

test('a message that a member with QoS 0 gets again has no flag', async () => {
  const site = await open()
  const one = await join(site, 'one')
  append('a')
  await next(one)
  const two = await site.connect(5, { clientId: 'two' })
  expect(await subscribe(two, shared, { qos: 0 })).toBe(0)
  await leave(one)
  expect(await next(two)).toMatchObject({ qos: 0, dup: false })
})

test('a session that joins a group keeps its position, also after a crash', async () => {
  const first = await open()
  await join(first, 'one')
  await join(first, 'two', kept)
  append('a')
  expect(await heard(await join(await open(), 'three'), 1)).toEqual(['a'])
})

/** A store of sessions that cannot do this until `isAway` is false. */
function openAway(what: 'take' | 'save') {
  const away = { isAway: true, asked: 0 }
  const fail = (at: string): void => {
    if (at === what) away.asked++
    if (away.isAway && at === what) throw new SessionsUnavailableError('the sessions are away')
  }
  const store: SessionStore = {
    ...sessions,
    async take(key, onTaken) {
      fail('take')
      const held = await sessions.take(key, onTaken)
      return {
        ...held,
        async save(session) {
          fail('save')
          await held.save(session)
        },
      }
    },
  }
  return { away, store }
}

test.each(['take', 'save', 'log'] as const)(
  'while the %s is away a subscription is refused, leaves nothing, and succeeds later',
  async what => {
    const { away, store } = openAway(what === 'log' ? 'take' : what)
    if (what === 'log') {
      away.isAway = false
      topic.failure = new Error('the brokers are away')
    }
    const site = await open({ sessions: store })
    const client = await site.connect()
    expect(await subscribe(client)).toBe(0x80)
    await expect.poll(() => topic.openReaders).toBe(0)
    topic.failure = undefined
    away.isAway = false
    expect(await subscribe(client)).toBe(1)
    append('a')
    expect(await heard(client, 1)).toEqual(['a'])
  },
)

test('what could not be saved is saved with the next second', async () => {
  const { away, store } = openAway('save')
  away.isAway = false
  const first = await open({ sessions: store })
  const one = await join(first, 'one', kept)
  append('a')
  await heard(one, 1)
  await ping(one)
  away.isAway = true
  const timer = first.timers.find(({ waitMs, isStopped }) => waitMs === 1_000 && !isStopped)!
  for (const ticks of [1, 2, 3]) {
    away.isAway = ticks < 3
    timer.fire()
    await vi.waitFor(() => expect(timer.restarts).toBe(ticks))
  }
  expect(first.said.filter(sentence => sentence.startsWith('cannot take or save'))).toHaveLength(1)
  append('b')
  expect(await heard(await join(await open(), 'two'), 1)).toEqual(['b'])
})

test('nothing is left of a group whose client is gone before it has begun', async () => {
  const taking = Promise.withResolvers<void>()
  const took = Promise.withResolvers<void>()
  const site = await open({
    sessions: {
      ...sessions,
      async take(key, onTaken) {
        taking.resolve()
        await took.promise
        return sessions.take(key, onTaken)
      },
    },
  })
  const client = await site.connect()
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: shared, qos: 1 }] })
  await taking.promise
  site.keys.isConnected = false
  client.socket.destroy()
  await site.connect(5, { clientId: 'another' }).catch(() => undefined)
  took.resolve()
  await expect.poll(() => [topic.opened > 0, topic.openReaders]).toEqual([true, 0])
  expect(site.timers.filter(({ waitMs }) => waitMs === 1_000).every(({ isStopped }) => isStopped)).toBe(true)
})

test('who holds a quiet group saves it each 5 seconds', async () => {
  const seconds = 5
  const { away, store } = openAway('save')
  away.isAway = false
  const site = await open({ sessions: store })
  await join(site, 'one')
  const timer = site.timers.find(({ waitMs }) => waitMs === 1_000)!
  for (let ticks = 1; ticks < 2 * seconds; ticks++) timer.fire()
  await vi.waitFor(() => expect(timer.restarts).toBe(2 * seconds - 1))
  expect(away.asked).toBe(2)
  timer.fire()
  await vi.waitFor(() => expect(away.asked).toBe(3))
})

test.each([
  [59, ['a', 'b']],
  [61, ['b']],
])('a group without sessions goes on where it was within a minute: after %i s', async (seconds, wanted) => {
  const site = await open()
  await leave(await join(site, 'one'))
  append('a')
  nowMs += seconds * 1_000
  const again = await join(site, 'one')
  append('b')
  expect(await heard(again, wanted.length)).toEqual(wanted)
})

test.each([
  [4, 0x80],
  [5, 0x97],
] as const)('version %i: a channel has so many groups, which go on, and others when some have ended', async (version, refused) => {
  const site = await open()
  await leave(await join(site, 'one', kept))
  const many = await sessions.take({ thing: `$share/${channel}`, clientId: 'many' }, () => undefined)
  await many.save({
    subscriptions: [{ filter: 'a'.repeat(131_072), qos: 1, isNoLocal: false, isRetainAsPublished: false }],
    positions: {},
    inFlight: [],
    receipts: { messages: [], origins: {} },
    keptSeconds: 60,
  })
  await join(site, 'two')
  const client = await site.connect(version, { clientId: 'three' })
  expect(await subscribe(client, `$share/another/${base}`)).toBe(refused)
  await many.remove()
  expect(await subscribe(client, `$share/another/${base}`)).toBe(1)
})

test('the connection of a member ends with its right to read the channel', async () => {
  const site = await open()
  const one = await join(site, 'one')
  site.keys.isConnected = false
  site.change({ kind: 'disconnected', thing, channel })
  expect(await one.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x87 }])
})

test.each<[when: string, failure: Error, end: (client: Client) => unknown, wanted: readonly string[]]>([
  ['cannot be followed', new Error('corrupt'), () => append('c'), ['a again', 'c', 'last']],
  ['is away when a member leaves', logAway, leave, ['a again', 'last']],
])('while the log %s all wait, also who comes then, and nothing is lost', async (_when, failure, end, wanted) => {
  const site = await open()
  const [one, two] = [await join(site, 'one'), await join(site, 'two')]
  append('a')
  append('b')
  await next(one)
  await heard(two, 1)
  await ping(two)
  tick(site)
  await ping(two)
  topic.failure = failure
  await end(one)
  await expect.poll(() => topic.openReaders).toBe(0)
  const three = await join(site, 'three')
  topic.failure = undefined
  tick(site)
  append('last')
  const all = new Set<string>()
  const hear = async (client: Client): Promise<void> => {
    for (let packet = await client.next(); packet !== undefined; packet = await client.next()) all.add(textOf(packet as IPublishPacket))
  }
  for (const client of [one, two, three]) void hear(client)
  await expect.poll(() => all).toEqual(new Set(wanted))
})

test('messages that the log deleted before a member took them are counted', async () => {
  const site = await open()
  await leave(await join(site, 'one', kept))
  append('a')
  append('b')
  topic.deleteBelow(0, 1)
  const later = await site.connect(5, { clientId: 'one', ...kept })
  expect(await heard(later, 1)).toEqual(['b'])
  expect(site.said).toContain('MQTT: messages were deleted from the log before they could be delivered')
  expect(await site.registry.metrics()).toMatch(/component_errors_total\{component_id="mqtt".*error_code="lost"\} 1/)
})

test('CONNACK says that there are shared subscriptions', async () => {
  const { connack } = await (await open()).connect()
  expect(connack.properties).toMatchObject({ sharedSubscriptionAvailable: true })
})

test('a thing that may not read the channel is no member', async () => {
  const site = await open()
  const one = await join(site, 'one')
  const stranger = await site.connect(5, { clientId: 'stranger', password: Buffer.from(looseKey) })
  expect(await subscribe(stranger)).toBe(0x87)
  append('a')
  append('b')
  expect(await heard(one, 2)).toEqual(['a', 'b'])
})

test('it counts as a subscription of its client', async () => {
  const site = await open({ subscriptionsMax: 1 })
  const client = await join(site, 'one')
  expect(await subscribe(client)).toBe(1)
  expect(await subscribe(client, base)).toBe(0x97)
  expect(await subscribe(client, `$share/other/${base}`)).toBe(0x97)
})

test('no local is a protocol error', async () => {
  const site = await open()
  const client = await site.connect()
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: shared, qos: 1, nl: true }] })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x82 }])
})
