// Topics, messages and sources on a real broker for the tests of the source on Kafka.

import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type Admin, Kafka, logLevel, Partitioners, type Producer } from 'kafkajs'
import { pino } from 'pino'
import type { KafkaConnection } from '../../../../pipeline/kafka/connection.ts'
import type { KafkaConsumerOptions } from '../../../../pipeline/kafka/consumer/options.ts'
import { type KafkaSourceSettings, openKafkaSource } from '../../../../pipeline/kafka/source.ts'
import type { RawChunk, Source } from '../../../../pipeline/source.ts'
import type { SourceSettings } from '../../../conformance/source.ts'

/** Short waits, so that tests need not wait; but a session and requests that a busy machine does not lose. */
export const quickConsumer: KafkaConsumerOptions = {
  fetchBytes: 1 << 20,
  partitionBytes: 1 << 20,
  queueBytes: 4 << 20,
  waitMs: 100,
  sessionMs: 10_000,
  rebalanceMs: 10_000,
  heartbeatMs: 100,
  metadataMs: 300,
}

export function connectionTo(brokers: readonly string[]): KafkaConnection {
  return { brokers, clientId: 'tests', tls: undefined, sasl: undefined, connectTimeoutMs: 10_000, requestTimeoutMs: 10_000 }
}

/** The sources of one test, closed together; those of a consumer are in one group. */
export interface Sources {
  /** Opens a source of this consumer, by default with the short time limits. */
  open(settings?: SourceSettings & Partial<Omit<KafkaSourceSettings, 'consumer'>> & { tuning?: KafkaConsumerOptions }): Source
  /** The group of a consumer's sources. */
  group(consumer?: string): string
  close(): Promise<void>
}

/** @param isNamed each source is a static member */
export function sourcesOf(brokers: readonly string[], topic: string | readonly string[], isNamed = false): Sources {
  const test = randomBytes(6).toString('hex')
  const opened: Source[] = []
  const group = (consumer = 'writer'): string => `${consumer}-${test}`
  return {
    group,
    open({ consumer, tuning = quickConsumer, ...settings } = {}) {
      const source = openKafkaSource({
        connection: connectionTo(brokers),
        topics: [topic].flat(),
        group: group(consumer),
        ...(isNamed ? { instance: `member-${opened.length}` } : {}),
        chunkBytesMax: 1 << 20,
        chunkMessagesMax: 1000,
        logger: pino({ level: process.env['SLUICE_TEST_LOG'] ?? 'silent' }),
        consumer: tuning,
        ...settings,
      })
      opened.push(source)
      return source
    },
    async close() {
      await Promise.all(opened.map(source => source.close()))
    },
  }
}

/** Foreign producers and an administrator: kafkajs, another implementation than the one under test. */
export interface Tools {
  readonly producer: Producer
  readonly admin: Admin
  readonly kafka: Kafka
  /** Appends short messages that have only a payload. */
  appendTexts(topic: string, texts: readonly string[], partition?: number): Promise<void>
  /** Deletes the messages below the offset. */
  deleteBelow(topic: string, offset: number, partition?: number): Promise<void>
  /** The group's committed offsets by partition; undefined for none. */
  committed(topic: string, group: string): Promise<Map<number, number>>
  close(): Promise<void>
}

export async function openTools(brokers: readonly string[]): Promise<Tools> {
  const kafka = new Kafka({
    brokers: [...brokers],
    logLevel: logLevel.NOTHING,
    retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 500 },
  })
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, allowAutoTopicCreation: false })
  const admin = kafka.admin()
  await Promise.all([producer.connect(), admin.connect()])
  const tools: Tools = {
    kafka,
    producer,
    admin,
    async appendTexts(topic, texts, partition = 0) {
      await producer.send({ topic, messages: texts.map(text => ({ partition, key: 'c', value: text })) })
    },
    async deleteBelow(topic, offset, partition = 0) {
      await admin.fetchTopicOffsets(topic) // makes it know the topic
      await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
    },
    async committed(topic, groupId) {
      for (;;) {
        try {
          const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
          const known = found!.partitions.filter(({ offset }) => Number(offset) >= 0)
          return new Map(known.map(({ partition, offset }) => [partition, Number(offset)]))
        } catch (error) {
          // The first use of groups on a broker.
          const { type = '' } = error as { type?: string }
          if (!['GROUP_LOAD_IN_PROGRESS', 'NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE'].includes(type)) throw error
          await wait(50)
        }
      }
    },
    async close() {
      await Promise.all([producer.disconnect(), admin.disconnect()])
    },
  }
  return tools
}

export function textsOf(chunk: RawChunk): string[] {
  const cursor = chunk.cursor()
  const texts: string[] = []
  while (cursor.next()) texts.push(Buffer.from(cursor.message.payload).toString())
  return texts
}
