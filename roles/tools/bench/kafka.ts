// A load's way into the topic of a writer: the client and the envelope of ingest.

import { openLogger } from '../../../config/logger.ts'
import { openMessagesLog } from '../../../pipeline/kafka/confluent/encoding.ts'
import { type ConnectionFlags, onlyTopic } from '../kafkajs.ts'
import { type Sources, storeNamed } from '../target/flags.ts'
import { loadTargetOptions } from '../target/target.ts'
import type { Destination } from './load.ts'

const partitionsDefault = 12

/** A topic that is missing is created, as ingest does. @throws OptionsError, SecretError, SystemicError, LogUnavailableError */
export async function openKafkaDestination({ config, store, topic: named }: ConnectionFlags, sources: Sources): Promise<Destination> {
  const options = await loadTargetOptions(storeNamed(store), config, sources)
  const topic = named ?? onlyTopic(options.log)
  const logger = openLogger({ ...options.logging, level: 'error' })
  const log = await openMessagesLog({ ...options.log, topic, partitions: partitionsDefault }, logger)
  return {
    name: topic,
    messagesMax: 1000,
    sendsMax: 8,
    send: async messages => void (await log.append(messages)),
    close: () => log.close(),
  }
}
