// What one client, and all together, may use over MQTT, and that none of their messages is lost while they wait.

import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { holdAppends, openSite, pack, ping, publish, topic } from './site.ts'

test('a topic above 2,048 bytes ends the connection before it is kept as an alias', async () => {
  const site = await openSite()
  const [fits, exceeds] = [2_048, 2_049].map(bytes => `${topic}/`.padEnd(bytes, 'a'))
  const client = await site.connect(5)
  publish(client, { topic: fits!, properties: { topicAlias: 1 } })
  publish(client, { topic: exceeds!, messageId: 2, properties: { topicAlias: 2 } })
  expect(await client.rest()).toMatchObject([
    { cmd: 'puback', messageId: 1 },
    { cmd: 'disconnect', reasonCode: 0x90 },
  ])
})

test('refused messages beyond a burst make the client wait', async () => {
  const site = await openSite()
  const client = await site.connect(5)
  const startMs = performance.now()
  for (let number = 1; number <= 23; number++) publish(client, { qos: 0, topic: 'elsewhere' })
  await ping(client)
  expect(performance.now() - startMs).toBeGreaterThan(1_000)
})

test('other packets than messages beyond a burst make the client wait', async () => {
  const site = await openSite()
  const client = await site.connect(5)
  const startMs = performance.now()
  for (let number = 0; number < 250; number++) client.send({ cmd: 'pingreq' })
  for (let number = 0; number < 250; number++) expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  expect(performance.now() - startMs).toBeGreaterThan(400)
})

test.each([
  [0, 1],
  [1, 3],
] as const)('a message of QoS %i that may be in the log is appended %i times until the log answers', async (qos, times) => {
  let appends = 0
  const site = await openSite({
    async append(messages, log) {
      if (++appends < 3) throw new LogUnavailableError('no answer', { mayBeStored: true })
      return log.append(messages)
    },
  })
  const client = await site.connect(5)
  publish(client, { qos })
  if (qos === 1) expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0 })
  await ping(client)
  expect(appends).toBe(times)
  if (qos === 0) expect(site.said).toEqual([expect.stringMatching(/^MQTT: message refused: .*was not stored/)])
})

test('messages beyond the bytes in flight of all connections wait, and none is lost', async () => {
  const { waiting, append } = holdAppends()
  const site = await openSite({ append, inFlightBytesMax: 2 * pack.length })
  const clients = [await site.connect(4, { clientId: 'a' }), await site.connect(4, { clientId: 'b' })]
  for (const client of clients) for (const messageId of [1, 2, 3]) publish(client, { messageId })
  await expect.poll(() => waiting).toHaveLength(2)
  for (let turns = 0; turns < 20; turns++) await turn()
  for (let released = 0; released < 6; released++) {
    await expect.poll(() => waiting.length).toBeGreaterThan(released)
    expect(waiting.length - released).toBeLessThanOrEqual(2)
    waiting[released]!()
  }
  for (const client of clients) for (const messageId of [1, 2, 3]) expect(await client.next()).toMatchObject({ cmd: 'puback', messageId })
})

test('a connection that is closed while it waits for bytes leaves them to others', async () => {
  const { waiting, append } = holdAppends()
  const site = await openSite({ append, inFlightBytesMax: pack.length })
  const [first, second, third] = [
    await site.connect(4, { clientId: 'a' }),
    await site.connect(4, { clientId: 'b' }),
    await site.connect(4, { clientId: 'c' }),
  ]
  publish(first)
  await expect.poll(() => waiting).toHaveLength(1)
  publish(second)
  publish(third)
  second.socket.resetAndDestroy()
  for (let released = 0; released < 3; released++) {
    await expect.poll(() => waiting.length).toBeGreaterThan(released)
    waiting[released]!()
  }
  for (const client of [first, third]) expect(await client.next()).toMatchObject({ cmd: 'puback' })
})
