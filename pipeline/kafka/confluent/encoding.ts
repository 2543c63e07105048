// Opens the log, the source and the reader of messages with the encoding set in the section `log`.
//
// Dead letters contain messages in their original encoding. So their log is opened without this, and a replay decodes letters
// as the writer decodes messages.

import type { Logger } from '../../../config/logger.ts'
import type { Source } from '../../source.ts'
import type { TopicReader } from '../../topic-reader.ts'
import { type KafkaLog, type KafkaLogSettings, openKafkaLog } from '../log.ts'
import type { KafkaLogOptions } from '../options.ts'
import { frame } from './encode.ts'
import { subjectOf } from './envelope-schema.ts'
import { framedTopicReader, withConfluentFraming } from './framed-source.ts'
import { openRegistry } from './registry.ts'
import type { RegistryOptions } from './registry-connection.ts'
import { openSchemas, type Schemas } from './schemas.ts'

export type EncodingOptions = RegistryOptions & Pick<KafkaLogOptions, 'encoding'>

/**
 * Opens the topic of messages for appending. After the schema is registered the registry is no longer needed: each message contains the schema id.
 *
 * @throws as `openKafkaLog`; also LogUnavailableError while the registry is away, and SystemicError if it rejects our schema
 */
export async function openMessagesLog(settings: KafkaLogSettings & EncodingOptions, logger: Logger): Promise<KafkaLog> {
  if (settings.encoding === 'raw') return openKafkaLog(settings, logger)
  const schemaId = await openRegistry(settings, logger).register(subjectOf(settings.topic))
  return framedLog(await openKafkaLog(settings, logger), schemaId)
}

/** Adds decoding to a source of raw messages. */
export function unframedSource(source: Source, settings: EncodingOptions, logger: Logger): Source {
  return settings.encoding === 'raw' ? source : withConfluentFraming(source, schemasOf(settings, logger))
}

/** Adds decoding to a topic reader. */
export function unframedReader(reader: TopicReader, settings: EncodingOptions, logger: Logger): TopicReader {
  return settings.encoding === 'raw' ? reader : framedTopicReader(reader, schemasOf(settings, logger))
}

function schemasOf(settings: EncodingOptions, logger: Logger): Schemas {
  return openSchemas({ lookUp: openRegistry(settings, logger).lookUp })
}

/** A log that frames appended messages. */
function framedLog(log: KafkaLog, schemaId: number): KafkaLog {
  return {
    name: log.name,
    get id() {
      return log.id
    },
    get partitions() {
      return log.partitions
    },
    append: (messages, appending) =>
      log.append(
        messages.map(message => frame(message, schemaId)),
        appending,
      ),
    check: () => log.check(),
    close: () => log.close(),
  }
}
