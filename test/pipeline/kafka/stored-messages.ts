// Reads a topic with the client's own decoder, which shares nothing with ours, and has log settings for tests.

import { setTimeout as wait } from 'node:timers/promises'
import { Admin, type Connection, fetchV12 } from '@platformatic/kafka'
import { pino } from 'pino'
import { envelopeHeaderNames } from '../../../pipeline/envelope-headers.ts'
import { reasonOf } from '../../../pipeline/kafka/failure.ts'
import type { KafkaLogSettings } from '../../../pipeline/kafka/log.ts'
import type { Header, OutgoingMessage } from '../../../pipeline/log.ts'

export const silent = pino({ level: 'silent' })

export interface StoredMessage {
  readonly partition: number
  readonly offset: number
  readonly key: Buffer | null
  readonly value: Buffer
  readonly headers: readonly (readonly [name: string, value: Buffer | null])[]
  readonly timestampMs: number
  readonly producerId: bigint
}

/** The defaults with a separate topic, and with time limits that a busy machine does not reach. */
export function logSettings(brokers: readonly string[], topic: string, more: Partial<KafkaLogSettings> = {}): KafkaLogSettings {
  return {
    brokers: [...brokers],
    clientId: 'test',
    tls: false,
    saslMechanism: 'none',
    connectTimeoutMs: 10_000,
    requestTimeoutMs: 10_000,
    topic,
    partitions: 3,
    replicationFactor: 0,
    queueBytes: 16 * 1024 * 1024,
    appendTimeoutMs: 60_000,
    ...more,
  }
}

/** For a log of which appends are to be refused: not so soon that those before are refused, too. */
export const impatient = { requestTimeoutMs: 2_000, appendTimeoutMs: 5_000 } as const

/** Every message of a topic, each partition in order. */
export async function readTopic(brokers: readonly string[], topic: string): Promise<StoredMessage[]> {
  const admin = new Admin({ clientId: 'reader', bootstrapBrokers: [...brokers], retries: 20, retryDelay: 100 })
  try {
    const metadata = await admin.metadata({ topics: [topic], forceUpdate: true })
    const partitions = metadata.topics.get(topic)!.partitionsCount
    const [connection] = (await admin.connectToBrokers()).values()
    const all: StoredMessage[] = []
    for (let partition = 0; partition < partitions; partition++) all.push(...(await readPartition(connection!, topic, partition)))
    return all
  } finally {
    await admin.close()
  }
}

async function readPartition(connection: Connection, topic: string, partition: number): Promise<StoredMessage[]> {
  const all: StoredMessage[] = []
  for (let next = 0n; ; ) {
    const asked = { partition, currentLeaderEpoch: -1, fetchOffset: next, lastFetchedEpoch: -1, partitionMaxBytes: 1 << 24 }
    const topics = [{ topicId: topic, partitions: [asked] }]
    const found = await fetchV12.api.async(connection, 0, 0, 1 << 24, 0, 0, -1, topics, [], '').then(
      ({ responses }) => responses[0]!.partitions[0]!,
      (error: unknown) => {
        // A broker learns of a new partition some time after clients do.
        if (!/leader|does not host/.test(reasonOf(error))) throw error
      },
    )
    if (found === undefined) {
      await wait(20)
      continue
    }
    for (const batch of found.records ?? []) {
      for (const { offsetDelta, key, value, headers, timestampDelta } of batch.records) {
        all.push({
          partition,
          offset: Number(batch.firstOffset) + offsetDelta,
          key,
          value: value!,
          headers: headers.map(([name, value]) => [name!.toString(), value] as const),
          timestampMs: Number(batch.firstTimestamp + timestampDelta),
          producerId: batch.producerId,
        })
        next = batch.firstOffset + BigInt(offsetDelta) + 1n
      }
    }
    if (next >= found.highWatermark) return all
  }
}

/** The message that was sent, in the form that the conformance suite compares. */
export function asOutgoing({ key, value, headers }: StoredMessage): OutgoingMessage {
  const own = new Map(headers.filter(([name]) => envelopeHeaderNames.has(name)).map(([name, value]) => [name, value!.toString()]))
  const created = BigInt(own.get('created')!)
  return {
    channel: key?.toString() ?? '',
    subtopic: own.get('subtopic')!,
    publisher: own.get('publisher')!,
    protocol: own.get('protocol')!,
    contentType: own.get('content-type') ?? '',
    createdUs: Number(created / 1000n),
    createdRestNs: Number(created % 1000n),
    payload: new Uint8Array(value),
    headers: headers
      .filter(([name]) => !envelopeHeaderNames.has(name))
      .map(([key, value]): Header => ({ key, value: value === null ? null : value.toString() })),
  }
}
