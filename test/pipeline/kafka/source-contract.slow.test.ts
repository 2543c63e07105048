// The source on kafkajs keeps the contract of a source.

import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { sharedSourceConformance } from '../../conformance/shared-source.ts'
import { sourceConformance } from '../../conformance/source.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { clients, openTools, quickConsumer, sourcesOf } from './source-parts.ts'
import { logSettings, silent } from './stored-messages.ts'

describeWithKafka('with a broker', kafka => {
  for (const client of clients) {
    sourceConformance(`the source on ${client}`, async () => {
      const topic = await kafka.createTopic()
      const sources = sourcesOf(kafka.brokers, topic, client)
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

    sharedSourceConformance(`the source on ${client}`, async partitions => {
      const topic = await kafka.createTopic({ partitions })
      const sources = sourcesOf(kafka.brokers, topic, client)
      const tools = await openTools(kafka.brokers)
      return {
        append: (partition, texts) => tools.appendTexts(topic, texts, partition),
        open: settings => sources.open(settings),
        sessionMs: quickConsumer.sessionMs,
        committed: () => tools.committed(topic, sources.group()),
        addPartitions: async count => {
          await tools.admin.createPartitions({ topicPartitions: [{ topic, count }] })
        },
        dispose: async () => {
          await sources.close()
          await tools.close()
        },
      }
    })
  }
})
