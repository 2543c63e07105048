// Retained messages in memory, and as records of a store: under a name for each topic, a line of JSON and the payload. An empty record clears the topic.

import { HttpError } from '../../../http/errors.ts'
import type { RetainedMessage, RetainedTopic } from './store.ts'

const payloadBytesMax = 64 * 1024
/** Of a channel, so that one does not take what all share. */
const channelBytesMax = 4 * 1024 * 1024
/** Of all messages of a process. */
const allBytesMax = 64 * 1024 * 1024
/** What a message takes in addition to its payload and subtopic. */
const messageBytes = 512
const lineEnd = 10

/** @param topicsMax of one channel */
export function openRetainedRecords(topicsMax: number) {
  const channels = new Map<string, Map<string, RetainedMessage>>()
  let bytes = 0

  const get = ({ channel, subtopic }: RetainedTopic): RetainedMessage | undefined => channels.get(channel)?.get(subtopic)

  /** What is kept in place of the message, because it is later in the same log. */
  function later(message: RetainedMessage): RetainedMessage | undefined {
    const kept = get(message)
    return kept?.log === message.log && kept.partition === message.partition && kept.offset > message.offset ? kept : undefined
  }

  function channelBytes(channel: string): number {
    let sum = 0
    for (const message of channels.get(channel)?.values() ?? []) sum += bytesOf(message, message.payload.length)
    return sum
  }

  function remove(topic: RetainedTopic): void {
    const message = get(topic)
    if (message === undefined) return
    bytes -= bytesOf(message, message.payload.length)
    const messages = channels.get(topic.channel)!
    messages.delete(topic.subtopic)
    if (messages.size === 0) channels.delete(topic.channel)
  }

  /** @returns false if a later message is kept */
  function set(message: RetainedMessage): boolean {
    if (later(message) !== undefined) return false
    remove(message)
    bytes += bytesOf(message, message.payload.length)
    const messages = channels.get(message.channel) ?? new Map<string, RetainedMessage>()
    channels.set(message.channel, messages.set(message.subtopic, message))
    return true
  }

  return {
    get,
    later,
    set,
    remove,
    check(topic: RetainedTopic, payloadBytes: number): void {
      const full = (why: string): HttpError =>
        new HttpError('too_many_requests', `${why}: clear one with an empty message that has the retain flag`)
      const known = get(topic)
      if (payloadBytes > payloadBytesMax) {
        throw new HttpError('too_large', `a retained message has at most ${payloadBytesMax} bytes: send less, or clear its retain flag`)
      }
      if (known === undefined && (channels.get(topic.channel)?.size ?? 0) >= topicsMax) {
        throw full(`the channel has ${topicsMax} topics with a retained message, see mqtt.retained_max`)
      }
      const more = bytesOf(topic, payloadBytes) - (known === undefined ? 0 : bytesOf(known, known.payload.length))
      if (more > 0 && channelBytes(topic.channel) + more > channelBytesMax) {
        throw full(`the retained messages of a channel have at most ${channelBytesMax} bytes`)
      }
      if (more > 0 && bytes + more > allBytesMax) throw full(`the retained messages have ${allBytesMax} bytes, the most that is kept`)
    },
    messagesOf: (channel: string): Iterable<RetainedMessage> => channels.get(channel)?.values() ?? [],
    /** @returns false if it is not a record of a retained message */
    apply(name: string, record: Uint8Array): boolean {
      const [channel = '', subtopic = ''] = name.split(' ')
      const message = record.length > 0 ? messageIn({ channel, subtopic }, record) : undefined
      if (message !== undefined) set(message)
      else if (record.length === 0) remove({ channel, subtopic })
      else return false
      return true
    },
    removeAll(): void {
      channels.clear()
      bytes = 0
    },
  }
}

function bytesOf({ subtopic }: RetainedTopic, payloadBytes: number): number {
  return messageBytes + subtopic.length + payloadBytes
}

/** Neither part has a space. */
export function recordName({ channel, subtopic }: RetainedTopic): string {
  return `${channel} ${subtopic}`
}

export function recordOf({ publisher, contentType, qos, log, partition, offset, payload }: RetainedMessage): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify({ publisher, contentType, qos, log, partition, offset })}\n`), payload])
}

function messageIn(topic: RetainedTopic, record: Uint8Array): RetainedMessage | undefined {
  const end = record.indexOf(lineEnd)
  try {
    const head = JSON.parse(new TextDecoder().decode(record.subarray(0, end))) as Omit<RetainedMessage, 'payload' | keyof RetainedTopic>
    const { publisher, contentType, qos, log, partition, offset } = head
    const areTexts = [publisher, contentType, log].every(text => typeof text === 'string')
    if (!areTexts || ![0, 1, 2].includes(qos) || ![partition, offset].every(Number.isSafeInteger)) return undefined
    return { ...topic, publisher, contentType, qos, log, partition, offset, payload: Uint8Array.from(record.subarray(end + 1)) }
  } catch {
    return undefined
  }
}
