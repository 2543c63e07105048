// The kill run of MQTT: things publish with QoS 1 and 2 to two instances of ingest, and subscribers have sessions that stay, some of them with a shared subscription,
// while instances, the broker, the writer, and connections of devices and to the broker die. Used by the suite in its short form, and by `npm run soak`.

import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { openRandom, type Random } from '../../fuzz/random.ts'
import { readTopic } from '../../pipeline/kafka/stored-messages.ts'
import { freePort } from '../../servers/process/free-port.ts'
import { call, expectStatus, makeSite } from '../../up/operator.ts'
import { faultKinds } from '../faults.ts'
import { numberIn } from '../messages.ts'
import { type RoleProcess, startRole, untilReady } from '../process.ts'
import { openSite, type Site, shortWaits } from '../site.ts'
import type { RelationalSite } from '../stores/relational.ts'
import { type Device, type Publisher, type Subscriber, startPublisher, startSubscriber } from './clients.ts'

export const mqttFaultNames = [
  'ingest killed',
  'devices cut',
  'broker killed',
  'writer killed',
  'log cut',
  'log delayed',
  'log half-open',
] as const
export type MqttFaultKind = (typeof mqttFaultNames)[number]

export interface MqttKillPlan {
  readonly seed: number
  /** How often each kind of fault strikes. */
  readonly rounds: number
  /** In this order, in each round. All by default. */
  readonly kinds?: readonly MqttFaultKind[]
  /** No further round begins after this time. */
  readonly msMax?: number
  readonly perSecond: number
  readonly onProgress?: (line: string) => void
}

export interface MqttKillReport {
  readonly counted: {
    readonly strikes: number
    readonly acknowledged: number
    /** Of these with QoS 2. */
    readonly acknowledgedOnce: number
    /** Messages of the log: more where one was sent, or appended, again. */
    readonly inLog: number
    readonly stored: number
    /** Deliveries with DUP, of all subscribers. */
    readonly repeats: number
  }
  readonly seconds: number
  /** Empty if each acknowledged message is stored and was delivered, also to a group, each repeat was marked, and with QoS 2 there is none. */
  readonly faults: readonly string[]
}

interface MqttSite extends Site<RelationalSite> {
  readonly ports: readonly number[]
  readonly thing: string
  readonly key: string
  readonly channels: readonly string[]
  /** Kills an instance and starts it again. */
  killIngest(place: number, awayMs: number): Promise<void>
}

const instances = 2
const publishers = 4
const subscribers = 4
/** With a shared subscription, and QoS 1. */
const members = 2
const channelsCount = 3
const faultsMax = 10
/** Of the broker, while an instance of ingest is killed. */
const answerMs = 50

export async function mqttKillRun(plan: MqttKillPlan): Promise<MqttKillReport> {
  const { seed, rounds, kinds = mqttFaultNames, msMax = Number.POSITIVE_INFINITY, perSecond, onProgress } = plan
  const startedMs = performance.now()
  const site = await openMqttSite()
  const faults: string[] = []
  const onFault = (text: string): void => void faults.push(text)
  const device = (clientId: string, ordinal: number): Device => {
    const { thing, key, ports } = site
    const random = openRandom(seed, clientId, ordinal)
    return { thing, key, ports, clientId, version: ordinal % 2 === 0 ? 5 : 4, qos: ordinal % 4 < 2 ? 1 : 2, random }
  }
  let sent = 0
  const next = () => {
    const number = sent++
    const topic = `channels/${site.channels[number % site.channels.length]}/messages`
    return { number, topic, payload: Buffer.from(`[{"n":"m${number}m","v":1}]`) }
  }
  const heard: Subscriber[] = []
  const group: Subscriber[] = []
  const sending: Publisher[] = []
  try {
    const filters = site.channels.map(channel => `channels/${channel}/messages/#`)
    for (let nth = 0; nth < subscribers; nth++) heard.push(startSubscriber(device(`subscriber-${nth}`, nth), filters, onFault))
    const shared = filters.map(filter => `$share/workers/${filter}`)
    for (let nth = 0; nth < members; nth++) group.push(startSubscriber(device(`member-${nth}`, nth), shared, onFault))
    await Promise.all([...heard, ...group].map(({ listening }) => listening))
    for (let nth = 0; nth < publishers; nth++)
      sending.push(startPublisher(device(`publisher-${nth}`, nth), perSecond / publishers, next, onFault))
    let strikes = 0
    for (let round = 0; round < rounds && performance.now() - startedMs < msMax; round++) {
      for (const kind of kinds) {
        const random = openRandom(seed, 'strikes', strikes++)
        await wait(random.below(1000))
        let inFlight = 0
        // A moment at which nothing is in flight shows nothing.
        while ((inFlight = sending.reduce((sum, publisher) => sum + publisher.inFlight(), 0)) === 0) await wait(1)
        await strike(kind, site, { heard: [...heard, ...group], sending }, random)
        onProgress?.(
          `${new Date().toISOString()} ${strikes}  ${((performance.now() - startedMs) / 1000).toFixed(1)} s  ${kind}, ${inFlight} in flight`,
        )
      }
    }
    await Promise.all(sending.map(publisher => publisher.stop()))
    const counted = await check(site, sending, heard, group, onFault)
    const more = faults.length > faultsMax ? [`and ${faults.length - faultsMax} more`] : []
    return {
      counted: { strikes, ...counted },
      seconds: Math.round((performance.now() - startedMs) / 1000),
      faults: [...faults.slice(0, faultsMax), ...more],
    }
  } finally {
    // Also after a failure: running clients keep the process alive.
    await Promise.all([...[...heard, ...group].map(subscriber => subscriber.stop()), ...sending.map(publisher => publisher.stop(0))])
    await site.close()
  }
}

interface Devices {
  readonly heard: readonly Subscriber[]
  readonly sending: readonly Publisher[]
}

async function strike(kind: MqttFaultKind, site: MqttSite, { heard, sending }: Devices, random: Random): Promise<void> {
  if (kind === 'ingest killed') return site.killIngest(random.below(instances), random.below(500))
  if (kind === 'devices cut') {
    await Promise.all([random.pick(heard).cut(), random.pick(sending).cut()])
    return
  }
  const fault = faultKinds[kind](site, random)
  await fault.strike()
  await fault.end()
}

async function openMqttSite(): Promise<MqttSite> {
  const site = await openSite({ partitions: 6, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1', SVC_BATCH_AGE_MS: '20' } })
  const roles = new Set<RoleProcess>()
  const start = async (words: readonly string[], environment: Readonly<Record<string, string>>): Promise<RoleProcess> => {
    const role = await startRole([...words, '--port', '0'], environment)
    roles.add(role)
    return role
  }
  const close = async (): Promise<void> => {
    await Promise.all([...roles].map(role => role.stop('SIGKILL')))
    await site.close()
  }
  try {
    const token = randomBytes(32).toString('base64url')
    const administrator = { email: 'chief@sluice.example', password: 'the chief of them all' }
    const api = await start(['api'], {
      SVC_DATABASE_URL: await site.store.postgres.createDatabase(),
      SVC_MASTER_KEY: randomBytes(32).toString('base64url'),
      SVC_CONTROL_TOKEN: token,
      SVC_ADMIN_EMAIL: administrator.email,
      SVC_ADMIN_PASSWORD: administrator.password,
    })
    const { owner, thing, device, channel } = await makeSite(api.url, administrator)
    const names = Array.from({ length: channelsCount - 1 }, (_, nth) => ({ name: `hall ${nth}` }))
    const made = await expectStatus(call(api.url, 'POST', '/channels/bulk', { authorization: owner, body: names }), 201)
    const more = (made.json!['channels'] as { id: string }[]).map(({ id }) => id)
    const both = { channel_ids: more, thing_ids: [thing] }
    await expectStatus(call(api.url, 'POST', '/connect', { authorization: owner, body: both }), 200)
    const ports = await Promise.all(Array.from({ length: instances }, freePort))
    const startIngest = (place: number): Promise<RoleProcess> =>
      start(['ingest'], {
        SVC_CONTROL_URL: api.internalUrl,
        SVC_CONTROL_TOKEN: token,
        SVC_LOG_BROKERS: site.kafka.proxied.join(),
        SVC_LOG_TOPIC: site.topic,
        SVC_MQTT_ENABLED: 'true',
        SVC_MQTT_PORT: String(ports[place]!),
        ...shortWaits,
        // As long and two seconds a message with QoS 2 waits that an instance may have stored.
        SVC_LOG_REQUEST_TIMEOUT_MS: '5000',
        SVC_LOG_APPEND_TIMEOUT_MS: '5000',
      })
    const [running, writer] = await Promise.all([Promise.all(ports.map((_, place) => startIngest(place))), site.start(0)])
    await untilReady(writer)
    return {
      ...site,
      ports,
      thing,
      key: device.replace('Thing ', ''),
      channels: [channel, ...more],
      async killIngest(place, awayMs) {
        // Some of what it has stored is not acknowledged then.
        site.kafka.proxy.latency(answerMs)
        await wait(3 * answerMs)
        roles.delete(running[place]!)
        await running[place]!.stop('SIGKILL')
        site.kafka.proxy.latency(0)
        await wait(awayMs)
        running[place] = await startIngest(place)
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * What the log has, the store has once, and each subscriber got; as new no oftener than it is in the log. With QoS 2 it is once in the log, and was delivered as often
 * as it is there. A group got it at least as often.
 */
async function check(
  site: MqttSite,
  sending: readonly Publisher[],
  heard: readonly Subscriber[],
  group: readonly Subscriber[],
  onFault: (text: string) => void,
) {
  const ends = await site.logEnds()
  if (!(await site.untilStored(ends))) onFault(`the writer did not drain: ${site.writers[0]?.printed().slice(-2000)}`)
  const inLog = countsOf((await readTopic(site.kafka.brokers, site.topic)).map(({ value }) => value.toString()))
  const acknowledged = sending.flatMap(publisher => [...publisher.acknowledged])
  const once = sending.filter(({ qos }) => qos === 2).flatMap(publisher => [...publisher.acknowledged])
  for (const number of acknowledged) if (!inLog.has(number)) onFault(`message ${number} was acknowledged, and is not in the log`)
  for (const number of once)
    if (inLog.get(number)! > 1) onFault(`message ${number} was published with QoS 2, and is ${inLog.get(number)} times in the log`)

  const texts: string[] = []
  for await (const { text } of site.rows()) texts.push(text)
  const stored = countsOf(texts)
  for (const [number, copies] of inLog)
    if (stored.get(number) !== copies)
      onFault(`message ${number} is ${copies} times in the log, and ${stored.get(number) ?? 0} times in the store`)

  for (const subscriber of heard) {
    await untilHeard([subscriber], inLog, quietMs)
    for (const [number, copies] of inLog) {
      const { fresh, repeats, by } = subscriber.heard.get(number) ?? { fresh: 0, repeats: 0, by: [] }
      const isRight = subscriber.qos === 1 ? fresh <= copies && fresh + repeats >= copies : fresh + repeats === copies
      if (!isRight)
        onFault(
          `${subscriber.name} got message ${number} ${fresh} times without DUP and ${repeats} times with it, and it is ${copies} times in the log: ${by.join(', ')}`,
        )
    }
  }
  await untilHeard(group, inLog, quietMs + silentMs)
  for (const [number, copies] of inLog)
    if (timesHeard(group, number) < copies)
      onFault(`the group got message ${number} ${timesHeard(group, number)} times, and it is ${copies} times in the log`)
  const repeats = heard.flatMap(subscriber => [...subscriber.heard.values()]).reduce((sum, one) => sum + one.repeats, 0)
  return { acknowledged: acknowledged.length, acknowledgedOnce: once.length, inLog: sumOf(inLog), stored: texts.length, repeats }
}

const quietMs = 5_000
/** How long the group of an instance that was killed waits for another (sessions/store.ts). */
const silentMs = 15_000

const timesHeard = (subscribers: readonly Subscriber[], number: number): number =>
  subscribers.flatMap(({ heard }) => heard.get(number) ?? []).reduce((sum, { fresh, repeats }) => sum + fresh + repeats, 0)

/** Resolves when together they have got all as often as it is in the log, or nothing new for a while. */
async function untilHeard(subscribers: readonly Subscriber[], inLog: ReadonlyMap<number, number>, quietMsMax: number): Promise<void> {
  let [known, sinceMs] = [-1, 0]
  for (;;) {
    let lacking = 0
    for (const [number, copies] of inLog) lacking += Math.max(copies - timesHeard(subscribers, number), 0)
    if (lacking === 0) return
    if (lacking !== known) [known, sinceMs] = [lacking, performance.now()]
    else if (performance.now() - sinceMs > quietMsMax) return
    await wait(50)
  }
}

/** How often each message is among the texts, by its number. */
function countsOf(texts: readonly string[]): Map<number, number> {
  const counts = new Map<number, number>()
  for (const text of texts) {
    const number = numberIn(text)!
    counts.set(number, (counts.get(number) ?? 0) + 1)
  }
  return counts
}

function sumOf(counts: ReadonlyMap<number, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}
