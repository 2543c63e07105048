// Messages with QoS 2: each is stored once, whatever the client sends again, and wherever it connects.

import type { IConnectPacket } from 'mqtt-packet'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { LogUnavailableError, type OutgoingMessage } from '../../../pipeline/log.ts'
import { openEmbeddedSessions } from '../../../pipeline/mqtt/sessions/embedded.ts'
import { type SessionStore, SessionsUnavailableError } from '../../../pipeline/mqtt/sessions/store.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { thing } from '../ingest/site.ts'
import { silent } from '../kafka/stored-messages.ts'
import { type FakeTopic, openFakeTopic } from '../live/fake-topic.ts'
import type { Client, Version } from './client.ts'
import { type MqttSite, openSite, ping, publish, type SiteOptions } from './site.ts'

let topic: FakeTopic
let sessions: SessionStore
let stored: string[]

beforeEach(() => {
  topic = openFakeTopic(2)
  stored = []
  sessions = openEmbeddedSessions({ path: `${temporaryFolder()}/sessions.sqlite`, logger: silent })
  onTestFinished(() => sessions.close())
})

/** The log that is published to is the one that is followed. */
function append(messages: readonly OutgoingMessage[]): Promise<{ partition: number; offset: number }[]> {
  return Promise.resolve(
    messages.map(({ channel, publisher, createdUs, payload }) => {
      const text = Buffer.from(payload).toString()
      stored.push(text)
      topic.appendPayload(1, channel, text, { publisher, createdUs })
      return { partition: 1, offset: topic.end(1) - 1 }
    }),
  )
}

const open = (own: SiteOptions = {}): Promise<MqttSite> => openSite({ sessions, topic, append, ...own })

function connect(site: MqttSite, version: Version = 5, own: Partial<IConnectPacket> = {}): Promise<Client> {
  return site.connect(version, { clean: false, ...(version === 5 ? { properties: { sessionExpiryInterval: 600 } } : {}), ...own })
}

const packOf = (value: number): string => `[{"n":"a","v":${value}}]`
const send = (client: Client, value: number, messageId = 1, dup = false): void =>
  publish(client, { qos: 2, messageId, dup, payload: Buffer.from(packOf(value)) })

async function release(client: Client, messageId = 1): Promise<void> {
  client.send({ cmd: 'pubrel', messageId })
  expect(await client.next()).toMatchObject({ cmd: 'pubcomp', messageId, ...(client.version === 5 ? { reasonCode: 0 } : {}) })
}

async function received(client: Client, messageId = 1): Promise<void> {
  expect(await client.next()).toMatchObject({ cmd: 'pubrec', messageId, ...(client.version === 5 ? { reasonCode: 0 } : {}) })
}

for (const version of [4, 5] as const) {
  test(`version ${version}: what is sent again is stored once, until its PUBREL, and then the id is free`, async () => {
    const client = await connect(await open(), version, { clean: true, properties: {} })
    send(client, 1)
    send(client, 1, 1, true)
    await received(client)
    await received(client)
    send(client, 1, 1, true)
    await received(client)
    await release(client)
    send(client, 2)
    await received(client)
    await release(client)
    expect(stored).toEqual([packOf(1), packOf(2)])
  })

  test(`version ${version}: it goes on on another connection, after each step`, async () => {
    const site = await open()
    let client = await connect(site, version)
    send(client, 1)
    await received(client)
    client.socket.destroy()
    client = await connect(site, version)
    send(client, 1, 1, true)
    await received(client)
    client.socket.destroy()
    client = await connect(site, version)
    await release(client)
    client.socket.destroy()
    client = await connect(site, version)
    send(client, 2)
    await received(client)
    expect(stored).toEqual([packOf(1), packOf(2)])
  })

  test(`version ${version}: messages are stored in their order, and all are acknowledged`, async () => {
    const client = await connect(await open({ inFlightMax: 20 }), version)
    for (let id = 1; id <= 10; id++) send(client, id, id)
    for (let id = 1; id <= 10; id++) await received(client, id)
    for (let id = 1; id <= 10; id++) client.send({ cmd: 'pubrel', messageId: id })
    for (let id = 1; id <= 10; id++) expect(await client.next()).toMatchObject({ cmd: 'pubcomp', messageId: id })
    expect(stored).toEqual(Array.from({ length: 10 }, (_, at) => packOf(at + 1)))
  })
}

test('a PUBREL of an unknown id is answered', async () => {
  const client = await connect(await open())
  client.send({ cmd: 'pubrel', messageId: 7 })
  expect(await client.next()).toMatchObject({ cmd: 'pubcomp', messageId: 7, reasonCode: 0x92 })
})

test('a refused message is not stored, and its id is free', async () => {
  const site = await open()
  const client = await connect(site)
  site.keys.isConnected = false
  send(client, 1)
  expect(await client.next()).toMatchObject({ cmd: 'pubrec', messageId: 1, reasonCode: 0x87 })
  site.keys.isConnected = true
  send(client, 2)
  await received(client)
  expect(stored).toEqual([packOf(2)])
})

test('after a crash behind the append it is found in the log', async () => {
  const never = new Promise<never>(() => undefined)
  const crashing = await open({
    async append(messages) {
      await append(messages)
      return never
    },
  })
  const lost = await connect(crashing)
  send(lost, 1)
  await expect.poll(() => stored).toEqual([packOf(1)])
  const client = await connect(await open())
  // The same with another time is another message.
  send(client, 1, 1, true)
  await received(client)
  send(client, 1, 2)
  await received(client, 2)
  expect(stored).toEqual([packOf(1), packOf(1)])
})

test('after a crash before the append it is stored when it is sent again, and not before an earlier process has given up', async () => {
  const appending = Promise.withResolvers<void>()
  const crashing = await open({
    append() {
      appending.resolve()
      return new Promise<never>(() => undefined)
    },
  })
  send(await connect(crashing), 1)
  await appending.promise
  const site = await open()
  const client = await connect(site)
  send(client, 1, 1, true)
  await ping(client)
  expect(stored).toEqual([])
  const answer = received(client)
  const fire = setInterval(() => site.timers.filter(({ waitMs, isStopped }) => [2_000, 100].includes(waitMs) && !isStopped).at(-1)?.fire(), 10)
  await answer
  clearInterval(fire)
  expect(stored).toEqual([packOf(1)])
})

test('what an earlier process appends late is found', async () => {
  const appending = Promise.withResolvers<readonly OutgoingMessage[]>()
  const slow = await open({
    append(messages) {
      appending.resolve(messages)
      return new Promise<never>(() => undefined)
    },
  })
  send(await connect(slow), 1)
  const messages = await appending.promise
  const client = await connect(await open())
  send(client, 1, 1, true)
  await ping(client)
  await append(messages)
  await received(client)
  expect(stored).toEqual([packOf(1)])
})

test('a message of which it is not known whether it is stored ends the connection, and is stored once', async () => {
  let isLost = true
  const site = await open({
    async append(messages) {
      const positions = await append(messages)
      if (isLost) throw new LogUnavailableError('no answer', { mayBeStored: true })
      return positions
    },
  })
  const client = await connect(site)
  send(client, 1)
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x89 }])
  isLost = false
  const later = await connect(site)
  send(later, 1, 1, true)
  await received(later)
  await release(later)
  expect(stored).toEqual([packOf(1)])
})

test('who lost the session stores nothing more with QoS 2', async () => {
  const site = await open({
    sessions: {
      ...sessions,
      async take(...taking) {
        const held = await sessions.take(...taking)
        return { ...held, isHeld: async () => false }
      },
    },
  })
  const client = await connect(site)
  send(client, 1)
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x89 }])
  expect(stored).toEqual([])
})

test('while sessions cannot be saved nothing with QoS 2 is stored', async () => {
  let isFull = false
  const site = await open({
    sessions: {
      ...sessions,
      async take(...taking) {
        const held = await sessions.take(...taking)
        return { ...held, save: session => (isFull ? Promise.reject(new SessionsUnavailableError('the disk is full')) : held.save(session)) }
      },
    },
  })
  const client = await connect(site)
  isFull = true
  send(client, 1)
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x89 }])
  isFull = false
  const later = await connect(site)
  send(later, 1, 1, true)
  await received(later)
  expect(stored).toEqual([packOf(1)])
})

test('messages without a PUBREL are bounded', async () => {
  const client = await connect(await open({ inFlightMax: 64 }), 4)
  for (let id = 1; id <= 1_001; id++) send(client, id, id)
  const packets = await client.rest()
  expect(packets.filter(({ cmd }) => cmd === 'pubrec')).toHaveLength(1_000)
  expect(stored).toHaveLength(1_000)
  expect(sessions.count(thing)).toBe(1)
})

test('a client of MQTT 5 keeps to the Receive Maximum until the PUBREL', async () => {
  const client = await connect(await open({ inFlightMax: 2 }))
  send(client, 1, 1)
  send(client, 2, 2)
  await received(client, 1)
  await received(client, 2)
  await release(client, 1)
  send(client, 3, 3)
  await received(client, 3)
  send(client, 4, 4)
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x93 }])
})
