// What a start needs of Kafka, as checks: brokers that answer, and topics that exist or may be created, with the rights to use them.

import { named } from '../config/options/variable.ts'
import { kafkaConnection } from '../pipeline/kafka/connection.ts'
import type { KafkaLogOptions } from '../pipeline/kafka/options.ts'
import { existingTopics, openTopics, type Topic, type TopicUse } from '../pipeline/kafka/topics.ts'
import { LogUnavailableError } from '../pipeline/log.ts'
import type { ServerCheck, Warn } from './checks.ts'

/** What a role does with its topics. */
export interface TopicsNeeded {
  readonly settings: Omit<KafkaLogOptions, 'topic'>
  /** Names, and patterns that begin with `^`. */
  readonly wanted: readonly string[]
  readonly use: TopicUse
  /** Whether a start creates missing ones. */
  readonly mayCreate: boolean
}

/**
 * @returns those that exist
 * @throws SystemicError, LogUnavailableError as `openTopics`
 */
export async function lookAtTopics({ settings, wanted, use, mayCreate }: TopicsNeeded, warn: Warn): Promise<readonly Topic[]> {
  const connection = await kafkaConnection(settings)
  if (!mayCreate) return await openTopics(connection, wanted, undefined, use)
  const found = await existingTopics(connection, wanted, use)
  const names = new Set(found.map(({ name }) => name))
  for (const name of wanted) {
    if (name.startsWith('^') || names.has(name)) continue
    warn(
      `the topic ${name} does not exist: a start creates it with ${settings.partitions} partitions; if it should exist, correct ${named('log.topic')}`,
    )
  }
  return found
}

/** Of a role that appends: `ingest`, or a bridge. A start asks the same when it opens the topic (`openMessagesLog`). */
export const appendCheck = (log: KafkaLogOptions): ServerCheck =>
  topicsCheck({ settings: log, wanted: [log.topic], use: 'write', mayCreate: true })

/** @param then looks at what was found, and returns more to say of it */
export function topicsCheck(needed: TopicsNeeded, then?: (topics: readonly Topic[]) => Promise<string>): ServerCheck {
  return {
    name: 'log',
    subject: 'Kafka',
    options: named('log.brokers'),
    isAway: error => error instanceof LogUnavailableError,
    async run(warn) {
      const topics = await lookAtTopics(needed, warn)
      for (const { name, leaders } of topics) {
        const missing = leaders.indexOf(undefined)
        if (missing >= 0) warn(`partition ${missing} of the topic ${name} has no leader: check the brokers`)
      }
      const more = (await then?.(topics)) ?? ''
      const found = topics.map(({ name, partitions }) => `${name} (${partitions} partitions)`).join(', ')
      return `${needed.settings.brokers.join(', ')}: ${found === '' ? 'no topic yet' : found}${more}`
    },
  }
}
