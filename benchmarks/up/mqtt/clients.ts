// The clients of the benchmark, in a process of their own: publishers, subscribers, and connections that wait.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { generate, type Packet, parser } from 'mqtt-packet'

/** What is measured, and at which broker. */
export interface Order {
  readonly kind: 'publish' | 'fan-out' | 'deliver' | 'wait' | 'leave-session' | 'close'
  readonly port: number
  /** Of things, each for a hundred connections; none for a broker that asks for nothing. */
  readonly keys: readonly string[]
  readonly topic: string
  readonly seconds: number
  readonly connections: number
  /** Messages that each publisher has unacknowledged. */
  readonly window: number
  readonly subscribers: number
  /** Messages a second, of all publishers together. */
  readonly rate: number
}

export interface Answer {
  readonly count: number
  readonly p50Ms: number
  readonly p99Ms: number
}

interface OpenClient {
  readonly socket: Socket
  send(packet: Packet): void
  onPacket: (packet: Packet) => void
}

const connectionsOfKey = 100
const opensAtOnce = 50
const warmUpMs = 2_000
const quietMs = 3_000
const waiting: OpenClient[] = []

process.on('message', (order: Order) => {
  void work(order).then(answer => process.send!(answer))
})
process.on('disconnect', () => process.exit())

async function work(order: Order): Promise<Answer> {
  if (order.kind === 'publish') return publish(order)
  if (order.kind === 'fan-out') return fanOut(order)
  if (order.kind === 'deliver') return deliver(order)
  if (order.kind === 'wait') waiting.push(...(await openAll(order, order.connections)))
  else if (order.kind === 'leave-session') await leaveSession(order)
  else closeAll(waiting.splice(0))
  return summed([])
}

async function open({ port, keys }: Order, nth: number, clean = true): Promise<OpenClient> {
  const socket = connect(port, '127.0.0.1')
  socket.setNoDelay(true)
  await once(socket, 'connect')
  const client: OpenClient = {
    socket,
    send: packet => void socket.write(generate(packet)),
    onPacket: () => undefined,
  }
  const bytes = parser().on('packet', packet => client.onPacket(packet))
  socket.on('data', chunk => {
    // What it answers to one segment is one write.
    socket.cork()
    bytes.parse(chunk)
    socket.uncork()
  })
  const key = keys[Math.floor(nth / connectionsOfKey) % Math.max(keys.length, 1)]
  const login = key === undefined ? {} : { username: '', password: Buffer.from(key) }
  const connack = await answerOf(client, {
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 4,
    clean,
    clientId: `client-${nth}`,
    keepalive: 0,
    ...login,
  })
  if (connack.cmd !== 'connack' || connack.returnCode !== 0) throw new Error(`refused: ${JSON.stringify(connack)}`)
  return client
}

function answerOf(client: OpenClient, packet: Packet): Promise<Packet> {
  const { promise, resolve } = Promise.withResolvers<Packet>()
  client.onPacket = resolve
  client.send(packet)
  return promise
}

async function openAll(order: Order, count: number): Promise<OpenClient[]> {
  const all: OpenClient[] = []
  while (all.length < count) {
    const some = Math.min(opensAtOnce, count - all.length)
    all.push(...(await Promise.all(Array.from({ length: some }, (_, nth) => open(order, all.length + nth)))))
  }
  return all
}

function closeAll(clients: readonly OpenClient[]): void {
  for (const { socket } of clients) socket.destroy()
}

async function subscribe(client: OpenClient, topic: string, qos: 0 | 1): Promise<void> {
  await answerOf(client, { cmd: 'subscribe', messageId: 1, subscriptions: [{ topic, qos }] })
}

/** A session that is away: a broker keeps what it did not hear. */
async function leaveSession(order: Order): Promise<void> {
  const client = await open(order, 0, false)
  await subscribe(client, order.topic, 1)
  client.socket.destroy()
}

const pack = (atMs: number): string => `[{"n":"temperature","u":"Cel","v":${atMs.toFixed(3)}}]`

function summed(waits: number[]): Answer {
  waits.sort((one, other) => one - other)
  const at = (part: number): number => waits[Math.min(waits.length - 1, Math.floor(waits.length * part))] ?? Number.NaN
  return { count: waits.length, p50Ms: at(0.5), p99Ms: at(0.99) }
}

/** As fast as acknowledgements come, after a warm-up: the time from sending to the PUBACK. */
async function publish(order: Order): Promise<Answer> {
  const { topic, seconds, connections, window } = order
  const all = await openAll(order, connections)
  const waits: number[] = []
  const beginMs = performance.now() + warmUpMs
  const endMs = beginMs + seconds * 1000
  const publishAll = (client: OpenClient): Promise<void> =>
    new Promise(resolve => {
      const sentMs = new Map<number, number>()
      let id = 0
      const next = (): void => {
        id = (id % 65_535) + 1
        sentMs.set(id, performance.now())
        client.send({ cmd: 'publish', topic, qos: 1, messageId: id, payload: pack(0), dup: false, retain: false })
      }
      client.onPacket = ({ messageId }) => {
        const nowMs = performance.now()
        if (nowMs >= beginMs && nowMs < endMs) waits.push(nowMs - sentMs.get(messageId!)!)
        sentMs.delete(messageId!)
        if (nowMs < endMs) next()
        else if (sentMs.size === 0) resolve()
      }
      for (let count = 0; count < window; count++) next()
    })
  await Promise.all(all.map(publishAll))
  closeAll(all)
  return summed(waits)
}

/** Sends when each message is due, however late others are: the times are from then on. */
async function sendOnTime(publishers: readonly OpenClient[], { topic, rate, seconds }: Order, qos: 0 | 1): Promise<void> {
  const wanted = Math.floor(seconds * rate)
  const beginMs = performance.now()
  const { promise, resolve } = Promise.withResolvers<void>()
  let sent = 0
  const timer = setInterval(() => {
    for (; sent < wanted; sent++) {
      const dueMs = beginMs + (sent * 1000) / rate
      if (dueMs > performance.now()) return
      const messageId = (Math.floor(sent / publishers.length) % 65_535) + 1
      const packet = { cmd: 'publish', topic, payload: pack(dueMs), dup: false, retain: false } as const
      publishers[sent % publishers.length]!.send(qos === 0 ? { ...packet, qos } : { ...packet, qos, messageId })
    }
    clearInterval(timer)
    resolve()
  }, 1)
  await promise
}

/** Waits for all, or until nothing has come for a while. */
async function heardBy(subscribers: readonly OpenClient[], wanted: number, send: () => Promise<void>): Promise<Answer> {
  const waits: number[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  let lastMs = Infinity
  for (const client of subscribers) {
    client.onPacket = packet => {
      if (packet.cmd !== 'publish') return
      const [{ v: dueMs }] = JSON.parse(packet.payload.toString()) as [{ v: number }]
      lastMs = performance.now()
      waits.push(lastMs - dueMs)
      if (waits.length === wanted) resolve()
    }
  }
  const watch = setInterval(() => performance.now() - lastMs > quietMs && resolve(), 500)
  await Promise.all([send(), promise])
  clearInterval(watch)
  return summed(waits)
}

async function fanOut(order: Order): Promise<Answer> {
  const all = await openAll(order, order.subscribers + 1)
  const [publisher, ...subscribers] = all as [OpenClient, ...OpenClient[]]
  for (const client of subscribers) await subscribe(client, order.topic, 0)
  const wanted = Math.floor(order.seconds * order.rate) * order.subscribers
  const answer = await heardBy(subscribers, wanted, () => sendOnTime([publisher], order, 0))
  closeAll(all)
  return answer
}

/** All publishers at a rate, with QoS 1, and one subscriber that hears them. */
async function deliver(order: Order): Promise<Answer> {
  const all = await openAll(order, order.connections + 1)
  const [subscriber, ...publishers] = all as [OpenClient, ...OpenClient[]]
  await subscribe(subscriber, order.topic, 0)
  const answer = await heardBy([subscriber], Math.floor(order.seconds * order.rate), () => sendOnTime(publishers, order, 1))
  closeAll(all)
  return answer
}
