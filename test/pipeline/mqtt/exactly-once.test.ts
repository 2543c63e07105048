// Messages with QoS 2: each is stored once, and delivered once, whatever is sent again, and wherever the client connects.
//
// Longer than most files: both ways go through the same steps on the same site.

import type { IConnectPacket, IPublishPacket } from 'mqtt-packet'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { LogUnavailableError, type OutgoingMessage } from '../../../pipeline/log.ts'
import type { SessionStore } from '../../../pipeline/mqtt/sessions/store.ts'
import { channel, thing } from '../ingest/site.ts'
import { type FakeTopic, openFakeTopic } from '../live/fake-topic.ts'
import type { Client, Version } from './client.ts'
import { fullWhile, type MqttSite, openSessionsFile, openSite, ping, publish, type SiteOptions, withHeld } from './site.ts'

let topic: FakeTopic
let sessions: SessionStore
let stored: string[]

beforeEach(() => {
  topic = openFakeTopic(2)
  stored = []
  sessions = openSessionsFile()
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

/** A process takes the first message and goes no further than its append. @returns what it was about to append */
async function crash(): Promise<readonly OutgoingMessage[]> {
  const appending = Promise.withResolvers<readonly OutgoingMessage[]>()
  const crashing = await open({
    append(messages) {
      appending.resolve(messages)
      return new Promise<never>(() => undefined)
    },
  })
  send(await connect(crashing), 1)
  return appending.promise
}

async function release(client: Client, messageId = 1): Promise<void> {
  client.send({ cmd: 'pubrel', messageId })
  expect(await client.next()).toMatchObject({ cmd: 'pubcomp', messageId, ...(client.version === 5 ? { reasonCode: 0 } : {}) })
}

async function received(client: Client, messageId = 1): Promise<void> {
  expect(await client.next()).toMatchObject({ cmd: 'pubrec', messageId, ...(client.version === 5 ? { reasonCode: 0 } : {}) })
}

/** Fires the timers of what is looked up in the log until this resolves. */
async function afterLooking(site: MqttSite, answer: Promise<void>): Promise<void> {
  const fire = setInterval(
    () =>
      site.timers
        .filter(({ waitMs, isStopped }) => [2_000, 100].includes(waitMs) && !isStopped)
        .at(-1)
        ?.fire(),
    10,
  )
  await answer.finally(() => clearInterval(fire))
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

test('another message under an id without a PUBREL is stored: the client has lost what it knew', async () => {
  const site = await open()
  const client = await connect(site)
  send(client, 1)
  await received(client)
  client.socket.destroy()
  const later = await connect(site)
  send(later, 2)
  await received(later)
  send(later, 2, 1, true)
  await received(later)
  expect(stored).toEqual([packOf(1), packOf(2)])
})

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
  await append(await crash())
  const client = await connect(await open())
  // The same with another time is another message.
  send(client, 1, 1, true)
  await received(client)
  send(client, 1, 2)
  await received(client, 2)
  expect(stored).toEqual([packOf(1), packOf(1)])
})

test('after a crash before the append it is stored when it is sent again, and not before an earlier process has given up', async () => {
  await crash()
  const site = await open()
  const client = await connect(site)
  send(client, 1, 1, true)
  await ping(client)
  expect(stored).toEqual([])
  await afterLooking(site, received(client))
  expect(stored).toEqual([packOf(1)])
})

test('what an earlier process appends late is found', async () => {
  const messages = await crash()
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

test('an id that is used again is not that of the message that is looked up for an earlier connection', async () => {
  await append(await crash())
  const opening = Promise.withResolvers<void>()
  topic.opening = opening.promise
  const appending = Promise.withResolvers<void>()
  const also = await open({
    append(messages) {
      if (Buffer.from(messages[0]!.payload).toString() !== packOf(2)) return append(messages)
      appending.resolve()
      return new Promise<never>(() => undefined)
    },
  })
  const client = await connect(also)
  send(client, 1, 1, true)
  await release(client)
  send(client, 2)
  await appending.promise
  opening.resolve()
  await received(client)
  await subscribe(client)
  write('heard')
  await heard(client)
  // Saves the session.
  client.send({ cmd: 'unsubscribe', messageId: 8, unsubscriptions: [`${base}/#`] })
  await client.next()
  const site = await open()
  const later = await connect(site)
  await later.next()
  send(later, 2, 1, true)
  await afterLooking(site, received(later))
  expect(stored).toEqual([packOf(1), packOf(2)])
})

for (const version of [4, 5] as const) {
  test(`version ${version}: what is stored is acknowledged when it is sent again, also if it would be refused by now`, async () => {
    const site = await open({ thingMessagesPerMinute: 1 })
    const client = await connect(site, version)
    send(client, 1)
    await received(client)
    client.socket.destroy()
    const later = await connect(site, version)
    send(later, 1, 1, true)
    await received(later)
    await release(later)
    expect(stored).toEqual([packOf(1)])
  })
}

test('what waits for the log is not stored once another connection has the session', async () => {
  let isHeld = true
  let asked = 0
  let isAway = true
  const site = await open({
    sessions: withHeld(sessions, () => ({
      async isHeld() {
        if (!isHeld) asked++
        return isHeld
      },
    })),
    async append(messages) {
      if (!isAway) return append(messages)
      isHeld = false
      isAway = false
      throw new LogUnavailableError('the brokers are away')
    },
  })
  send(await connect(site), 1)
  await expect.poll(() => asked > 1 || stored.length > 0).toBe(true)
  expect(stored).toEqual([])
})

test('what is sent again is looked up, and that waits for the end of the log at that time, not for one that grows', async () => {
  await crash()
  const site = await open()
  const client = await connect(site)
  const waits = (waitMs: number) => site.timers.filter(timer => timer.waitMs === waitMs && !timer.isStopped)
  await ping(client)
  await expect.poll(() => topic.openReaders).toBe(0)
  send(client, 1, 1, true)
  await expect.poll(() => waits(2_000)).toHaveLength(1)
  topic.isQuiet = true
  write('one')
  waits(2_000)[0]!.fire()
  for (let looks = 1; looks <= 3; looks++) {
    await expect.poll(() => waits(100).length).toBe(looks)
    if (looks < 3) waits(100).at(-1)!.fire()
  }
  // Only what was there at first is read.
  topic.isQuiet = false
  await expect.poll(() => topic.read.messages).toBeGreaterThan(0)
  topic.isQuiet = true
  write('two')
  const answer = received(client)
  waits(100).at(-1)!.fire()
  await answer
  expect(stored).toEqual([packOf(1)])
})

test('what is looked up waits for what is left of the time, whichever connections it took so far', async () => {
  await crash()
  const site = await open()
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  for (const [atMs, waitMs] of [
    [0, 2_000],
    [1_500, 500],
    [3_000, 0],
  ] as const) {
    clock.mockReturnValue(atMs)
    const client = await connect(site)
    send(client, 1, 1, true)
    await expect.poll(() => site.timers.filter(timer => timer.waitMs === waitMs)).toHaveLength(1)
    clock.mockReturnValue(atMs + 1_500)
    client.send({ cmd: 'disconnect' })
    await client.rest()
  }
})

test('a connection that ends does not wait for what is looked up', async () => {
  await crash()
  const site = await open()
  const client = await connect(site)
  send(client, 1, 1, true)
  await ping(client)
  client.socket.destroy()
  await site.close(60_000)
})

test('who lost the session stores nothing more with QoS 2', async () => {
  const site = await open({ sessions: withHeld(sessions, () => ({ isHeld: async () => false })) })
  const client = await connect(site)
  send(client, 1)
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x89 }])
  expect(stored).toEqual([])
})

test('while sessions cannot be saved nothing with QoS 2 is stored', async () => {
  let isFull = false
  const site = await open({ sessions: fullWhile(() => isFull, sessions) })
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
  for (let id = 1; id <= 1_000; id++) send(client, id, id)
  for (let id = 1; id <= 1_000; id++) await received(client, id)
  send(client, 1_001, 1_001)
  expect(await client.rest()).toEqual([])
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

// Subscribers

const base = `channels/${channel}/messages`

async function subscribe(client: Client): Promise<void> {
  client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: `${base}/#`, qos: 2 }] })
  expect(await client.next()).toMatchObject({ cmd: 'suback', granted: [2] })
}

/** The next message, as its payload, its packet id, and whether it is a repeat. */
async function heard(client: Client): Promise<{ text: string; messageId: number; dup: boolean }> {
  const packet = (await client.next()) as IPublishPacket
  expect(packet).toMatchObject({ cmd: 'publish', qos: 2 })
  return { text: packet.payload.toString(), messageId: packet.messageId!, dup: packet.dup }
}

async function receive(client: Client, messageId: number): Promise<void> {
  client.send({ cmd: 'pubrec', messageId })
  expect(await client.next()).toMatchObject({ cmd: 'pubrel', messageId })
}

const complete = (client: Client, messageId: number): void => client.send({ cmd: 'pubcomp', messageId })
const write = (text: string, partition = 0): void => topic.appendPayload(partition, channel, text)

for (const version of [4, 5] as const) {
  test(`version ${version}: a subscriber gets a message once, in the steps of QoS 2`, async () => {
    const client = await connect(await open(), version)
    await subscribe(client)
    for (const text of ['a', 'b']) {
      write(text)
      const { messageId, ...message } = await heard(client)
      expect(message).toEqual({ text, dup: false })
      await receive(client, messageId)
      complete(client, messageId)
    }
    await ping(client)
  })

  test.each([
    ['a clean end', true],
    ['a crash', false],
  ])(`version ${version}: after %s each message goes on at its step, under its packet id`, async (_, isClean) => {
    const site = await open()
    const client = await connect(site, version)
    await subscribe(client)
    for (const text of ['sent', 'received', 'done']) write(text)
    const [sent, got, done] = [await heard(client), await heard(client), await heard(client)]
    await receive(client, got.messageId)
    await receive(client, done.messageId)
    complete(client, done.messageId)
    await ping(client)
    if (isClean) {
      client.send({ cmd: 'disconnect' })
      await client.rest()
    } else site.timers.findLast(({ waitMs, isStopped }) => waitMs === 1_000 && !isStopped)!.fire()
    const later = await connect(isClean ? site : await open(), version)
    expect(await later.next()).toMatchObject({ cmd: 'pubrel', messageId: got.messageId })
    expect(await heard(later)).toEqual({ ...sent, dup: true })
    write('new')
    const fresh = await heard(later)
    expect(fresh).toMatchObject({ text: 'new', dup: false })
    expect([sent.messageId, got.messageId]).not.toContain(fresh.messageId)
    complete(later, got.messageId)
    await ping(later)
  })
}

test('after a crash a message whose step was not saved is at the one before', async () => {
  const client = await connect(await open())
  await subscribe(client)
  write('a')
  const { messageId } = await heard(client)
  await receive(client, messageId)
  complete(client, messageId)
  await ping(client)
  const later = await connect(await open())
  expect(await later.next()).toMatchObject({ cmd: 'pubrel', messageId })
  complete(later, messageId)
  await ping(later)
})

test('a PUBREC with an error ends a message, and one of an unknown id changes nothing', async () => {
  const client = await connect(await open())
  await subscribe(client)
  write('a')
  const { messageId } = await heard(client)
  client.send({ cmd: 'pubrec', messageId: messageId + 1 })
  client.send({ cmd: 'pubrec', messageId, reasonCode: 0x97 })
  await ping(client)
  client.socket.destroy()
  const later = await connect(await open())
  await ping(later)
})

test('no message is sent with QoS 2 before its packet id is saved', async () => {
  let isFull = false
  const site = await open({ sessions: fullWhile(() => isFull, sessions) })
  const client = await connect(site)
  await subscribe(client)
  isFull = true
  write('a')
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x89 }])
  isFull = false
  const later = await connect(site)
  expect(await heard(later)).toMatchObject({ text: 'a', dup: false })
})

test('a slow subscriber with QoS 2 has its window, and what was never sent is no repeat', async () => {
  const client = await connect(await open(), 5, { properties: { sessionExpiryInterval: 600, receiveMaximum: 2 } })
  await subscribe(client)
  for (const text of ['a', 'b', 'c', 'd']) write(text)
  const first = await heard(client)
  await heard(client)
  await ping(client)
  await receive(client, first.messageId)
  await ping(client)
  complete(client, first.messageId)
  expect(await heard(client)).toMatchObject({ text: 'c', dup: false })
  const later = await connect(await open())
  expect([await heard(later), await heard(later), await heard(later)]).toMatchObject([
    { text: 'b', dup: true },
    { text: 'c', dup: true },
    { text: 'd', dup: false },
  ])
})

test('a connection that has ended saves nothing more', async () => {
  let isSlow = false
  const saves: (() => void)[] = []
  const site = await open({
    sessions: withHeld(sessions, held => ({
      async save(session) {
        await held.save(session)
        if (isSlow) await new Promise<void>(resolve => void saves.push(resolve))
      },
    })),
  })
  const client = await connect(site)
  await subscribe(client)
  isSlow = true
  write('a')
  await expect.poll(() => saves).toHaveLength(1)
  write('b')
  await ping(client)
  client.socket.destroy()
  await expect.poll(() => saves).toHaveLength(2)
  isSlow = false
  saves[0]!()
  await ping(await connect(site, 5, { clientId: 'device-2' }))
  saves[1]!()
  const later = await connect(await open())
  expect([await heard(later), await heard(later)]).toMatchObject([{ text: 'a' }, { text: 'b' }])
})

test('a PUBREC that is repeated is saved and answered once', async () => {
  let isSlow = false
  const saves: (() => void)[] = []
  const site = await open({
    sessions: withHeld(sessions, held => ({
      async isHeld() {
        if (isSlow) await new Promise<void>(resolve => void saves.push(resolve))
        return held.isHeld()
      },
    })),
  })
  const client = await connect(site)
  await subscribe(client)
  write('a')
  write('b')
  const [first, second] = [await heard(client), await heard(client)]
  isSlow = true
  client.send({ cmd: 'pubrec', messageId: first.messageId })
  await expect.poll(() => saves).toHaveLength(1)
  for (let times = 0; times < 50; times++) client.send({ cmd: 'pubrec', messageId: second.messageId })
  await ping(client)
  isSlow = false
  saves[0]!()
  expect([await client.next(), await client.next()]).toMatchObject([
    { cmd: 'pubrel', messageId: first.messageId },
    { cmd: 'pubrel', messageId: second.messageId },
  ])
  await ping(client)
})

test('a message that is not sent again keeps its packet id until a PUBREL, as the client may have it', async () => {
  const client = await connect(await open())
  await subscribe(client)
  write('a')
  const { messageId } = await heard(client)
  client.send({ cmd: 'unsubscribe', messageId: 8, unsubscriptions: [`${base}/#`] })
  expect(await client.next()).toMatchObject({ cmd: 'unsuback' })
  const later = await connect(await open())
  expect(await later.next()).toMatchObject({ cmd: 'pubrel', messageId })
  await subscribe(later)
  write('b')
  expect((await heard(later)).messageId).not.toBe(messageId)
})

test('a message goes on with the QoS that it had', async () => {
  const client = await connect(await open())
  await subscribe(client)
  write('a')
  const sent = await heard(client)
  client.send({ cmd: 'subscribe', messageId: 8, subscriptions: [{ topic: `${base}/#`, qos: 1 }] })
  expect(await client.next()).toMatchObject({ cmd: 'suback' })
  const later = await connect(await open())
  expect(await heard(later)).toEqual({ ...sent, dup: true })
})
