// Connecting over MQTT: who is accepted with what, who is refused with which code, and when a connection ends.

import { randomUUID, X509Certificate } from 'node:crypto'
import { connect as connectSocket } from 'node:net'
import { generate, type IConnackPacket, type IConnectPacket } from 'mqtt-packet'
import { expect, test } from 'vitest'
import { AccessUnavailableError, certificateCredential } from '../../../control-plane/client.ts'
import { fixture } from '../ingest/device.ts'
import { channel, key, limitedKey, looseKey, thing } from '../ingest/site.ts'
import { connectPacket, openClient } from './client.ts'
import { openSite, pack, payloadBytesMax } from './site.ts'

const topic = `channels/${channel}/messages`

test('a client of MQTT 5 gets what the server accepts', async () => {
  const site = await openSite()
  const { connack } = await site.connect(5, { clientId: '', properties: { sessionExpiryInterval: 60 } })
  expect(connack).toMatchObject({ reasonCode: 0, sessionPresent: false })
  expect(connack.properties).toEqual({
    sessionExpiryInterval: 0,
    receiveMaximum: 4,
    maximumPacketSize: payloadBytesMax + 16_384,
    assignedClientIdentifier: expect.stringMatching(/^[\w-]{36}$/),
    topicAliasMaximum: 16,
    wildcardSubscriptionAvailable: true,
    subscriptionIdentifiersAvailable: true,
    sharedSubscriptionAvailable: false,
  })
})

test('a session that a client of MQTT 3.1.1 wants to continue is never present', async () => {
  const site = await openSite()
  const { connack } = await site.connect(4, { clean: false })
  expect(connack).toMatchObject({ returnCode: 0, sessionPresent: false })
})

test.each([
  ['empty', ''],
  ['the id of the thing', thing],
  ['the id of the thing in upper case', thing.toUpperCase()],
])('the user name may be %s', async (_, username) => {
  const site = await openSite()
  const client = await site.connect(5, { username })
  client.send({ cmd: 'publish', qos: 1, dup: false, retain: false, messageId: 1, topic, payload: pack })
  expect(await client.next()).toMatchObject({ cmd: 'puback', reasonCode: 0 })
})

test('the key of a thing without connections is accepted', async () => {
  const site = await openSite()
  await site.connect(5, { password: Buffer.from(looseKey) })
})

const wrong = { reasonCode: 0x86, returnCode: 4 }
type Refusal = [what: string, codes: { reasonCode: number; returnCode: number }, own: Partial<IConnectPacket>]
const refusals: Refusal[] = [
  ['no password', wrong, { password: undefined as never, username: '' }],
  ['an unknown key', wrong, { password: Buffer.from(randomUUID()) }],
  ['a key with a space', wrong, { password: Buffer.from(`${key} `) }],
  ['the id of another thing', wrong, { username: randomUUID() }],
  ['an unknown key that was used too often', { reasonCode: 0x9f, returnCode: 5 }, { password: Buffer.from(limitedKey) }],
  ['a long client id', { reasonCode: 0x85, returnCode: 2 }, { clientId: 'a'.repeat(257) }],
  ['a will with a long topic', { reasonCode: 0x90, returnCode: 5 }, { will: { topic: `${topic}/`.padEnd(2_049, 'a'), payload: pack } }],
]

for (const version of [4, 5] as const) {
  test.each(refusals)(`MQTT ${version === 4 ? '3.1.1' : '5'}: %s is refused, and the connection closed`, async (_, codes, own) => {
    const site = await openSite()
    const answer = site.keys.authorize.bind(site.keys)
    // As in process, where the access control says whose key it is.
    site.keys.authorize = async request => {
      const access = await answer(request)
      return access.allowed || access.reason !== 'forbidden' ? access : { ...access, publisher: thing }
    }
    const client = await site.open(version, own)
    const [connack, ...rest] = (await client.rest()) as IConnackPacket[]
    const { reasonCode, returnCode } = codes
    expect(connack).toMatchObject(version === 5 ? { reasonCode } : { returnCode })
    expect(rest).toEqual([])
    expect(site.said).toEqual([expect.stringMatching(/^MQTT: connection refused: /)])
    expect(await site.registry.metrics()).toMatch(/component_errors_total\{component_id="ingest".*\} 1/)
  })

  test(`MQTT ${version === 4 ? '3.1.1' : '5'}: while keys cannot be checked, clients are asked to retry`, async () => {
    const site = await openSite()
    site.keys.fail = new AccessUnavailableError('away')
    const [connack] = (await (await site.open(version)).rest()) as IConnackPacket[]
    expect(connack).toMatchObject(version === 5 ? { reasonCode: 0x88 } : { returnCode: 3 })
  })
}

test('MQTT 3.1.1: an empty client id needs a clean session', async () => {
  const site = await openSite()
  const bytes = generate(connectPacket(4, { clientId: '', username: '', password: Buffer.from(key) }))
  // The flag of a clean session: the client's library refuses to send this.
  bytes[9]! &= ~0x02
  const client = await openClient(site.port, 4)
  client.socket.write(bytes)
  expect(await client.rest()).toMatchObject([{ cmd: 'connack', returnCode: 2 }])
  await site.connect(4, { clientId: '', clean: true })
})

test('enhanced authentication is refused', async () => {
  const site = await openSite()
  const [connack] = await (await site.open(5, { properties: { authenticationMethod: 'SCRAM-SHA-1' } })).rest()
  expect(connack).toMatchObject({ reasonCode: 0x8c })
})

test.each([
  ['MQTT 3.1', Buffer.from('101500064d51497364700302000a000764657669636531', 'hex')],
  ['MQTT 6', Buffer.from('100c00044d5154540602000a0000', 'hex')],
])('%s is refused with the return code of the version', async (_, bytes) => {
  const site = await openSite()
  const client = await openClient(site.port, 4)
  client.socket.write(bytes)
  expect(await client.rest()).toMatchObject([{ cmd: 'connack', returnCode: 1 }])
})

const shown = { cert: fixture('client'), key: fixture('client-key') }
const unknown = { reasonCode: 0x87, returnCode: 5 }
const byCertificate: Refusal[] = [
  ['without a user name', { reasonCode: 0, returnCode: 0 }, { username: '' }],
  ['with the id of its thing', { reasonCode: 0, returnCode: 0 }, { username: thing }],
  ['with an empty password', { reasonCode: 0, returnCode: 0 }, { username: '', password: Buffer.alloc(0) }],
  ['with the id of another thing', unknown, { username: randomUUID() }],
  ['with an unknown key, which takes precedence', wrong, { username: '', password: Buffer.from(randomUUID()) }],
  ['with the key of another thing, which takes precedence', wrong, { username: thing, password: Buffer.from(looseKey) }],
]
const certificateSite = { tls: { cert: fixture('server'), key: fixture('server-key'), asksForCertificate: true }, ca: fixture('ca'), shown }

for (const version of [4, 5] as const) {
  test.each(byCertificate)(`MQTT ${version === 4 ? '3.1.1' : '5'}: a certificate %s`, async (_, { reasonCode, returnCode }, own) => {
    const site = await openSite(certificateSite)
    const answer = site.keys.authorize.bind(site.keys)
    const { secret } = certificateCredential(new X509Certificate(shown.cert))
    site.keys.authorize = async request =>
      request.credential.scheme === 'Certificate' && request.credential.secret === secret
        ? { allowed: false, reason: 'forbidden', publisher: thing, owner: 'user' }
        : answer(request)
    const client = await site.open(version, { password: undefined as never, ...own })
    expect(await client.next()).toMatchObject(version === 5 ? { reasonCode } : { returnCode })
  })
}

test('an unknown certificate is refused without telling why, and none is looked at unless clients are asked for one', async () => {
  const site = await openSite(certificateSite)
  const [refused] = await (await site.open(5, { password: undefined as never, username: '' })).rest()
  expect(refused).toMatchObject({
    reasonCode: 0x87,
    properties: { reasonString: expect.stringMatching(/revoked.*expired.*another thing/) },
  })
  const other = await openSite({ ...certificateSite, tls: { cert: fixture('server'), key: fixture('server-key') } })
  expect(await (await other.open(5, { password: undefined as never, username: '' })).rest()).toMatchObject([{ reasonCode: 0x86 }])
})

test('a client that does not send its CONNECT in time is closed', async () => {
  const site = await openSite()
  const client = await openClient(site.port)
  await expect.poll(() => site.timers).toHaveLength(1)
  expect(site.timers[0]!.waitMs).toBe(10_000)
  site.timers[0]!.fire()
  expect(await client.rest()).toEqual([])
})

test('beyond the limit of connections without a CONNECT the oldest is closed, and those whose key is being checked do not count', async () => {
  const site = await openSite({ halfOpenMax: 1 })
  const answer = site.keys.authorize.bind(site.keys)
  const asked = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  site.keys.authorize = async request => {
    asked.resolve()
    await held.promise
    return answer(request)
  }
  const early = await site.open()
  await asked.promise
  // The network of the tests may have one of one.
  const [first, second] = [await openClient(site.port), await openClient(site.port)]
  expect(await second.rest()).toEqual([])
  held.resolve()
  expect(await early.next()).toMatchObject({ cmd: 'connack', reasonCode: 0 })
  expect(first.socket.destroyed).toBe(false)
})

test('connections within their TLS handshake count', async () => {
  const site = await openSite({ halfOpenMax: 5, tls: { cert: fixture('server'), key: fixture('server-key') }, ca: fixture('ca') })
  const silent = await openClient(site.port)
  expect(await (await openClient(site.port)).rest()).toEqual([])
  silent.socket.destroy()
  await silent.rest()
  await expect.poll(() => site.registry.metrics()).toContain('open_connections{component_id="mqtt",component_kind="source"} 0')
  await site.connect()
})

test('what clients do wrong is logged in a few lines a second, and otherwise at debug', async () => {
  const site = await openSite()
  for (const clientId of ['a', 'b', 'c', 'd']) {
    const client = await site.connect(5, { clientId })
    for (let messageId = 1; messageId <= 10; messageId++) {
      client.send({ cmd: 'publish', qos: 1, dup: false, retain: false, messageId, topic: 'elsewhere', payload: pack })
      await client.next()
    }
  }
  expect(site.said.length + site.whispered.length).toBe(40)
  expect(site.said.length).toBeGreaterThanOrEqual(10)
  expect(site.whispered.length).toBeGreaterThan(0)
})

test('a client that was accepted in time is not closed', async () => {
  const site = await openSite()
  await site.connect()
  expect(site.timers.map(({ isStopped }) => isStopped)).toEqual([true])
})

test.each([4, 5] as const)('MQTT version %i: one and a half of the keep-alive without a packet ends the connection', async version => {
  const site = await openSite()
  const client = await site.connect(version, { keepalive: 20 })
  const keepAlive = site.timers.at(-1)!
  expect(keepAlive.waitMs).toBe(30_000)
  client.send({ cmd: 'pingreq' })
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  expect(keepAlive.restarts).toBe(1)
  keepAlive.fire()
  expect(await client.rest()).toMatchObject(version === 5 ? [{ cmd: 'disconnect', reasonCode: 0x8d }] : [])
  expect(site.said).toEqual([expect.stringContaining('keep-alive')])
})

test('the same client id of the same thing takes over', async () => {
  const site = await openSite()
  const [first, second] = [await site.connect(5), await site.connect(5)]
  expect(await first.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x8e }])
  const third = await site.connect(4)
  expect(await second.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x8e }])
  third.send({ cmd: 'pingreq' })
  expect(await third.next()).toMatchObject({ cmd: 'pingresp' })
})

test('the same client id of the same thing takes over with another key of it', async () => {
  const site = await openSite()
  site.keys.authorize = async () => ({ allowed: false, reason: 'forbidden', publisher: thing, owner: 'user' })
  const first = await site.connect(5)
  await site.connect(5, { password: Buffer.from(randomUUID()) })
  expect(await first.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x8e }])
})

test('the same client id of another thing does not', async () => {
  const site = await openSite()
  const clients = [await site.connect(5), await site.connect(5, { password: Buffer.from(looseKey) })]
  for (const client of clients) {
    client.send({ cmd: 'pingreq' })
    expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  }
})

test('a thing has a bounded number of connections, and those of others do not count', async () => {
  const site = await openSite({ thingConnectionsMax: 1 })
  await site.connect(5, { clientId: 'a' })
  expect(await (await site.open(5, { clientId: 'b' })).rest()).toMatchObject([{ reasonCode: 0x97 }])
  expect(await (await site.open(4, { clientId: 'b' })).rest()).toMatchObject([{ returnCode: 3 }])
  await site.connect(5, { clientId: 'b', password: Buffer.from(looseKey) })
})

test('the things of an owner with bounds have a bounded number of connections together', async () => {
  const site = await openSite({ ownerConnectionsMax: 2 })
  site.keys.isBounded = true
  const first = await site.connect(5, { clientId: 'a' })
  await site.connect(5, { password: Buffer.from(looseKey) })
  // Taking over needs no place.
  await site.connect(5, { clientId: 'a' })
  expect(await first.rest()).toMatchObject([{ reasonCode: 0x8e }])
  const refused = await site.open(5, { clientId: 'b' })
  expect(await refused.rest()).toMatchObject([
    { reasonCode: 0x97, properties: { reasonString: expect.stringContaining('lift the bounds') } },
  ])
  site.keys.isBounded = false
  await site.connect(5, { clientId: 'b' })
})

test('connections beyond the limit of the process are closed, and counted ones are those that are open', async () => {
  const site = await openSite({ connectionsMax: 1 })
  const first = await site.connect()
  expect(await (await site.open()).rest()).toEqual([])
  expect(await site.registry.metrics()).toContain('open_connections{component_id="mqtt",component_kind="source"} 1')
  first.send({ cmd: 'disconnect' })
  await first.rest()
  await expect.poll(() => site.registry.metrics()).toContain('open_connections{component_id="mqtt",component_kind="source"} 0')
  await site.connect()
})

test('a changed thing whose key is no longer valid loses its connection, and others keep theirs', async () => {
  const site = await openSite()
  const [client, other] = [await site.connect(5), await site.connect(5, { password: Buffer.from(looseKey) })]
  client.send({ cmd: 'publish', qos: 1, dup: false, retain: false, messageId: 1, topic, payload: pack })
  await client.next()
  site.change({ kind: 'thing', thing })
  client.send({ cmd: 'pingreq' })
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  site.keys.authorize = async () => ({ allowed: false, reason: 'unauthenticated' })
  site.change({ kind: 'thing', thing })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x87 }])
  other.send({ cmd: 'pingreq' })
  expect(await other.next()).toMatchObject({ cmd: 'pingresp' })
})

test('after missed changes every connection is checked, and again while keys cannot be', async () => {
  const site = await openSite()
  const [client, other] = [await site.connect(5), await site.connect(5, { password: Buffer.from(looseKey) })]
  site.keys.fail = new AccessUnavailableError('away')
  const before = site.keys.requests.length
  site.change({ kind: 'unheard' })
  await expect.poll(() => site.keys.requests.length).toBe(before + 2)
  client.send({ cmd: 'pingreq' })
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  delete site.keys.fail
  const answer = site.keys.authorize.bind(site.keys)
  site.keys.authorize = async request =>
    request.credential.secret === key ? { allowed: false, reason: 'unauthenticated' } : answer(request)
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x87 }])
  other.send({ cmd: 'pingreq' })
  expect(await other.next()).toMatchObject({ cmd: 'pingresp' })
})

test('a key that was replaced ends the connection when its time is over', async () => {
  const site = await openSite()
  const client = await site.connect(5)
  const endsMs = Date.now() + 60_000
  site.keys.authorize = async () => ({ allowed: false, reason: 'forbidden', publisher: thing, owner: 'user', endsMs })
  site.change({ kind: 'thing', thing })
  await expect.poll(() => site.timers.length).toBe(2)
  expect(site.timers[1]!.waitMs).toBeGreaterThan(50_000)
  site.keys.authorize = async () => ({ allowed: false, reason: 'unauthenticated' })
  site.timers[1]!.fire()
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x87 }])
})

test.each([4, 5] as const)('MQTT version %i: a SUBSCRIBE or UNSUBSCRIBE without a filter ends the connection', async version => {
  const site = await openSite()
  for (const head of [0x82, 0xa2]) {
    const client = await site.connect(version)
    client.socket.write(Buffer.from(version === 5 ? [head, 3, 0, 1, 0] : [head, 2, 0, 1]))
    expect(await client.rest()).toMatchObject(version === 5 ? [{ cmd: 'disconnect', reasonCode: 0x82 }] : [])
  }
  expect(site.said).toEqual([expect.stringContaining('no topic filter'), expect.stringContaining('no topic filter')])
})

test('a changed thing whose key cannot be checked loses its connection', async () => {
  const site = await openSite()
  const client = await site.connect()
  client.send({ cmd: 'publish', qos: 1, dup: false, retain: false, messageId: 1, topic, payload: pack })
  await client.next()
  site.keys.fail = new AccessUnavailableError('away')
  site.change({ kind: 'thing', thing })
  expect(await client.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x89 }])
})

test('a stop answers the messages that were taken, and tells clients of MQTT 5', async () => {
  const held = Promise.withResolvers<void>()
  const taken = Promise.withResolvers<void>()
  const site = await openSite({
    async append(messages, log) {
      taken.resolve()
      await held.promise
      return log.append(messages)
    },
  })
  const client = await site.connect(5)
  client.send({ cmd: 'publish', qos: 1, dup: false, retain: false, messageId: 1, topic, payload: pack })
  await taken.promise
  const closed = site.close(60_000)
  held.resolve()
  expect(await client.rest()).toMatchObject([
    { cmd: 'puback', messageId: 1 },
    { cmd: 'disconnect', reasonCode: 0x8b },
  ])
  await closed
  const refused = connectSocket(site.port, '127.0.0.1')
  await expect(new Promise((resolve, reject) => refused.on('connect', resolve).on('error', reject))).rejects.toThrow('ECONNREFUSED')
})

test('a packet before the CONNECT, and a second CONNECT, end the connection', async () => {
  const site = await openSite()
  const early = await openClient(site.port)
  early.send({ cmd: 'pingreq' })
  expect(await early.rest()).toEqual([])
  const twice = await site.connect(5)
  twice.send(connectPacket(5, { username: '', password: Buffer.from(key) }))
  expect(await twice.rest()).toMatchObject([{ cmd: 'disconnect', reasonCode: 0x82 }])
})
