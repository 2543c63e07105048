// The life of a live stream: it ends with its right, is bounded in number and in memory, and leaves nothing behind.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import type { AccessChange } from '../../../control-plane/client.ts'
import type { EventClient } from './event-source.ts'
import { channel, foreign, otherThing, owner, type ServedLive, serveLive, thing } from './served-live.ts'

const reasonOf = (client: { named: readonly { data: string }[] }): string | undefined =>
  client.named[0] === undefined ? undefined : (JSON.parse(client.named[0].data) as { reason: string }).reason

test.each<[what: string, secret: string, headers: Record<string, string>, change: AccessChange]>([
  ['a disconnect', 'one', thing, { kind: 'disconnected', thing: 't1', channel }],
  ['a new key, or the deletion of the thing', 'one', thing, { kind: 'thing', thing: 't1' }],
  ['the deletion of the channel', 'owner', owner, { kind: 'channel', channel }],
  ['a new password, or the deletion of the user', 'owner', owner, { kind: 'user', user: 'user' }],
  ['changes that went unheard', 'owner', owner, { kind: 'unheard' }],
])('%s ends the stream at once, with a reason that reveals nothing, and nothing more is sent', async (_what, secret, headers, change) => {
  await using served = await serveLive()
  const client = await served.open('', headers)
  await served.topic.append(0, channel, ['a'])
  await client.until(1)
  served.access.rights.set(secret, { allowed: false, reason: 'forbidden' })
  served.access.change(change)
  expect(await client.closed).toBeUndefined()
  await served.topic.append(0, channel, ['b'])
  expect([client.names(), reasonOf(client)]).toEqual([['a'], 'access_ended'])
  expect(client.named[0]!.data).toBe('{"reason":"access_ended","detail":"the right to read has ended"}')
  expect([served.topic.listeners, served.access.listeners()]).toEqual([0, 0])
})

test('a change that affects others, or keeps the permission, ends nothing', async () => {
  await using served = await serveLive()
  const [own, other] = await Promise.all([served.open('', thing), served.open('', otherThing)])
  served.access.rights.delete('two')
  for (const change of [
    { kind: 'disconnected', thing: 't2', channel: foreign },
    { kind: 'user', user: 'another' },
    { kind: 'disconnected', thing: 't1', channel },
  ] as const)
    served.access.change(change)
  await served.topic.append(0, channel, ['a'])
  await own.until(1)
  expect([own.named, other.named]).toEqual([[], []])
})

test('a key that now belongs to another thing ends the stream', async () => {
  await using served = await serveLive()
  const client = await served.open('', thing)
  served.access.rights.set('one', { allowed: true, publisher: 't2', owner: 'user' })
  served.access.change({ kind: 'thing', thing: 't1' })
  await client.closed
  expect(reasonOf(client)).toBe('access_ended')
})

test('a token that expires ends the stream within about a second', async () => {
  await using served = await serveLive()
  served.access.rights.set('owner', { allowed: true, publisher: null, owner: 'user', endsMs: Date.now() + 300 })
  const client = await served.open()
  await client.closed
  expect(reasonOf(client)).toBe('access_ended')
})

test('if the permission cannot be checked the stream ends, and can be resumed', async () => {
  await using served = await serveLive()
  const client = await served.open()
  served.access.isAway = true
  served.access.change({ kind: 'unheard' })
  await client.closed
  expect(reasonOf(client)).toBe('unavailable')
  expect((await served.get()).status).toBe(503)
})

test('one user with all their things gets a quarter of the streams, and the end of one makes room', async () => {
  await using served = await serveLive({ streamsMax: 12 })
  const own = await Promise.all([served.open('', thing), served.open('', otherThing), served.open('', owner)])
  const more = await Promise.all([served.get('', thing), served.get('', otherThing), served.get('', owner)])
  expect(more.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual(more.map(() => [429, '1']))
  expect(more[0].text).toMatch(/your account has 3 live streams/)
  own[0].leave()
  await expect.poll(async () => (await openOrStatus(served)) as unknown).toBe(200)
})

test('when all streams are in use, one without a stream gets one: the user with the most loses their latest, and gets the reason', async () => {
  await using served = await serveLive({ streamsMax: 8 })
  const openOf = (name: string): Promise<EventClient> => {
    served.access.rights.set(name, { allowed: true, publisher: null, owner: name })
    return served.open('', { authorization: `Bearer ${name}` })
  }
  const opened: EventClient[] = []
  for (const name of ['a', 'b', 'c', 'd', 'a', 'b', 'e', 'f']) opened.push(await openOf(name))
  const [, , , , second, other] = opened
  opened.push(await openOf('honest'))
  await other!.closed
  expect(other!.named[0]!.data).toMatch(/"displaced","detail":"all streams are in use, and your account has the most/)
  opened.push(await openOf('another'))
  await second!.closed
  // All have one now, and none loses it to another one.
  served.access.rights.set('late', { allowed: true, publisher: null, owner: 'late' })
  const late = await served.get('', { authorization: 'Bearer late' })
  expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1'])
  await served.topic.append(0, channel, ['x'])
  for (const client of opened) if (client !== second && client !== other) await client.until(1)
})

test('50 users who ask for all streams do not keep another one from theirs', async () => {
  await using served = await serveLive({ streamsMax: 64 })
  const openOf = (name: string): Promise<EventClient> => {
    served.access.rights.set(name, { allowed: true, publisher: null, owner: name })
    return served.open('', { authorization: `Bearer ${name}` })
  }
  const opened: EventClient[] = []
  for (let nth = 0; nth < 50; nth++)
    for (let turn = 0; turn < 3; turn++)
      await openOf(`greedy-${nth}`).then(
        client => opened.push(client),
        () => undefined,
      )
  // Of these 64 are open: the others had to make room.
  expect(opened.length).toBeGreaterThan(64)
  const honest = await openOf('honest')
  await served.topic.append(0, channel, ['x'])
  await honest.until(1)
})

async function openOrStatus(served: ServedLive): Promise<number> {
  try {
    return (await served.open()).status
  } catch (error) {
    return Number((error as Error).message.slice(0, 3))
  }
}

test('a client that goes away leaves nothing behind', async () => {
  await using served = await serveLive()
  const clients = await Promise.all(Array.from({ length: 5 }, () => served.open()))
  expect([served.topic.openReaders, served.access.listeners()]).toEqual([1, 1])
  for (const client of clients) client.leave()
  await expect.poll(() => [served.topic.openReaders, served.topic.listeners, served.access.listeners()]).toEqual([0, 0, 0])
})

test("a heartbeat contains the client's position, also after messages that were not for it", async () => {
  await using served = await serveLive({ heartbeatSeconds: 1 })
  const client = await served.open('?name=none')
  await expect.poll(() => client.lastEventId()).not.toBe('')
  const began = client.lastEventId()
  await served.topic.append(0, channel, ['a'])
  // A first heartbeat may come before the message.
  await expect.poll(() => client.lastEventId()).not.toBe(began)
  await expect.poll(() => client.comments.length).toBeGreaterThan(0)
  const again = await served.open('', { ...owner, 'last-event-id': client.lastEventId() })
  await served.topic.append(0, channel, ['b'])
  await again.until(1)
  expect(again.names()).toEqual(['b'])
})

test('the end of the process ends every stream with a reason, and the server closes', async () => {
  const served = await serveLive()
  const clients = await Promise.all([served.open(), served.open('', thing)])
  await served.close()
  expect(await Promise.all(clients.map(client => client.closed))).toEqual([undefined, undefined])
  expect(clients.map(reasonOf)).toEqual(['stopping', 'stopping'])
  expect([served.topic.openReaders, served.topic.listeners]).toEqual([0, 0])
})

/** Asks for a stream and reads nothing of it until `resume`. */
async function openUnread({ url }: ServedLive): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.pause()
  socket.write(`GET /channels/${channel}/messages/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer owner\r\n\r\n`)
  return socket
}

/** More in all than the system's own buffers hold. */
const largeMessages = 200
async function appendLarge({ topic }: ServedLive): Promise<void> {
  for (let nth = 0; nth < largeMessages; nth++) {
    topic.appendPayload(0, channel, `[{"n":"large-${nth}","vs":"${'x'.repeat(100_000)}"},{"n":"small-${nth}","v":1}]`)
    await new Promise(resolve => setImmediate(resolve))
  }
}
const largeNames = Array.from({ length: largeMessages }, (_, nth) => [`large-${nth}`, `small-${nth}`]).flat()

test('a slow client gets every record once, and its buffer is bounded', async () => {
  await using served = await serveLive({ queueBytes: 256 * 1024, heartbeatSeconds: 3_600 })
  const socket = await openUnread(served)
  await expect.poll(() => served.topic.listeners).toBe(1)
  const quick = await served.open()
  await appendLarge(served)
  await quick.until(2 * largeMessages)
  expect(quick.names()).toEqual(largeNames)
  quick.leave()
  const names: string[] = []
  let rest = ''
  const all = Promise.withResolvers<void>()
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    rest += chunk
    for (let match = /"Name":"([^"]+)"/.exec(rest); match !== null; match = /"Name":"([^"]+)"/.exec(rest)) {
      names.push(match[1]!)
      rest = rest.slice(match.index + match[0].length)
    }
    if (rest.length > 200) rest = rest.slice(-200)
    if (names.length >= largeNames.length) all.resolve()
  })
  socket.resume()
  await all.promise
  expect(names).toEqual(largeNames)
  socket.destroy()
})

test('a client that reads nothing between two heartbeats is disconnected', async () => {
  await using served = await serveLive({ queueBytes: 16 * 1024, heartbeatSeconds: 1 })
  const socket = await openUnread(served)
  await expect.poll(() => served.topic.listeners).toBe(1)
  await appendLarge(served)
  await expect.poll(() => [served.topic.openReaders, served.access.listeners()]).toEqual([0, 0])
  socket.destroy()
})
