// Retained messages in a compacted topic of Kafka, which instances share.

import { type CompactedTopicParts, openCompactedTopic } from '../../kafka/compacted-topic.ts'
import type { KafkaLogSettings } from '../../kafka/log.ts'
import { LogUnavailableError } from '../../log.ts'
import { openRetainedRecords, recordName, recordOf } from './records.ts'
import type { RetainedStore } from './store.ts'

interface KafkaRetainedParts extends Pick<CompactedTopicParts, 'outage' | 'logger'> {
  /** The options of the section `log`: the topic is that of the messages. */
  readonly log: KafkaLogSettings
  /** Of one channel. */
  readonly topicsMax: number
}

export function retainedTopic(topic: string): string {
  return `${topic}.mqtt-retained`
}

/** Opens in the background. Until the topic was read, calls wait for it; while Kafka is away, they reject. */
export function openKafkaRetained({ log, topicsMax, outage, logger }: KafkaRetainedParts): RetainedStore {
  const settings = { ...log, topic: retainedTopic(log.topic) }
  const records = openRetainedRecords(topicsMax)
  const topic = openCompactedTopic({
    settings,
    what: 'retained messages of MQTT',
    outage,
    logger,
    onRecord(name, offset, record) {
      if (records.apply(name, record)) return
      logger.warn({ topic: settings.topic, offset }, 'a record is not one of a retained message: skipping it')
    },
    onLost: () => records.removeAll(),
    unavailable: cause =>
      new LogUnavailableError(`the retained messages of MQTT cannot be read or saved: ${(cause as Error).message}`, { cause }),
  })

  async function write(name: string, record: Buffer | undefined): Promise<void> {
    const offset = await topic.append(name, record)
    await topic.hasRead(offset + 1)
  }

  return {
    ...records,
    ready: () => topic.hasReadAll(),
    async keep(message) {
      await topic.hasRead(0)
      const name = recordName(message)
      if (records.later(message) !== undefined) return
      await write(name, recordOf(message))
      // Another instance was faster with a later one, and compaction keeps the last record.
      const later = records.later(message)
      if (later !== undefined) await write(name, recordOf(later))
    },
    async clear(cleared) {
      await topic.hasRead(0)
      if (records.get(cleared) !== undefined) await write(recordName(cleared), undefined)
    },
    close: () => topic.close(),
  }
}
