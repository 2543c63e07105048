// A topic on Kafka as a live topic. It belongs to no consumer group, so that it disturbs no writer and leaves nothing behind.

import type { Logger } from '../../config/logger.ts'
import { type EncodingOptions, messagesReader } from '../kafka/confluent/index.ts'
import { type ConnectionOptions, kafkaConnection } from '../kafka/connection.ts'
import { openKafkaTopicReader } from '../kafka/topic-reader.ts'
import type { LiveTopic } from './topic.ts'

/** The brokers are asked so often for the ends of the partitions, while somebody follows. */
const pollMs = 200
/** Of one fetch. Partitions with news are fetched at the same time. */
const fetchBytes = 512 * 1024
/** A partition that gives nothing for so long holds the others up no longer: the log is asked anew. */
const patienceMs = 5_000
const lookAgainMs = 30_000

/** @param settings have passed `kafkaFaults` */
export function kafkaLiveTopic(settings: ConnectionOptions & EncodingOptions & { readonly topic: string }, logger: Logger): LiveTopic {
  return {
    async open() {
      const connection = await kafkaConnection(settings)
      const reader = await openKafkaTopicReader({ connection, topic: settings.topic, fetchBytes, patienceMs })
      return messagesReader(reader, settings, logger)
    },
    onAppend(listener) {
      const timer = setInterval(listener, pollMs)
      return () => clearInterval(timer)
    },
    lookAgainMs,
  }
}
