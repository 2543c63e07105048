// The log on Kafka: one-record messages of 80 bytes, appended by publishers that each wait for their acknowledgement, and in large appends.
// For comparison, the client's own producer with the same messages, acks=all and idempotent, in arrays as large as the appends.

import { Producer } from '@platformatic/kafka'
import { pino } from 'pino'
import { envelopeHeaders } from '../../pipeline/envelope-headers.ts'
import { kafkaConnection, platformaticOptions } from '../../pipeline/kafka/connection.ts'
import { type KafkaLogSettings, openKafkaLog } from '../../pipeline/kafka/log.ts'
import { partitionOf } from '../../pipeline/kafka/producer/partitioner.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import { startKafka } from '../../test/servers/kafka.ts'

const turnMs = 2000
const arrayMessages = 1000
const channels = 200
const partitions = 12

const silent = pino({ level: 'silent' })
const payload = Buffer.from('[{"bn":"urn:dev:mac:0024befffe804ff1:","n":"temperature","u":"Cel","v":23.123}]')
const messages: OutgoingMessage[] = Array.from({ length: arrayMessages }, (_, at) => ({
  channel: `0f9c1d1e-52cb-4ef4-8e4b-${String(at % channels).padStart(12, '0')}`,
  subtopic: 'room.temperature',
  publisher: 'b8f0f0b5-2f0c-4a7f-a7a4-0f9c4c1d1e52',
  protocol: 'http',
  contentType: 'application/senml+json',
  createdUs: 1_700_000_000_000_000,
  createdRestNs: 0,
  payload,
}))

/** Runs `once` in several parallel loops, first as a warm-up, and prints the CPU time of this process for each message. */
async function measure(name: string, loops: number, perCall: number, once: (loop: number) => Promise<unknown>): Promise<void> {
  await turn(turnMs / 4, loops, once)
  const cpuBefore = process.cpuUsage()
  const startedMs = performance.now()
  const waits = await turn(turnMs, loops, once)
  const elapsedMs = performance.now() - startedMs
  const { user, system } = process.cpuUsage(cpuBefore)
  const sent = waits.length * perCall
  waits.sort((a, b) => a - b)
  const wait = (share: number): string => (waits[Math.floor((waits.length - 1) * share)] ?? Number.NaN).toFixed(2)
  const rate = Math.round((sent / elapsedMs) * 1000).toLocaleString('en')
  const cpuUs = ((user + system) / sent).toFixed(2)
  console.log(`${name.padEnd(44)} ${rate.padStart(9)}/s  ${cpuUs.padStart(6)} µs CPU a message  wait p50 ${wait(0.5)} p99 ${wait(0.99)} ms`)
}

/** Milliseconds that each call waited. */
async function turn(lengthMs: number, loops: number, once: (loop: number) => Promise<unknown>): Promise<number[]> {
  const endMs = performance.now() + lengthMs
  const waits: number[] = []
  const loop = async (_: unknown, at: number): Promise<void> => {
    for (let startedMs = performance.now(); startedMs < endMs; ) {
      await once(at)
      const nowMs = performance.now()
      waits.push(nowMs - startedMs)
      startedMs = nowMs
    }
  }
  await Promise.all(Array.from({ length: loops }, loop))
  return waits
}

const kafka = await startKafka({ tuning: 'load' })
try {
  const settings: KafkaLogSettings = {
    brokers: [...kafka.brokers],
    clientId: 'benchmark',
    tls: false,
    saslMechanism: 'none',
    connectTimeoutMs: 3000,
    requestTimeoutMs: 5000,
    topic: await kafka.createTopic({ partitions }),
    partitions,
    replicationFactor: 0,
    queueBytes: 64 * 1024 * 1024,
    appendTimeoutMs: 10_000,
  }
  const connection = await kafkaConnection(settings)

  const log = await openKafkaLog(settings, silent)
  for (const publishers of [1, 32, 256, 1024]) {
    await measure(`log, ${publishers} publishers`, publishers, 1, at => log.append([messages[at % arrayMessages]!]))
  }
  await measure(`log, appends of ${arrayMessages}`, 2, arrayMessages, () => log.append(messages))
  await log.close()

  const topic = await kafka.createTopic({ partitions })
  const producer = new Producer({ ...platformaticOptions(connection), idempotent: true })
  await measure(`@platformatic/kafka, arrays of ${arrayMessages}`, 1, arrayMessages, () =>
    producer.send({
      messages: messages.map(message => {
        const key = Buffer.from(message.channel)
        const headers = new Map(envelopeHeaders(message).map(({ key, value }) => [Buffer.from(key), Buffer.from(value as string)]))
        return { topic, key, value: payload, headers, partition: partitionOf(key, partitions) }
      }),
    }),
  )
  await producer.close()
} finally {
  await kafka.stop()
}
