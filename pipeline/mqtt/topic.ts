// The channel and the subtopic in the topic of a PUBLISH.

import { noChannel, parseChannel } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import { subtopicOf } from '../ingest/subtopic.ts'

const pattern = /^\/?channels\/([^/]*)\/messages(?:\/(.*))?$/s

/**
 * `channels/<channel>/messages[/<part>/…]`; a `/` before it is allowed, and what follows a `?` is left out, as existing devices send both.
 *
 * @returns `noChannel` for an id that no channel has, which is refused with the rights
 * @throws HttpError `malformed_request` for another topic; SubtopicError
 */
export function parseTopic(topic: string): { channel: string; subtopic: string } {
  const [path = ''] = topic.split('?', 1)
  const [, channel, subtopic = ''] = pattern.exec(path) ?? []
  if (channel === undefined) {
    const detail = 'the topic is not channels/<channel>/messages or channels/<channel>/messages/<subtopic>: publish to one of these'
    throw new HttpError('malformed_request', detail, { faults: [{ pointer: '/path/topic', detail }] })
  }
  return { channel: parseChannel(channel) ?? noChannel, subtopic: subtopicOf(subtopic) }
}
