// What the option `encoding` changes: the log, the source and the reader of messages, each as the section `log` says.
//
// Dead letters and replays hold messages as they were, so that a frame stays a frame: their logs are opened without this, and the replays
// are read as the messages are.

import type { Logger } from '../../../config/logger.ts'
import type { Source } from '../../source.ts'
import type { TopicReader } from '../../topic-reader.ts'
import { type KafkaLog, type KafkaLogSettings, openKafkaLog } from '../log.ts'
import type { KafkaLogOptions } from '../options.ts'
import { subjectOf } from './envelope-schema.ts'
import { framedLog } from './framed-log.ts'
import { framedTopicReader, withConfluentFraming } from './framed-source.ts'
import { openRegistry } from './registry.ts'
import type { RegistryOptions } from './registry-connection.ts'
import { openSchemas, type Schemas } from './schemas.ts'

export type EncodingOptions = RegistryOptions & Pick<KafkaLogOptions, 'encoding'>

/**
 * Opens the topic of messages for whoever appends to it. Once the schema has its id the registry is not needed: the id is in each message.
 *
 * @throws what `openKafkaLog` throws; LogUnavailableError also while the registry is away, SystemicError where it does not take our schema
 */
export async function openMessagesLog(settings: KafkaLogSettings & EncodingOptions, logger: Logger): Promise<KafkaLog> {
  if (settings.encoding === 'raw') return openKafkaLog(settings, logger)
  const schemaId = await openRegistry(settings, logger).register(subjectOf(settings.topic))
  return framedLog(await openKafkaLog(settings, logger), schemaId)
}

/** The source of messages, or of replays, from one that reads what lies in Kafka. */
export function messagesSource(source: Source, settings: EncodingOptions, logger: Logger): Source {
  return settings.encoding === 'raw' ? source : withConfluentFraming(source, schemasOf(settings, logger))
}

/** The same of a topic reader. */
export function messagesReader(reader: TopicReader, settings: EncodingOptions, logger: Logger): TopicReader {
  return settings.encoding === 'raw' ? reader : framedTopicReader(reader, schemasOf(settings, logger))
}

function schemasOf(settings: EncodingOptions, logger: Logger): Schemas {
  return openSchemas({ lookUp: openRegistry(settings, logger).lookUp })
}
