// The source on Kafka, reading every message, compared with Kafka's ConsumerPerformance on the same topic in the same run; and the CPU time while
// no message arrives.

import { setTimeout as wait } from 'node:timers/promises'
import { pino } from 'pino'
import { Value } from 'typebox/value'
import { kafkaConsumerOptions } from '../../pipeline/kafka/consumer/options.ts'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import { openKafkaSource } from '../../pipeline/kafka/source.ts'
import type { Source } from '../../pipeline/source.ts'
import { startKafka } from '../../test/servers/kafka.ts'
import { median } from '../median-time.ts'

const messages = 1_000_000
const partitions = 4
const rounds = 9
const idleMs = 3000
const logger = pino({ level: 'error' })
const payload = new TextEncoder().encode('[{"n":"urn:dev:mac:0024befffe804ff1:temperature","u":"Cel","v":23.1}]')
const channels = Array.from({ length: 50 }, (_, at) => `0f9c1d1e-52cb-4ef4-8e4b-8a64c1f7d6${10 + at}`)

interface Figures {
  readonly perSecond: number
  readonly cpuUs: number
}

const kafka = await startKafka({ tuning: 'load' })
try {
  const topic = await kafka.createTopic({ partitions })
  const reach = { clientId: 'benchmark', connectTimeoutMs: 3000, requestTimeoutMs: 10_000 }
  await fill(topic)
  const ours: Figures[] = []
  const theirs: number[] = []
  await walk(topic) // warm-up
  for (let round = 0; round < rounds; round++) {
    ours.push(await walk(topic))
    theirs.push(await consumerPerformance(topic))
  }
  const baseline = median(theirs)
  console.log(`${messages} messages of one record with an envelope, ${partitions} partitions, one broker, medians of ${rounds} rounds`)
  const perSecond = median(ours.map(figures => figures.perSecond))
  const cpuUs = median(ours.map(figures => figures.cpuUs))
  const row = [`${thousands(perSecond)} messages/s`, `ratio ${(perSecond / baseline).toFixed(2)}`, `${cpuUs.toFixed(2)} µs of CPU each`]
  console.log(`  source on Kafka         ${row.join('   ')}   idle ${(await idle()).toFixed(2)} % of a core`)
  console.log(`  ConsumerPerformance     ${thousands(baseline)} messages/s`)

  async function fill(topic: string): Promise<void> {
    const settings = {
      tls: false,
      saslMechanism: 'none',
      partitions,
      replicationFactor: 0,
      queueBytes: 64 << 20,
      appendTimeoutMs: 60_000,
    } as const
    const log = await openKafkaLog({ ...reach, ...settings, brokers: [...kafka.brokers], topic }, logger)
    const lot = channels.map(channel => ({
      channel,
      subtopic: 'room.temperature',
      publisher: 'b8f0f0b5-2f0c-4a7f-a7a4-0f9c4c1d1e52',
      protocol: 'http',
      contentType: 'application/senml+json',
      createdUs: 1_700_000_000_000_001,
      createdRestNs: 2,
      payload,
    }))
    const waiting: Promise<unknown>[] = []
    for (let at = 0; at < messages; at += lot.length) {
      waiting.push(log.append(lot))
      if (waiting.length === 200) await Promise.all(waiting.splice(0, 100))
    }
    await Promise.all(waiting)
    await log.close()
  }

  function open(topic: string): Source {
    return openKafkaSource({
      connection: { ...reach, brokers: kafka.brokers, tls: undefined, sasl: undefined },
      topics: [topic],
      group: `benchmark-${performance.now()}`,
      chunkBytesMax: 1 << 20,
      chunkMessagesMax: 2000,
      consumer: Value.Create(kafkaConsumerOptions),
      logger,
    })
  }

  async function walk(topic: string): Promise<Figures> {
    const source = open(topic)
    let startedMs = 0
    let before = process.cpuUsage()
    let walked = 0
    const chunks = source.chunks(new AbortController().signal, () => {
      startedMs = performance.now()
      before = process.cpuUsage()
    })
    for await (const chunk of chunks) {
      const cursor = chunk.cursor()
      while (cursor.next()) walked++
      if (walked === messages) break
    }
    const seconds = (performance.now() - startedMs) / 1000
    const { user, system } = process.cpuUsage(before)
    await source.close()
    return { perSecond: walked / seconds, cpuUs: (user + system) / walked }
  }

  /** CPU use in percent of a core while a topic is empty. */
  async function idle(): Promise<number> {
    const source = open(await kafka.createTopic({ partitions }))
    const ending = new AbortController()
    const started = Promise.withResolvers<void>()
    const chunks = source.chunks(ending.signal, () => started.resolve())
    const next = chunks[Symbol.asyncIterator]().next()
    await started.promise
    await wait(500)
    const before = process.cpuUsage()
    await wait(idleMs)
    const { user, system } = process.cpuUsage(before)
    ending.abort()
    await next
    await source.close()
    return (user + system) / 10 / idleMs
  }

  /** Its own figure for fetching, without its start and joining the group. */
  async function consumerPerformance(topic: string): Promise<number> {
    const options = ['--bootstrap-server', kafka.brokers[0]!, '--topic', topic, '--messages', String(messages), '--timeout', '60000']
    const [head, row] = (await kafka.tool('ConsumerPerformance', options)).trim().split('\n').slice(-2)
    const at = head!.split(',').findIndex(name => name.trim() === 'fetch.nMsg.sec')
    return Number(row!.split(',')[at])
  }
} finally {
  await kafka.stop()
}

function thousands(value: number): string {
  return Math.round(value).toLocaleString('en')
}
