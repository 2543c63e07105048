// The log on Kafka: what is appended is durable when all replicas that are in sync have it (acks=all), each message once.

import type { Logger } from '../../config/logger.ts'
import { type Log, type LogPosition, LogUnavailableError, MessageRefusedError, messageSize, type OutgoingMessage } from '../log.ts'
import type { Append } from './appends.ts'
import { type ConnectionOptions, kafkaConnection, openAdmin } from './connection.ts'
import type { Item } from './lane.ts'
import type { KafkaLogOptions } from './options.ts'
import { partitionOf } from './partitioner.ts'
import { openProducer } from './producer.ts'
import { describeTopic, reachTopic, type Topic } from './topics.ts'

/** What of the section `log` a log needs. That of dead letters is the same with another topic. */
export type KafkaLogSettings = ConnectionOptions &
  Pick<KafkaLogOptions, 'topic' | 'partitions' | 'replicationFactor' | 'queueBytes' | 'appendTimeoutMs'>

export interface KafkaLog extends Log {
  /** Of its topic, now. */
  readonly partitions: number
  /**
   * Resolves when brokers answer, each partition has a leader, and no message was refused just now.
   *
   * @throws LogUnavailableError
   */
  check(): Promise<void>
}

/**
 * Opens the topic, made where it is missing and may be.
 *
 * @param settings have passed `kafkaFaults`
 * @param topicConfig more of the configuration of a topic that is made: `{ 'max.message.bytes': '2097152' }`
 * @throws LogUnavailableError while no broker answers: it may be opened again
 * @throws SystemicError for what waiting does not mend: wrong credentials, missing rights, a topic that cannot be used
 * @throws SecretError for a certificate or key that cannot be used
 */
export async function openKafkaLog(
  settings: KafkaLogSettings,
  logger: Logger,
  topicConfig: Readonly<Record<string, string>> = {},
): Promise<KafkaLog> {
  const { topic: name, partitions, replicationFactor, queueBytes, appendTimeoutMs, requestTimeoutMs } = settings
  const connection = await kafkaConnection(settings)
  const client = await import('@platformatic/kafka')
  const admin = await openAdmin(connection)
  let topic: Topic
  try {
    topic = await reachTopic(admin, name, { partitions, replicationFactor, config: topicConfig })
  } catch (error) {
    await admin.close()
    throw error
  }
  let queuedBytes = 0
  const producer = openProducer({ client, admin, topic, requestTimeoutMs, logger, onGone: ({ bytes }) => void (queuedBytes -= bytes) })
  let nextPartition = Math.floor(Math.random() * topic.partitions)
  let closing: Promise<void> | undefined

  function append(messages: readonly OutgoingMessage[]): Promise<LogPosition[]> {
    if (closing !== undefined) return Promise.reject(new LogUnavailableError(`the log ${name} is closed`))
    if (messages.length === 0) return Promise.resolve([])
    let bytes = 0
    for (const message of messages) {
      if (!Number.isSafeInteger(message.createdUs) || !Number.isSafeInteger(message.createdRestNs)) {
        return Promise.reject(new RangeError(`a message for the log ${name} has no instant: give createdUs and createdRestNs as integers`))
      }
      const size = messageSize(message)
      if (size > queueBytes) {
        return Promise.reject(
          new MessageRefusedError(`a message of ${size} bytes never fits among the ${queueBytes} that may wait for the log ${name}`),
        )
      }
      bytes += size
    }
    if (queuedBytes + bytes > queueBytes) {
      return Promise.reject(
        new LogUnavailableError(
          `${queuedBytes} bytes wait for the log ${name}, and ${queueBytes} may: try again, or raise log.queue_bytes`,
        ),
      )
    }
    queuedBytes += bytes
    return new Promise((resolve, reject) => {
      const deadlineMs = performance.now() + appendTimeoutMs
      const append: Append = { positions: [], missing: messages.length, settled: false, deadlineMs, resolve, reject }
      const items: Item[] = []
      const targets: number[] = []
      const keyless = nextKeyless()
      for (let index = 0; index < messages.length; index++) {
        const message = messages[index]!
        items.push({ message, bytes: messageSize(message), append, index })
        targets.push(partitionFor(message, keyless))
      }
      producer.send(append, items, targets)
    })
  }

  /** Messages without a key go to one partition for each append, in turn. */
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
      if (found === undefined) throw new LogUnavailableError(`there is no topic ${name}: make it anew`)
      const missing = found.leaders.indexOf(undefined)
      if (missing >= 0) throw new LogUnavailableError(`partition ${missing} of the topic ${name} has no leader: look at the brokers`)
    },

    close() {
      closing ??= producer.drained().then(() => admin.close())
      return closing
    },
  }
}

/** So long after a refusal the check fails; then it is left to the next message, which may be taken. */
const refusalMs = 5_000
