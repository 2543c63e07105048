// Kafka topics as a live topic.

import { pause } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import { type LogPartition, logPartition } from '../../transformers/log-partition.ts'
import { type ConnectionOptions, kafkaConnection } from '../kafka/connection.ts'
import { followTopics } from '../kafka/follow.ts'
import { type MessagesOptions, messagesReader, messagesSource } from '../kafka/messages.ts'
import { isPattern, type TopicOptions, wantedTopics } from '../kafka/topic-patterns.ts'
import { openKafkaTopicReader } from '../kafka/topic-reader.ts'
import { topicNames } from '../kafka/topics.ts'
import { LogUnavailableError } from '../log.ts'
import type { TopicReader } from '../topic-reader.ts'
import { joinedReader } from './joined-reader.ts'
import type { LiveReader, LiveTopic } from './tail.ts'

/** The size of one fetch. */
const fetchBytes = 512 * 1024
/** After this time a partition without an answer no longer delays the others: the log is asked again. */
const patienceMs = 5_000

/**
 * @param options whose section `log` was checked by `kafkaFaults`
 * @param lookAgainMs how often it is looked whether partitions or topics were added, or a topic was recreated
 */
export function kafkaLiveTopic(
  options: MessagesOptions & { readonly log: ConnectionOptions & TopicOptions },
  logger: Logger,
  lookAgainMs = 30_000,
): LiveTopic {
  const wanted = wantedTopics(options.log)

  async function open(): Promise<LiveReader> {
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
    const reader = joinedReader(readers)
    const partitions = readers.flatMap((one, log) => Array.from({ length: one.partitions }, (_, partition) => logPartition(log, partition)))
    const indexes = new Map(partitions.map((at, index) => [at, index]))
    return {
      ...reader,
      async *follow(next, signal) {
        const from = new Map(next.map((offset, index): [LogPartition, number] => [partitions[index]!, offset]))
        const source = {
          chunks: (over: AbortSignal) => followTopics({ connection, topics: readers, fetchBytes, patienceMs, logger }, from, over),
          ends: async () => new Map(),
          commit: async () => undefined,
          close: async () => undefined,
        }
        const names = readers.map(({ name }) => name)
        const changed = new AbortController()
        const over = AbortSignal.any([signal, changed.signal])
        void change(reader, over).then(() => changed.abort())
        try {
          for await (const chunk of messagesSource(source, names, options, logger).chunks(over))
            yield { partition: indexes.get(chunk.at)!, chunk }
        } finally {
          changed.abort()
        }
      },
    }
  }

  /** Resolves when the topics are others than these, or there may no longer be such; or when the signal aborts. */
  async function change({ id, partitions }: TopicReader, signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(lookAgainMs, signal)
      if (signal.aborted) return
      try {
        const found = await open()
        await found.close()
        if (found.id !== id || found.partitions !== partitions) return
      } catch (error) {
        if (!(error instanceof LogUnavailableError)) return
      }
    }
  }

  return { open, otherBegins: wanted.length === 1 && !isPattern(wanted[0]!) ? 'start' : 'end' }
}
