// The delay of a will (MQTT 5 §3.1.3.2.2): when the will is published, and when it is not.

import type { IConnackPacket, IConnectPacket } from 'mqtt-packet'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { SessionStore } from '../../../pipeline/mqtt/sessions/store.ts'
import type { Client } from './client.ts'
import { type ManualTimer, type MqttSite, openSessionsFile, openSite, type SiteOptions, topic } from './site.ts'

let sessions: SessionStore

beforeEach(() => {
  sessions = openSessionsFile()
  onTestFinished(() => sessions.close())
})

const open = (own: SiteOptions = {}): Promise<MqttSite> => openSite({ sessions, ...own })

/** With a session that stays. */
function connect(site: MqttSite, own: Partial<IConnectPacket> = {}): Promise<Client & { readonly connack: IConnackPacket }> {
  return site.connect(5, { clean: false, properties: { sessionExpiryInterval: 600 }, ...own })
}

const will = { topic: `${topic}/lost`, payload: Buffer.from('[{"n":"gone","v":1}]'), qos: 1 as const, retain: false }
const willAfter = (willDelayInterval: number): NonNullable<IConnectPacket['will']> => ({ ...will, properties: { willDelayInterval } })
const published = (site: MqttSite): Promise<void> => expect.poll(() => site.log.messages).toMatchObject([{ subtopic: 'lost' }])

/** The timer of the will, once the connection has ended. */
async function willTimer(site: MqttSite, client: Client): Promise<ManualTimer> {
  const known = site.timers.length
  client.socket.destroy()
  const found = (): ManualTimer | undefined => site.timers.slice(known).find(({ waitMs }) => waitMs > 1_000)
  await expect.poll(found).toBeDefined()
  expect(site.log.messages).toEqual([])
  return found()!
}

test.each([
  ['its delay', 5, 600, 5_000],
  ['the end of its session', 700, 600, 600_000],
  ['24 days at most', 2 ** 32 - 1, 31_536_000, 2 ** 31 - 1],
])('a will waits for %s, and is published once', async (_, delay, sessionExpiryInterval, waitMs) => {
  const site = await open({ sessionExpirySecondsMax: 31_536_000 })
  const client = await connect(site, { will: willAfter(delay), properties: { sessionExpiryInterval } })
  const timer = await willTimer(site, client)
  expect(timer.waitMs).toBe(waitMs)
  timer.fire()
  timer.fire()
  await published(site)
  await connect(site)
  expect(site.log.messages).toHaveLength(1)
})

test('a will with a delay is published at once if its session ends with the connection, also by a DISCONNECT with a will', async () => {
  const site = await open()
  const first = await connect(site, { will: willAfter(5), properties: {} })
  first.socket.destroy()
  await published(site)
  const second = await connect(site, { will: willAfter(5) })
  second.send({ cmd: 'disconnect', reasonCode: 0x04, properties: { sessionExpiryInterval: 0 } })
  await expect.poll(() => site.log.messages).toHaveLength(2)
})

test.each([
  ['goes on', {}],
  ['begins again', { clean: true }],
  ['ends', { clean: true, properties: {} }],
])('a will that waits is not published if the client comes back and its session %s, at any instance', async (_, own) => {
  const [first, second] = [await open(), await open()]
  for (const site of [first, second]) {
    const client = await connect(first, { will: willAfter(5) })
    const timer = await willTimer(first, client)
    const later = await connect(site, own)
    await expect.poll(() => timer.isStopped).toBe(true)
    timer.fire()
    // A connection that is taken over while it lives leaves no will either.
    const living = await connect(first, { clientId: 'living', will: willAfter(5) })
    await connect(site, { clientId: 'living', ...own })
    expect(await living.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x8e }])
    later.send({ cmd: 'disconnect' })
    await later.rest()
  }
  await Promise.all([first.close(1_000), second.close(1_000)])
  expect(first.timers.filter(({ waitMs, isStopped }) => waitMs === 5_000 && !isStopped)).toEqual([])
  expect([...first.log.messages, ...second.log.messages]).toEqual([])
})

test('a will that waits passes the checks of a message when it is published', async () => {
  const site = await open()
  const client = await connect(site, { will: willAfter(5) })
  const timer = await willTimer(site, client)
  site.keys.isConnected = false
  timer.fire()
  await expect.poll(() => site.said).toEqual([expect.stringMatching(/^MQTT: message refused: /)])
  expect(site.log.messages).toEqual([])
})

test('a connection whose will waits counts among those of its thing', async () => {
  const site = await open({ thingConnectionsMax: 1 })
  const client = await connect(site, { will: willAfter(5) })
  const timer = await willTimer(site, client)
  expect(await (await site.open(5, { clientId: 'other' })).rest()).toMatchObject([{ reasonCode: 0x97 }])
  timer.fire()
  await published(site)
  await site.connect(5, { clientId: 'other' })
})

test('with more connections than twice mqtt.connections_max, of which those are closed whose will waits, a will is published at once', async () => {
  const site = await open({ connectionsMax: 2, thingSessionsMax: 10 })
  const timers: ManualTimer[] = []
  for (const clientId of ['a', 'b', 'c', 'd']) timers.push(await willTimer(site, await connect(site, { clientId, will: willAfter(5) })))
  const client = await connect(site, { clientId: 'e', will: willAfter(5) })
  client.socket.destroy()
  await published(site)
  timers[0]!.fire()
  await expect.poll(() => site.log.messages).toHaveLength(2)
})

test('a stop drops a will that waits, and does not wait for it', async () => {
  const site = await open()
  const client = await connect(site, { will: willAfter(5) })
  const timer = await willTimer(site, client)
  await site.close(1_000)
  expect(timer.isStopped).toBe(true)
  expect(site.log.messages).toEqual([])
})
