// The channel and the subtopic in a topic of MQTT, for our port and for the brokers that ask.

import { noChannel, parseChannel } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import { subtopicOf } from './subtopic.ts'

/** A topic or filter as it is kept: some clients send the key after a question mark. */
export function withoutQuery(text: string): string {
  return text.split('?', 1)[0]!
}

const pattern = /^\/?channels\/([^/]*)\/messages(?:\/(.*))?$/s

/**
 * The channel of a topic or filter, and what is below its messages. A `/` before it is allowed, and what follows a `?` is left out, as existing devices send
 * both.
 *
 * @returns undefined for another form
 */
export function splitTopic(text: string): { channel: string; below: string } | undefined {
  const [, channel, below = ''] = pattern.exec(withoutQuery(text)) ?? []
  return channel === undefined ? undefined : { channel, below }
}

/**
 * `channels/<channel>/messages[/<part>/…]`
 *
 * @returns `noChannel` for an id that no channel has, which is refused with the rights
 * @throws HttpError `malformed_request` for another topic; SubtopicError
 */
export function parseTopic(topic: string): { channel: string; subtopic: string } {
  const split = splitTopic(topic)
  if (split === undefined) {
    const detail = 'the topic is not channels/<channel>/messages or channels/<channel>/messages/<subtopic>: publish to one of these'
    throw new HttpError('malformed_request', detail, { faults: [{ pointer: '/path/topic', detail }] })
  }
  return { channel: parseChannel(split.channel) ?? noChannel, subtopic: subtopicOf(split.below) }
}

/** A topic is kept as an alias, or with a will, for as long as a connection. */
export const topicBytesMax = 2_048

/** @returns why no message can have the topic (MQTT 5 §4.7), whichever channel it names */
export function topicFault(topic: string): string | undefined {
  if (Buffer.byteLength(topic) > topicBytesMax) return `the topic is longer than ${topicBytesMax} bytes: use a shorter subtopic`
  if (/[+#]/.test(topic)) return 'the topic has a wildcard, + or #: publish to one channel'
  return undefined
}
