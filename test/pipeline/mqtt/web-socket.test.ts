// MQTT over WebSocket: frames as the standard allows them (MQTT 5 §6), what is refused, and that the bounds of connections hold.

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { json } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import { generate, type Packet, parser } from 'mqtt-packet'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import type { ServerOptions } from '../../../http/server.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { key, thing } from '../ingest/site.ts'
import { connectPacket } from './client.ts'
import { type MqttSite, openSite, openWebSockets, pack, payloadBytesMax, type SiteOptions, topic } from './site.ts'

const login = generate(connectPacket(5, { username: thing, password: Buffer.from(key), will: { topic: `${topic}/lost`, payload: pack } }), {
  protocolVersion: 5,
})
const published = (messageId: number, payload = pack, qos: 0 | 1 = 1): Buffer =>
  generate({ cmd: 'publish', qos, dup: false, retain: false, messageId, topic, payload }, { protocolVersion: 5 })
const noConnections = 'open_connections{component_id="mqtt",component_kind="source"} 0'

interface Opened {
  readonly socket: WebSocket
  next(): Promise<Packet>
  /** The code of the closing frame. */
  readonly closed: Promise<number>
}

async function open(url: string, protocols: string[] = ['mqtt'], headers: Readonly<Record<string, string>> = {}): Promise<Opened> {
  const socket = new WebSocket(url, protocols, { headers })
  onTestFinished(() => socket.terminate())
  const packets: Packet[] = []
  let wake: (() => void) | undefined
  const bytes = parser({ protocolVersion: 5 }).on('packet', packet => {
    packets.push(packet)
    wake?.()
  })
  socket.on('message', data => bytes.parse(data as Buffer))
  const closed = new Promise<number>(resolve => void socket.on('close', resolve))
  await once(socket, 'open')
  return {
    socket,
    closed,
    async next() {
      while (packets.length === 0) await new Promise<void>(resolve => (wake = resolve))
      return packets.shift()!
    },
  }
}

/** The connection after the handshake, for frames that a client's library does not send. */
async function openRaw(url: string): Promise<Socket> {
  const handshake = { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-protocol': 'mqtt' }
  const sent = request(url.replace('ws:', 'http:'), { headers: { ...handshake, 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' } })
  sent.end()
  const [, socket] = (await once(sent, 'upgrade')) as [unknown, Socket]
  socket.on('error', () => undefined).resume()
  onTestFinished(() => void socket.destroy())
  return socket
}

/** The status and detail with which a request for a WebSocket is refused. */
async function refused(url: string, protocols: string[], headers: Readonly<Record<string, string>> = {}): Promise<[number, string]> {
  const socket = new WebSocket(url, protocols, { headers })
  const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  const { detail } = (await json(answer)) as { detail: string }
  return [answer.statusCode!, detail]
}

async function connect(url: string): Promise<Opened> {
  const client = await open(url)
  client.socket.send(login)
  expect(await client.next()).toMatchObject({ cmd: 'connack', reasonCode: 0 })
  return client
}

async function openBoth(own?: SiteOptions, server?: Partial<ServerOptions>): Promise<{ readonly site: MqttSite; readonly url: string }> {
  const site = await openSite(own)
  return { site, url: await openWebSockets(site, server) }
}

test('packets may be divided among frames, and share one', async () => {
  const { url } = await openBoth()
  const client = await open(url, ['other', 'mqtt'])
  expect(client.socket.protocol).toBe('mqtt')
  for (const byte of login) client.socket.send(Buffer.from([byte]))
  expect(await client.next()).toMatchObject({ cmd: 'connack', reasonCode: 0 })
  client.socket.send(Buffer.concat([published(1), published(2)]))
  expect([await client.next(), await client.next()]).toMatchObject([{ messageId: 1 }, { messageId: 2 }])
  client.socket.ping('there?')
  expect(String((await once(client.socket, 'pong'))[0])).toBe('there?')
})

test('a frame of text closes the connection', async () => {
  const { site, url } = await openBoth()
  const client = await connect(url)
  client.socket.send(published(1).toString('latin1'))
  await client.closed
  await expect.poll(() => site.said).toContainEqual(expect.stringContaining('a frame of text'))
})

test('a message of frames above the largest packet closes the connection', async () => {
  const { site, url } = await openBoth()
  const client = await connect(url)
  client.socket.send(Buffer.alloc(payloadBytesMax + 16_384 + 1))
  await client.closed
  await expect.poll(() => site.said).toContainEqual(expect.stringContaining('Max payload size exceeded'))
})

test('a client without a CONNECT may not fill the memory with a frame', async () => {
  const { url } = await openBoth()
  const socket = await openRaw(url)
  const frame = Buffer.concat([Buffer.from([0x82, 0xfe, 17_000 >> 8, 17_000 & 0xff, 0, 0, 0, 0]), Buffer.alloc(17_000)])
  socket.write(frame.subarray(0, 16_500))
  for (let at = 16_500; at < frame.length - 1 && !socket.closed; at++) {
    socket.write(frame.subarray(at, at + 1))
    await turn()
  }
  expect(socket.closed).toBe(true)
})

test('what arrived before the closing frame is handled, and the will published unless a DISCONNECT was among it', async () => {
  // The closing frame arrives while the first messages are being stored.
  const { site, url } = await openBoth({ append: (messages, log) => turn().then(() => log.append(messages)) })
  const numbers = Array.from({ length: 50 }, (_, at) => at + 1)
  const polite = await connect(url)
  for (const number of numbers) polite.socket.send(published(number, Buffer.from(`[{"n":"a","v":${number}}]`), number % 2 === 0 ? 0 : 1))
  polite.socket.send(generate({ cmd: 'disconnect' }))
  polite.socket.close()
  await polite.closed
  await expect.poll(() => site.log.messages.map(({ payload }) => String(payload))).toHaveLength(50)
  await expect.poll(() => site.registry.metrics()).toContain(noConnections)
  const lost = await connect(url)
  lost.socket.terminate()
  await expect.poll(() => site.log.messages.at(-1)).toMatchObject({ subtopic: 'lost' })
  expect(site.log.messages).toHaveLength(51)
})

test('a message that waits for the log is given up when the connection breaks', async () => {
  const { site, url } = await openBoth()
  site.log.failure = new LogUnavailableError('away')
  const client = await connect(url)
  client.socket.send(Buffer.concat([published(1), generate({ cmd: 'pingreq' })]))
  expect(await client.next()).toMatchObject({ cmd: 'pingresp' })
  client.socket.terminate()
  await expect.poll(() => site.said).toContainEqual(expect.stringMatching(/^MQTT: message refused: .*retry/))
})

test('connections count among those of the port, and those without a CONNECT end first', async () => {
  const { site, url } = await openBoth({ connectionsMax: 2, halfOpenMax: 5 })
  const silent = await open(url)
  expect(await refused(url, ['mqtt'])).toEqual([503, expect.stringContaining('too many')])
  silent.socket.terminate()
  await expect.poll(() => site.registry.metrics()).toContain(noConnections)
  const client = await connect(url)
  await site.connect(5, { clientId: 'b' })
  expect(await refused(url, ['mqtt'])).toEqual([503, expect.stringContaining('too many')])
  client.socket.send(generate({ cmd: 'disconnect' }))
  expect(await client.closed).toBe(1005)
  await expect.poll(() => site.registry.metrics()).toMatch(/open_connections\{component_id="mqtt",component_kind="source"\} 1/)
})

test('a client that does not offer MQTT is refused', async () => {
  const { url } = await openBoth()
  for (const protocols of [[], ['mqttv3.1']]) {
    expect(await refused(url, protocols)).toEqual([400, expect.stringContaining('the subprotocol mqtt')])
  }
})

test('pages connect from their own origin and from those that are allowed, to an address of this machine by its names only', async () => {
  const { url } = await openBoth({}, { allowedOrigins: ['https://app.example.com'] })
  const own = url.replace('ws:', 'http:').replace('/mqtt', '')
  for (const origin of [own, 'https://app.example.com']) (await open(url, ['mqtt'], { origin })).socket.terminate()
  for (const origin of ['https://other.example.com', 'null']) {
    expect(await refused(url, ['mqtt'], { origin })).toEqual([403, expect.stringContaining('http.allowed_origins')])
  }
  expect(await refused(url, ['mqtt'], { host: 'other.example.com' })).toEqual([421, expect.stringContaining('http.hosts')])
})

test('a stop ends connections with a reason, and refuses others', async () => {
  const { site, url } = await openBoth()
  const client = await connect(url)
  const closed = site.close(1_000)
  expect(await client.next()).toMatchObject({ cmd: 'disconnect', reasonCode: 0x8b })
  await closed
  expect(await refused(url, ['mqtt'])).toEqual([503, expect.stringContaining('stopping')])
})

test('requests for another protocol, or for a WebSocket at another path, are answered as if they asked for none', async () => {
  const { url } = await openBoth()
  expect(await refused(url.replace('/mqtt', '/elsewhere'), ['mqtt'])).toEqual([404, expect.stringContaining('/openapi.json')])
  const sent = request(url.replace('ws:', 'http:').replace('/mqtt', '/csv'), {
    method: 'POST',
    headers: { connection: 'upgrade', upgrade: 'h2c', 'content-type': 'text/csv' },
  })
  sent.end('a,b')
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  expect(await json(answer)).toEqual({ text: 'a,b' })
})
