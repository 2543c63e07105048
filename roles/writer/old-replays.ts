// Upgrade of a writer whose earlier release replayed through a separate topic: see pipeline/dead-letters/reopen.ts.

import type { Admin } from '@platformatic/kafka'
import type { Logger } from '../../config/logger.ts'
import { oldReplaysGroup, oldReplaysTopic } from '../../pipeline/dead-letters/old-replays.ts'
import { deadLettersTopicConfig } from '../../pipeline/dead-letters/topic-config.ts'
import { type KafkaConnection, openAdmin } from '../../pipeline/kafka/connection.ts'
import { reasonOf } from '../../pipeline/kafka/failure.ts'
import { topicsText } from '../../pipeline/kafka/topic-patterns.ts'
import { describeTopics, readCommitted } from '../../pipeline/kafka/topics.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { deadLettersTopic } from '../../pipeline/writer/dead-letters.ts'
import { deadLetterQueueBytes } from './memory.ts'
import type { WriterOptions } from './options.ts'

export interface OldReplays {
  readonly connection: KafkaConnection
  readonly options: Pick<WriterOptions, 'log' | 'message' | 'consumer'>
  /** Of the messages. */
  readonly topics: readonly string[]
  readonly writer: string
  readonly logger: Logger
}

/**
 * Reopens the letters whose messages wait in an old replays topic, and commits the topic's end for the group that read it, so that the next
 * start finds none. Several processes may do this at once: a letter that is written twice counts once.
 *
 * @throws LogUnavailableError
 */
export async function reopenOldReplays(replays: OldReplays): Promise<void> {
  const { connection, topics, writer, logger } = replays
  const names = topics.map(topic => oldReplaysTopic(topic, writer))
  const admin = await openAdmin(connection)
  try {
    const found = await describeTopics(admin, names)
    for (const [at, topic] of topics.entries()) if (found[at] !== undefined) await reopenOf(topic, admin, replays)
  } catch (error) {
    // The writer no longer needs that topic, so it may lack the rights on it. `./sluice verify` still reports messages that wait there.
    if (!(error instanceof SystemicError)) throw error
    logger.info(`cannot check ${topicsText(names)} for replays of an earlier release (${error.message})`)
  } finally {
    await admin.close()
  }
}

async function reopenOf(topic: string, admin: Admin, { connection, options, writer, logger }: OldReplays): Promise<void> {
  const { log, message, consumer } = options
  const [name, group] = [oldReplaysTopic(topic, writer), oldReplaysGroup(writer)]
  // Loaded only now: hardly a writer has such a topic.
  const { reopenDeadLetters, reopenedSentence } = await import('../../pipeline/dead-letters/reopen.ts')
  const { openKafkaLog } = await import('../../pipeline/kafka/log.ts')
  const { openKafkaTopicReader } = await import('../../pipeline/kafka/topic-reader.ts')
  const cleanup: (() => Promise<void>)[] = []
  const kept = <Part extends { close(): Promise<void> }>(part: Part): Part => {
    cleanup.push(() => part.close())
    return part
  }
  try {
    const deadLettersName = deadLettersTopic(topic, writer)
    if ((await describeTopics(admin, [deadLettersName]))[0] === undefined) return
    const openReader = async (topic: string) => kept(await openKafkaTopicReader({ connection, topic, fetchBytes: consumer.fetchBytes }))
    const replays = await openReader(name)
    const bounds = await replays.bounds()
    const committed = await readCommitted(admin, group, name, [...bounds.keys()])
    const unread = [...bounds].filter(([partition, { start, end }]) => Math.max(start, committed.get(partition) ?? start) < end)
    if (unread.length === 0) return
    const deadLetters = await openReader(deadLettersName)
    const settings = { ...log, topic: deadLettersName, partitions: 1, queueBytes: deadLetterQueueBytes }
    const deadLettersLog = kept(await openKafkaLog(settings, logger, deadLettersTopicConfig(message.payloadBytes)))
    const reopened = await reopenDeadLetters({ deadLetters, log: deadLettersLog, replays, committed })
    if (reopened > 0) logger.warn({ letters: reopened, topic: name }, reopenedSentence(reopened))
    const partitionOffsets = unread.map(([partition, { end }]) => ({ partition, offset: BigInt(end) }))
    try {
      await admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name, partitionOffsets }] })
    } catch (error) {
      logger.warn(
        `cannot commit the end of the topic ${name} for the group ${group} (${reasonOf(error)}): stop the writers of the earlier release, and delete the topic when no dead letter is open; otherwise each start reopens its dead letters`,
      )
    }
  } finally {
    for (const closing of cleanup.toReversed()) await closing()
  }
}
