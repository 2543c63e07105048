// The source on Kafka fulfils the contract of a source, with static membership and without.

import { openKafkaLog } from '../../../../pipeline/kafka/log.ts'
import { type LogPartition, logOf, logPartition, partitionOf } from '../../../../transformers/log-partition.ts'
import { sharedSourceConformance } from '../../../conformance/shared-source.ts'
import { sourceConformance } from '../../../conformance/source.ts'
import { describeWithKafka } from '../../../servers/kafka.ts'
import { logSettings, silent } from '../stored-messages.ts'
import { openTools, quickConsumer, sourcesOf } from './source-parts.ts'

/** A test waits for longer than a session. */
const tuning = { ...quickConsumer, sessionMs: 6_000 }

describeWithKafka('with a broker', kafka => {
  sourceConformance('the source on Kafka', async () => {
    const topic = await kafka.createTopic()
    const sources = sourcesOf(kafka.brokers, topic)
    const tools = await openTools(kafka.brokers)
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    return {
      append: messages => log.append(messages),
      open: settings => sources.open(settings),
      deleteBelow: offset => tools.deleteBelow(topic, offset),
      dispose: async () => {
        await Promise.all([sources.close(), log.close(), tools.close()])
      },
    }
  })

  for (const isNamed of [false, true]) {
    sharedSourceConformance(`the source on Kafka, ${isNamed ? 'named in its group' : 'without a name'}`, async partitions => {
      const topics = await Promise.all(partitions.map(count => kafka.createTopic({ partitions: count })))
      const sources = sourcesOf(kafka.brokers, topics, isNamed)
      const tools = await openTools(kafka.brokers)
      return {
        append: (at, texts) => tools.appendTexts(topics[logOf(at as LogPartition)]!, texts, partitionOf(at as LogPartition)),
        open: (settings, sessionMs = tuning.sessionMs) =>
          sources.open({ ...settings, tuning: { ...tuning, sessionMs, rebalanceMs: Math.max(tuning.rebalanceMs, sessionMs) } }),
        sessionMs: tuning.sessionMs,
        async committed() {
          const found = await Promise.all(topics.map(topic => tools.committed(topic, sources.group())))
          return new Map(found.flatMap((offsets, log) => [...offsets].map(([partition, offset]) => [logPartition(log, partition), offset])))
        },
        async delete(log) {
          await kafka.deleteTopic(topics[log]!)
          return topics[log]!
        },
        addPartitions: async count => {
          await tools.admin.createPartitions({ topicPartitions: [{ topic: topics[0]!, count }] })
        },
        dispose: async () => {
          await sources.close()
          await tools.close()
        },
      }
    })
  }
})
