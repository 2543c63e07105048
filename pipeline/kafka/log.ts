// The log on Kafka: each message is appended exactly once, and is durable when all in-sync replicas have it (acks=all).

import type { Logger } from '../../config/logger.ts'
import {
  type AppendOptions,
  appendSize,
  type Log,
  type LogPosition,
  LogUnavailableError,
  MessageRefusedError,
  messageSize,
  type OutgoingMessage,
} from '../log.ts'
import { type ConnectionOptions, kafkaConnection, openAdmin } from './connection.ts'
import type { KafkaLogOptions } from './options.ts'
import type { Append } from './producer/appends.ts'
import type { Item } from './producer/partition-queue.ts'
import { partitionOf } from './producer/partitioner.ts'
import { openProducer } from './producer/producer.ts'
import { describeTopic, reachTopic, type Topic } from './topics.ts'

/** The options of the section `log` for a log. The dead-letter log has the same with another topic. */
export type KafkaLogSettings = ConnectionOptions &
  Pick<KafkaLogOptions, 'topic' | 'partitions' | 'replicationFactor' | 'queueBytes' | 'appendTimeoutMs'>

export interface KafkaLog extends Log {
  /** Current number of partitions. */
  readonly partitions: number
  /**
   * Resolves if brokers answer, each partition has a leader, and no message was rejected recently.
   *
   * @throws LogUnavailableError
   */
  check(): Promise<void>
}

/**
 * Opens the topic, and creates it if it is missing and that is allowed.
 *
 * @param settings must have been accepted by `kafkaFaults`
 * @param topicConfig further configuration of a created topic: `{ 'max.message.bytes': '2097152' }`
 * @throws LogUnavailableError while no broker answers; can be retried
 * @throws SystemicError for a permanent error: wrong credentials, missing rights, an unusable topic
 * @throws SecretError for an unusable certificate or key
 */
export async function openKafkaLog(
  settings: KafkaLogSettings,
  logger: Logger,
  topicConfig: Readonly<Record<string, string>> = {},
): Promise<KafkaLog> {
  const { topic: name, partitions, replicationFactor, queueBytes, appendTimeoutMs, requestTimeoutMs } = settings
  const connection = await kafkaConnection(settings)
  const admin = await openAdmin(connection)
  let topic: Topic
  try {
    topic = await reachTopic(admin, name, { partitions, replicationFactor, config: topicConfig, logger }, 'write')
  } catch (error) {
    await admin.close()
    throw error
  }
  let queuedBytes = 0
  const producer = openProducer({ admin, topic, requestTimeoutMs, logger, onGone: ({ bytes }) => void (queuedBytes -= bytes) })
  let nextPartition = Math.floor(Math.random() * topic.partitions)
  let closing: Promise<void> | undefined

  function append(messages: readonly OutgoingMessage[], { isWhole = false }: AppendOptions = {}): Promise<LogPosition[]> {
    if (closing !== undefined) return Promise.reject(new LogUnavailableError(`the log ${name} is closed`))
    if (messages.length === 0) return Promise.resolve([])
    const bytes = appendSize(messages, name, queueBytes)
    if (bytes instanceof MessageRefusedError) return Promise.reject(bytes)
    if (queuedBytes + bytes > queueBytes) {
      return Promise.reject(
        new LogUnavailableError(
          `the queue of the log ${name} is full (${queuedBytes} of ${queueBytes} bytes): retry, or raise log.queue_bytes`,
        ),
      )
    }
    queuedBytes += bytes
    return new Promise((resolve, reject) => {
      const deadlineMs = performance.now() + appendTimeoutMs
      const append: Append = { positions: [], missing: messages.length, settled: false, isSent: false, deadlineMs, resolve, reject }
      const keyless = nextKeyless()
      if (isWhole) return producer.send(append, [{ messages, bytes, append, index: 0 }], [partitionFor(messages[0]!, keyless)])
      const items: Item[] = []
      const targets: number[] = []
      for (let index = 0; index < messages.length; index++) {
        const message = messages[index]!
        items.push({ messages: [message], bytes: messageSize(message), append, index })
        targets.push(partitionFor(message, keyless))
      }
      producer.send(append, items, targets)
    })
  }

  /** The partition for an append without keys: one partition per append, round robin. */
  function nextKeyless(): number {
    nextPartition = (nextPartition + 1) % producer.topic.partitions
    return nextPartition
  }

  function partitionFor({ key, channel }: OutgoingMessage, keyless: number): number {
    const count = producer.topic.partitions
    if (key === null || (key === undefined && channel === '')) return keyless
    return partitionOf(key ?? Buffer.from(channel), count)
  }

  return {
    name,
    get id() {
      return producer.topic.id
    },
    get partitions() {
      return producer.topic.partitions
    },
    append,

    async check() {
      if (closing !== undefined) throw new LogUnavailableError(`the log ${name} is closed`)
      const { refusal } = producer
      if (refusal !== undefined && performance.now() - refusal.atMs < refusalMs) throw refusal.error
      const found = await describeTopic(admin, name)
      if (found === undefined) throw new LogUnavailableError(`the topic ${name} does not exist: create it`)
      const missing = found.leaders.indexOf(undefined)
      if (missing >= 0) throw new LogUnavailableError(`partition ${missing} of the topic ${name} has no leader: check the brokers`)
    },

    close() {
      closing ??= producer.drained().then(() => admin.close())
      return closing
    },
  }
}

/** How long the check fails after a rejected message; then the next message decides. */
const refusalMs = 5_000
