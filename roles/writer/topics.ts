// The topics that a writer reads, with those of their dead letters; and a watch for new topics that match a pattern.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
import { deadLettersTopicConfig } from '../../pipeline/dead-letters/topic-config.ts'
import type { KafkaConnection } from '../../pipeline/kafka/connection.ts'
import { wantedTopics } from '../../pipeline/kafka/topic-patterns.ts'
import { openTopics, type Topic } from '../../pipeline/kafka/topics.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { deadLettersTopic } from '../../pipeline/writer/dead-letters.ts'
import type { WriterOptions } from './options.ts'

/**
 * The topics that exist now, sorted by name. Creates missing ones if `create` is set. If there are several, their dead-letter topics are created
 * here, once; a worker opens each with its first dead letter.
 *
 * @throws SystemicError, LogUnavailableError: see `openTopics`
 */
export async function openWriterTopics(
  connection: KafkaConnection,
  writer: string,
  { log, message }: Pick<WriterOptions, 'log' | 'message'>,
  create: boolean,
  logger: Logger,
): Promise<readonly Topic[]> {
  const { partitions, replicationFactor } = log
  const topics = await openTopics(connection, wantedTopics(log), create ? { partitions, replicationFactor, logger } : undefined)
  if (topics.length > 1) {
    const config = deadLettersTopicConfig(message.payloadBytes)
    const names = topics.map(({ name }) => deadLettersTopic(name, writer))
    await openTopics(connection, names, { partitions: 1, replicationFactor, config, logger })
  }
  return topics
}

/**
 * Looks for topics again and again, until the signal aborts. If a new one cannot be read, the writer goes on with those that it has.
 */
export async function watchTopics(
  open: () => Promise<readonly Topic[]>,
  everyMs: number,
  onFound: (topics: readonly Topic[]) => void,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  let said: string | undefined
  for (;;) {
    await wait(everyMs, undefined, { signal, ref: false }).catch(() => undefined)
    if (signal.aborted) return
    try {
      onFound(await open())
    } catch (error) {
      // The workers have the same outage, and log it.
      if (error instanceof LogUnavailableError) logger.debug({ reason: factOf(error) }, 'cannot look for new topics')
      else if (error instanceof SystemicError && error.message !== said) logger.warn(`new topics are not read: ${error.message}`)
      else if (!(error instanceof SystemicError)) throw error
      said = (error as Error).message
    }
  }
}
