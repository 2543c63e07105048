// MQTT of `./sluice up` beside Mosquitto and HiveMQ CE on the same machine, each broker in turn: messages with QoS 1 that are acknowledged a second (by Sluice when they are
// durable), deliveries of one publisher to many subscribers, the time from publishing to delivery at half of that load, and the memory of connections
// that only wait. The clients are in one process, the same for all.
//
// Mosquitto runs twice: without persistence, and with a session that is away, whose messages it saves once a second. HiveMQ CE writes those of such a
// session to files before it acknowledges them, and flushes these to the disk once a second.
//
// node benchmarks/up/mqtt/index.ts [--rounds 3] [--seconds 8] [--connections 100] [--window 8] [--subscribers 1000] [--rate 50] [--idle 10000]

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { call, expectStatus, makeSite } from '../../../test/up/operator.ts'
import { disposableFolder, startPlatform } from '../../../test/up/platform.ts'
import { median } from '../../median-time.ts'
import { cpuSeconds, residentKb } from '../../process-figures.ts'
import { type Broker, startOthers } from './brokers.ts'
import type { Answer, Order } from './clients.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '8' },
    connections: { type: 'string', default: '100' },
    window: { type: 'string', default: '8' },
    subscribers: { type: 'string', default: '1000' },
    rate: { type: 'string', default: '50' },
    idle: { type: 'string', default: '10000' },
  },
})
const [rounds, seconds, connections, window, subscribers, rate, idle] = [
  values.rounds,
  values.seconds,
  values.connections,
  values.window,
  values.subscribers,
  values.rate,
  values.idle,
].map(Number) as [number, number, number, number, number, number, number]

interface Figure extends Answer {
  readonly perSecond: number
  readonly cpuUs: number
}

const settleMs = 5_000
const connectionsOfKey = 100
const warmConnections = 200

async function startSluice(folder: string): Promise<Broker> {
  const connectionsMax = String(idle + 1_000)
  const platform = await startPlatform({ data: folder, environment: { SVC_MQTT_CONNECTIONS_MAX: connectionsMax } })
  const site = await makeSite(platform.url)
  const [, port] = /^mqtt on mqtt:\/\/127\.0\.0\.1:(\d+)$/m.exec(platform.printed())!
  const keys: string[] = []
  const wanted = Math.ceil((Math.max(subscribers, connections, idle) + 1) / connectionsOfKey)
  while (keys.length < wanted) {
    const body = Array.from({ length: Math.min(100, wanted - keys.length) }, (_, nth) => ({ name: `device ${keys.length + nth}` }))
    const made = await expectStatus(call(platform.url, 'POST', '/things/bulk', { authorization: site.owner, body }), 201)
    const things = made.json!['things'] as { id: string; key: string }[]
    const ends = { channel_ids: [site.channel], thing_ids: things.map(({ id }) => id) }
    await expectStatus(call(platform.url, 'POST', '/connect', { authorization: site.owner, body: ends }), 200)
    keys.push(...things.map(({ key }) => key))
  }
  const topic = `channels/${site.channel}/messages`
  const stop = (): Promise<unknown> => platform.stop()
  return { name: './sluice up', isSaving: false, pid: platform.process.pid!, port: Number(port), keys, topic, stop }
}

async function ask(clients: ChildProcess, { port, keys, topic }: Broker, part: Pick<Order, 'kind'> & Partial<Order>): Promise<Answer> {
  clients.send({ port, keys, topic, seconds, connections, window, subscribers, rate, ...part })
  const [answer] = (await once(clients, 'message')) as [Answer]
  return answer
}

async function measured(clients: ChildProcess, broker: Broker, part: Pick<Order, 'kind'> & Partial<Order>): Promise<Figure> {
  const startSeconds = await cpuSeconds(broker.pid)
  const answer = await ask(clients, broker, part)
  const cpuUs = (((await cpuSeconds(broker.pid)) - startSeconds) * 1e6) / answer.count
  return { ...answer, perSecond: answer.count / seconds, cpuUs }
}

function line(name: string, figures: readonly Figure[], reference?: readonly Figure[]): void {
  const of = (key: keyof Figure): number => median(figures.map(figure => figure[key]))
  const ratio = reference === undefined ? '' : `   ${(of('perSecond') / median(reference.map(({ perSecond }) => perSecond))).toFixed(2)}`
  const times = `p50 ${of('p50Ms').toFixed(1)} ms, p99 ${of('p99Ms').toFixed(1)} ms`
  console.log(
    `  ${name.padEnd(18)} ${of('perSecond').toFixed(0).padStart(7)}/s   ${times}   ${of('cpuUs').toFixed(1)} µs of CPU each${ratio}`,
  )
}

await using folder = await disposableFolder()
await using others = await disposableFolder()
const clients = fork(new URL('clients.ts', import.meta.url))
// First those that end with this process, also if another does not start.
const peers = await startOthers(others.path)
const brokers = [await startSluice(folder.path), ...peers]
const reference = brokers.findIndex(({ name }) => name === 'mosquitto')
for (const broker of brokers) if (broker.isSaving) await ask(clients, broker, { kind: 'leave-session' })

for (const broker of brokers) {
  if (broker.isSaving) continue
  // What the first connections load is not theirs.
  await ask(clients, broker, { kind: 'wait', connections: warmConnections })
  await ask(clients, broker, { kind: 'close' })
  await wait(settleMs)
  const beforeKb = await residentKb(broker.pid, 'VmRSS')
  await ask(clients, broker, { kind: 'wait', connections: idle })
  await wait(settleMs)
  const eachKb = ((await residentKb(broker.pid, 'VmRSS')) - beforeKb) / idle
  await ask(clients, broker, { kind: 'close' })
  console.log(`${idle} connections that wait: ${eachKb.toFixed(1)} KB each (${broker.name})`)
}

const published = brokers.map((): Figure[] => [])
const fannedOut = brokers.map((): Figure[] => [])
const delivered = brokers.map((): Figure[] => [])
for (let round = 0; round < rounds; round++) {
  for (const [nth, broker] of brokers.entries()) published[nth]!.push(await measured(clients, broker, { kind: 'publish' }))
  for (const [nth, broker] of brokers.entries())
    if (!broker.isSaving) fannedOut[nth]!.push(await measured(clients, broker, { kind: 'fan-out' }))
}
for (const [nth, broker] of brokers.entries()) {
  const half = Math.round(median(published[nth]!.map(({ perSecond }) => perSecond)) / 2)
  if (!broker.isSaving) delivered[nth]!.push(await measured(clients, broker, { kind: 'deliver', rate: half }))
}

console.log(`QoS 1, ${connections} connections, ${window} messages unacknowledged each: acknowledged, and the time until then`)
for (const [nth, { name }] of brokers.entries()) line(name, published[nth]!, published[reference])
console.log(`QoS 0, ${rate} messages a second to ${subscribers} subscribers: delivered, and the time since they were due`)
for (const [nth, { name }] of brokers.entries()) if (fannedOut[nth]!.length > 0) line(name, fannedOut[nth]!, fannedOut[reference])
console.log('QoS 1 at half of what was acknowledged, one subscriber: delivered, and the time since they were due')
for (const [nth, { name }] of brokers.entries()) if (delivered[nth]!.length > 0) line(name, delivered[nth]!)

clients.disconnect()
for (const broker of brokers) await broker.stop()
