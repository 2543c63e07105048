// Decodes the messages of a topic as its options say: out of their frames, and with the envelope where the topic has it.

import type { Logger } from '../../config/logger.ts'
import type { LaidOut } from '../envelope/cursor.ts'
import { layoutOf } from '../envelope/layout.ts'
import type { EnvelopeOptions } from '../envelope/options.ts'
import { laidOutSource, laidOutTopicReader, withOriginalTimes } from '../envelope/source.ts'
import type { MessageOptions } from '../options.ts'
import type { Source } from '../source.ts'
import type { TopicReader } from '../topic-reader.ts'
import { type EncodingOptions, unframedReader, unframedSource } from './confluent/encoding.ts'

/** The sections that say how messages are decoded. They must be the same in writers, live readers and tools. */
export interface MessagesOptions {
  readonly log: Omit<EncodingOptions, 'topic'>
  readonly envelope: EnvelopeOptions
  readonly message: Pick<MessageOptions, 'payloadBytes'>
}

/** @param topics by log */
export function messagesSource(source: Source, topics: readonly string[], options: MessagesOptions, logger: Logger): Source {
  const laidOut = topics.flatMap(topic => layoutOfMessages(options, topic) ?? [])
  const unframed = unframedSource(source, { ...options.log, topic: topics[0]! }, logger)
  return laidOut.length === 0 ? unframed : laidOutSource(unframed, laidOut)
}

export function messagesReader(reader: TopicReader, options: MessagesOptions, logger: Logger): TopicReader {
  const laidOut = layoutOfMessages(options, reader.name)
  const unframed = unframedReader(reader, { ...options.log, topic: reader.name }, logger)
  return laidOut === undefined ? unframed : laidOutTopicReader(unframed, laidOut)
}

/**
 * The messages in a dead-letter topic.
 *
 * @param reader of the topic
 * @param topic of the messages
 * @param as `replayed` decodes them as the writer would; `listed` leaves their payloads as they are
 */
export function deadLettersReader(
  reader: TopicReader,
  topic: string,
  options: MessagesOptions,
  logger: Logger,
  as: 'listed' | 'replayed',
): TopicReader {
  const laidOut = layoutOfMessages(options, topic)
  const original = withOriginalTimes(reader)
  const unframed = as === 'listed' ? original : unframedReader(original, { ...options.log, topic }, logger)
  return laidOut === undefined ? unframed : laidOutTopicReader(unframed, laidOut)
}

/** How the envelope of a topic's messages is read; undefined if it is where Sluice writes it. */
export function layoutOfMessages({ envelope, message }: Pick<MessagesOptions, 'envelope' | 'message'>, topic: string): LaidOut | undefined {
  const layout = layoutOf(envelope)
  return layout === undefined ? undefined : { layout, topic, payloadBytesMax: message.payloadBytes }
}
