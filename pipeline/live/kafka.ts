// Kafka topics as a live topic. It joins no consumer group, so it disturbs no writer and leaves nothing behind.

import type { Logger } from '../../config/logger.ts'
import { type ConnectionOptions, kafkaConnection } from '../kafka/connection.ts'
import { type MessagesOptions, messagesReader } from '../kafka/messages.ts'
import { isPattern, type TopicOptions, wantedTopics } from '../kafka/topic-patterns.ts'
import { openKafkaTopicReader } from '../kafka/topic-reader.ts'
import { topicNames } from '../kafka/topics.ts'
import type { TopicReader } from '../topic-reader.ts'
import { joinedReader } from './joined-reader.ts'
import type { LiveTopic } from './tail.ts'

/** How often the brokers are asked for the ends of the partitions while there are followers: with more topics less often. */
const pollMs = 200
const pollMsPerTopic = 40
/** The size of one fetch. Partitions with new messages are fetched in parallel. */
const fetchBytes = 512 * 1024
/** After this time a partition without an answer no longer delays the others: the log is asked again. */
const patienceMs = 5_000
const lookAgainMs = 30_000

/** @param options whose section `log` was checked by `kafkaFaults` */
export function kafkaLiveTopic(options: MessagesOptions & { readonly log: ConnectionOptions & TopicOptions }, logger: Logger): LiveTopic {
  const wanted = wantedTopics(options.log)
  let topics = wanted.length
  return {
    async open() {
      const connection = await kafkaConnection(options.log)
      const readers: TopicReader[] = []
      try {
        for (const topic of await topicNames(connection, wanted)) {
          const reader = await openKafkaTopicReader({ connection, topic, fetchBytes, patienceMs })
          readers.push(messagesReader(reader, options, logger))
        }
      } catch (error) {
        await Promise.all(readers.map(reader => reader.close()))
        throw error
      }
      topics = readers.length
      return joinedReader(readers)
    },
    onAppend(listener) {
      const timer = setInterval(listener, Math.max(pollMs, topics * pollMsPerTopic))
      return () => clearInterval(timer)
    },
    lookAgainMs,
    otherBegins: wanted.length === 1 && !isPattern(wanted[0]!) ? 'start' : 'end',
  }
}
