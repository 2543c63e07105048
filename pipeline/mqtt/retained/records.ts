// Retained messages in memory, and as records of a store: under a name for each topic, a line of JSON and the payload. An empty record clears the topic.

import { HttpError } from '../../../http/errors.ts'
import type { Qos } from '../sessions/records.ts'

export interface RetainedTopic {
  readonly channel: string
  /** As in the log: dotted. */
  readonly subtopic: string
  /** The owner of the thing that publishes, if they registered themselves and have bounds. */
  readonly boundedOwner?: string | undefined
}

export interface RetainedMessage extends RetainedTopic {
  readonly publisher: string
  readonly contentType: string
  /** With which it was published. */
  readonly qos: Qos
  readonly payload: Uint8Array
  /** Identifies the log, as a stream's offset does. */
  readonly log: string
  readonly partition: number
  readonly offset: number
}

const mebibyte = 1024 * 1024
const payloadBytesMax = 64 * 1024
/** What a message takes in addition to its payload and subtopic. */
const messageBytes = 512
const lineEnd = 10

/** @param topicsMax of one channel */
export function openRetainedRecords(topicsMax: number) {
  const channels = new Map<string, Map<string, RetainedMessage>>()
  /** Bytes, by id of a channel or an owner; of all owners with bounds, and of all messages. */
  const used = new Map<string, number>()

  const get = ({ channel, subtopic }: RetainedTopic): RetainedMessage | undefined => channels.get(channel)?.get(subtopic)

  /** What is kept in place of the message, because it is later in the same log. */
  function later(message: RetainedMessage): RetainedMessage | undefined {
    const kept = get(message)
    return kept?.log === message.log && kept.partition === message.partition && kept.offset > message.offset ? kept : undefined
  }

  function count(message: RetainedMessage, sign: 1 | -1): void {
    for (const [whose] of boundsOf(message)) {
      const left = (used.get(whose) ?? 0) + sign * bytesOf(message, message.payload.length)
      if (left === 0) used.delete(whose)
      else used.set(whose, left)
    }
  }

  function remove(topic: RetainedTopic): void {
    const message = get(topic)
    if (message === undefined) return
    count(message, -1)
    const messages = channels.get(topic.channel)!
    messages.delete(topic.subtopic)
    if (messages.size === 0) channels.delete(topic.channel)
  }

  /** Unless a later message is kept. */
  function set(message: RetainedMessage): void {
    if (later(message) !== undefined) return
    remove(message)
    count(message, 1)
    const messages = channels.get(message.channel) ?? new Map<string, RetainedMessage>()
    channels.set(message.channel, messages.set(message.subtopic, message))
  }

  /** Checks the bounds; messages that are on their way are not counted. @throws HttpError `too_large`, `too_many_requests` */
  function check(topic: RetainedTopic, payloadBytes: number): void {
    const full = (why: string): HttpError =>
      new HttpError('too_many_requests', `${why}: clear one with an empty message that has the retain flag`)
    const known = get(topic)
    if (payloadBytes > payloadBytesMax) {
      throw new HttpError('too_large', `a retained message has at most ${payloadBytesMax} bytes: send less, or clear its retain flag`)
    }
    if (known === undefined && (channels.get(topic.channel)?.size ?? 0) >= topicsMax) {
      throw full(`the channel has ${topicsMax} topics with a retained message, see mqtt.retained_max`)
    }
    const counted = known === undefined ? [] : boundsOf(known).map(([whose]) => whose)
    for (const [whose, bytesMax, what] of boundsOf(topic)) {
      const more = bytesOf(topic, payloadBytes) - (counted.includes(whose) ? bytesOf(known!, known!.payload.length) : 0)
      if (more > 0 && (used.get(whose) ?? 0) + more > bytesMax) throw full(`${what} have at most ${bytesMax} bytes`)
    }
  }

  return {
    get,
    later,
    set,
    remove,
    check,
    /** Those of a channel, which may change meanwhile. */
    messagesOf: (channel: string): Iterable<RetainedMessage> => channels.get(channel)?.values() ?? [],
    /** Those that have messages. */
    channels: (): Iterable<string> => channels.keys(),
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
      used.clear()
    },
  }
}

/** Whose bytes a message counts for, and how many they may be: neither a channel nor users who registered themselves, who may be many, take what all share. */
function boundsOf({ channel, boundedOwner = '' }: RetainedTopic) {
  const bounds = [
    [channel, 4 * mebibyte, 'the retained messages of a channel'],
    ['all', 64 * mebibyte, 'all retained messages'],
    [boundedOwner, 8 * mebibyte, 'the retained messages of a user who registered themselves'],
    ['bounded', 32 * mebibyte, 'the retained messages of all users who registered themselves'],
  ] as const
  return boundedOwner === '' ? bounds.slice(0, 2) : bounds
}

function bytesOf({ subtopic }: RetainedTopic, payloadBytes: number): number {
  return messageBytes + subtopic.length + payloadBytes
}

/** Neither part has a space. */
export function recordName({ channel, subtopic }: RetainedTopic): string {
  return `${channel} ${subtopic}`
}

export function recordOf({ channel: _channel, subtopic: _subtopic, payload, ...head }: RetainedMessage): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), payload])
}

function messageIn(topic: RetainedTopic, record: Uint8Array): RetainedMessage | undefined {
  const end = record.indexOf(lineEnd)
  try {
    const head = JSON.parse(new TextDecoder().decode(record.subarray(0, end))) as Omit<RetainedMessage, 'channel' | 'subtopic' | 'payload'>
    const { qos, partition, offset } = head
    if (![0, 1, 2].includes(qos) || ![partition, offset].every(Number.isSafeInteger)) return undefined
    return { ...head, ...topic, payload: Uint8Array.from(record.subarray(end + 1)) }
  } catch {
    return undefined
  }
}
