// MQTT on `./sluice up`: messages with QoS 1 that are acknowledged a second, which are durable then, and deliveries of one publisher to many subscribers, with
// the time from publishing to delivery.
//
// Publishers keep `--window` messages unacknowledged on each connection. Clients are in a process of their own.
//
// node benchmarks/up/mqtt.ts [--seconds 10] [--connections 100] [--window 8] [--subscribers 1000] [--rate 50] [--url mqtt://… --topic …]
//
// With --url and --topic another broker is measured, without user name and password.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { parseArgs } from 'node:util'
import { generate, type Packet, parser } from 'mqtt-packet'
import { call, expectStatus, makeSite } from '../../test/up/operator.ts'
import { disposableFolder, startPlatform } from '../../test/up/platform.ts'
import { cpuSeconds } from '../process-figures.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    connections: { type: 'string', default: '100' },
    window: { type: 'string', default: '8' },
    subscribers: { type: 'string', default: '1000' },
    /** Messages a second of the publisher that all subscribers hear. */
    rate: { type: 'string', default: '50' },
    url: { type: 'string' },
    topic: { type: 'string' },
    /** Of the measured broker with --url, for its CPU. */
    pid: { type: 'string' },
    /** For the process of the clients. */
    role: { type: 'string' },
  },
})
const [seconds, connections, windowMax, subscribers, rate] = [
  values.seconds,
  values.connections,
  values.window,
  values.subscribers,
  values.rate,
].map(Number) as [number, number, number, number, number]

interface Order {
  readonly host: string
  readonly port: number
  /** The keys of things, which connections use in turn; none for a broker without. */
  readonly keys: readonly string[]
  readonly topic: string
}

interface Acknowledged {
  readonly count: number
  readonly p50Ms: number
  readonly p99Ms: number
}

interface Delivered extends Acknowledged {
  readonly wanted: number
}

if (values.role === 'clients') serveClients()
else await main()

async function main(): Promise<void> {
  if (values.url !== undefined) {
    const { hostname, port } = new URL(values.url)
    await measure({ host: hostname, port: Number(port), keys: [], topic: values.topic ?? 'a/b' }, Number(values.pid ?? process.pid))
    return
  }
  await using folder = await disposableFolder()
  const platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  const [, port] = /^mqtt on mqtt:\/\/127\.0\.0\.1:(\d+)$/m.exec(platform.printed())!
  const keys = [site.device.replace('Thing ', '')]
  // A thing has at most a hundred connections.
  const more = Math.ceil((subscribers + connections + 1) / 100)
  const body = Array.from({ length: more }, (_, nth) => ({ name: `subscriber ${nth}` }))
  const made = await expectStatus(call(platform.url, 'POST', '/things/bulk', { authorization: site.owner, body }), 201)
  const things = made.json!['things'] as { id: string; key: string }[]
  const ends = { channel_ids: [site.channel], thing_ids: things.map(({ id }) => id) }
  await expectStatus(call(platform.url, 'POST', '/connect', { authorization: site.owner, body: ends }), 200)
  keys.push(...things.map(({ key }) => key))
  await measure({ host: '127.0.0.1', port: Number(port), keys, topic: `channels/${site.channel}/messages` }, platform.process.pid!)
  await platform.stop()
}

async function measure(order: Order, pid: number): Promise<void> {
  const clients = fork(new URL(import.meta.url), ['--role', 'clients', ...process.argv.slice(2)])
  const startCpu = await cpuSeconds(pid)
  const published = await ask<Acknowledged>(clients, { kind: 'publish', order })
  const cpuUs = ((await cpuSeconds(pid)) - startCpu) * 1e6
  console.log(
    `QoS 1, ${connections} connections, ${windowMax} unacknowledged each   ${Math.round(published.count / seconds)} acknowledged/s, ` +
      `p50 ${published.p50Ms.toFixed(1)} ms, p99 ${published.p99Ms.toFixed(1)} ms, ${(cpuUs / published.count).toFixed(1)} µs of CPU each`,
  )
  const fanCpu = await cpuSeconds(pid)
  const heard = await ask<Delivered>(clients, { kind: 'subscribe', order })
  const fanUs = ((await cpuSeconds(pid)) - fanCpu) * 1e6
  console.log(
    `QoS 0, ${subscribers} subscribers, ${rate} messages/s   ${Math.round(heard.count / seconds)} deliveries/s of ${Math.round(heard.wanted / seconds)}, ` +
      `p50 ${heard.p50Ms.toFixed(1)} ms, p99 ${heard.p99Ms.toFixed(1)} ms from publishing, ${(fanUs / heard.count).toFixed(1)} µs of CPU each`,
  )
  clients.disconnect()
}

async function ask<Answer>(clients: ChildProcess, message: { readonly kind: string; readonly order: Order }): Promise<Answer> {
  clients.send(message)
  const [answer] = (await once(clients, 'message')) as [Answer]
  return answer
}

function serveClients(): void {
  process.on('message', ({ kind, order }: { kind: 'publish' | 'subscribe'; order: Order }) => {
    const work = kind === 'publish' ? publish(order) : subscribe(order)
    void work.then(answer => process.send!(answer))
  })
  process.on('disconnect', () => process.exit())
}

interface OpenClient {
  readonly socket: Socket
  send(packet: Packet): void
  onPacket: (packet: Packet) => void
}

async function open({ host, port, keys }: Order, nth: number): Promise<OpenClient> {
  const socket = connect(port, host)
  socket.setNoDelay(true)
  await once(socket, 'connect')
  const client: OpenClient = {
    socket,
    send: packet => void socket.write(generate(packet)),
    onPacket: () => undefined,
  }
  const accepted = new Promise<void>((resolve, reject) => {
    client.onPacket = packet =>
      packet.cmd === 'connack' && packet.returnCode === 0 ? resolve() : reject(new Error(`refused: ${JSON.stringify(packet)}`))
  })
  const bytes = parser().on('packet', packet => client.onPacket(packet))
  socket.on('data', chunk => bytes.parse(chunk))
  const key = keys[Math.floor(nth / 100) % Math.max(keys.length, 1)]
  const login = key === undefined ? {} : { username: '', password: Buffer.from(key) }
  client.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, clientId: `client-${nth}`, keepalive: 0, ...login })
  await accepted
  return client
}

const pack = (atMs: number): string => `[{"n":"temperature","u":"Cel","v":${atMs.toFixed(3)}}]`

function summed(waits: number[]): Acknowledged {
  waits.sort((one, other) => one - other)
  const at = (part: number): number => waits[Math.min(waits.length - 1, Math.floor(waits.length * part))] ?? Number.NaN
  return { count: waits.length, p50Ms: at(0.5), p99Ms: at(0.99) }
}

async function publish(order: Order): Promise<Acknowledged> {
  const all = await Promise.all(Array.from({ length: connections }, (_, nth) => open(order, nth)))
  const waits: number[] = []
  const beginMs = performance.now() + 2_000
  const endMs = beginMs + seconds * 1000
  await Promise.all(
    all.map(
      client =>
        new Promise<void>(resolve => {
          const sentMs = new Map<number, number>()
          let id = 0
          const next = (): void => {
            id = (id % 65_535) + 1
            sentMs.set(id, performance.now())
            client.send({ cmd: 'publish', topic: order.topic, qos: 1, messageId: id, payload: pack(0), dup: false, retain: false })
          }
          client.onPacket = ({ messageId }) => {
            const nowMs = performance.now()
            if (nowMs >= beginMs && nowMs < endMs) waits.push(nowMs - sentMs.get(messageId!)!)
            sentMs.delete(messageId!)
            if (nowMs < endMs) next()
            else if (sentMs.size === 0) resolve()
          }
          for (let count = 0; count < windowMax; count++) next()
        }),
    ),
  )
  for (const { socket } of all) socket.destroy()
  return summed(waits)
}

async function subscribe(order: Order): Promise<Delivered> {
  const waits: number[] = []
  const all: OpenClient[] = []
  for (let nth = 0; nth < subscribers; nth++) {
    const client = await open(order, nth)
    const granted = new Promise<void>(resolve => {
      client.onPacket = () => resolve()
    })
    client.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: order.topic, qos: 0 }] })
    await granted
    all.push(client)
  }
  const wanted = Math.floor(seconds * rate)
  const done = new Promise<void>(resolve => {
    for (const client of all) {
      client.onPacket = packet => {
        if (packet.cmd !== 'publish') return
        const [{ v: sentMs }] = JSON.parse(packet.payload.toString()) as [{ v: number }]
        waits.push(performance.now() - sentMs)
        if (waits.length === wanted * subscribers) resolve()
      }
    }
  })
  const publisher = await open(order, subscribers)
  const beginMs = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    for (; sent < wanted && beginMs + (sent * 1000) / rate <= performance.now(); sent++) {
      const dueMs = beginMs + (sent * 1000) / rate
      publisher.send({ cmd: 'publish', topic: order.topic, qos: 0, payload: pack(dueMs), dup: false, retain: false })
    }
    if (sent === wanted) clearInterval(timer)
  }, 5)
  await Promise.race([done, new Promise(resolve => setTimeout(resolve, seconds * 3_000))])
  clearInterval(timer)
  for (const { socket } of [...all, publisher]) socket.destroy()
  return { ...summed(waits), wanted: wanted * subscribers }
}
