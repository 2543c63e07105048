// The contract of a log, where messages become durable before anything else happens to them.

import type { Envelope } from '../transformers/envelope.ts'

/** A header besides those of the envelope. Names may repeat. */
export interface Header {
  readonly key: string
  /** Bytes if they are not UTF-8; null is a header without a value. */
  readonly value: string | Uint8Array | null
}

/** A message to append. `channel` is its key, so the messages of a channel keep their order; an empty one means no key. */
export interface OutgoingMessage extends Readonly<Envelope> {
  readonly payload: Uint8Array
  readonly headers?: readonly Header[]
  /**
   * The original key, null for none: for a dead letter whose envelope cannot be decoded. `headers` are then all headers that it had, and the envelope
   * is not written.
   */
  readonly key?: Uint8Array | null
  /** In Kafka the record then has no value, so that a compacted topic forgets its key. The payload is empty. */
  readonly isTombstone?: true
}

/** What a message costs in a queue in addition to its payload and texts. */
const messageOverheadBytes = 256

/** The bytes that a message counts for in bounded queues. */
export function messageSize({ channel, subtopic, publisher, headers, payload, key }: OutgoingMessage): number {
  let bytes = messageOverheadBytes + payload.byteLength + channel.length + subtopic.length + publisher.length + (key?.byteLength ?? 0)
  if (headers !== undefined) for (const { key, value } of headers) bytes += key.length + (value?.length ?? 0)
  return bytes
}

/**
 * The bytes of the messages of one append, or why they can never be appended: one has no time, or they exceed the whole queue.
 *
 * @param name of the log
 */
export function appendSize(messages: readonly OutgoingMessage[], name: string, queueBytesMax: number): number | MessageRefusedError {
  let bytes = 0
  for (const message of messages) {
    if (!Number.isSafeInteger(message.createdUs) || !Number.isSafeInteger(message.createdRestNs))
      return new MessageRefusedError(`a message for the log ${name} has no time: give createdUs and createdRestNs as integers`)
    bytes += messageSize(message)
  }
  if (bytes <= queueBytesMax) return bytes
  return new MessageRefusedError(`an append of ${bytes} bytes exceeds the queue of the log ${name}, which has ${queueBytesMax} bytes`)
}

/** For one topic, an offset by partition. */
export type PartitionOffsets = ReadonlyMap<number, number>

/** How long a log keeps its messages; without a limit, as long as it exists. */
export interface LogRetention {
  /** The last message of each key stays until another one comes. */
  readonly isCompacted: boolean
  readonly keptMs?: number
  readonly keptBytes?: number
}

/** The position of a message in its log. */
export interface LogPosition {
  readonly partition: number
  readonly offset: number
}

/**
 * The log cannot accept messages now: its disk or broker is down, or its queue is full. Nothing was stored, unless `mayBeStored`: what a broker did that
 * no longer answers is unknown.
 */
export class LogUnavailableError extends Error {
  override readonly name = 'LogUnavailableError'
  readonly mayBeStored: boolean

  constructor(message: string, { mayBeStored = false, ...options }: ErrorOptions & { readonly mayBeStored?: boolean } = {}) {
    super(message, options)
    this.mayBeStored = mayBeStored
  }
}

/** The log can never accept this message: for example, it is larger than its topic allows, or it has no time. Retrying does not help. */
export class MessageRefusedError extends Error {
  override readonly name = 'MessageRefusedError'
}

export interface AppendOptions {
  /**
   * The messages, of one channel, are all stored or none of them, also after an error whose outcome is unknown; their offsets follow each other. In
   * Kafka they are one record batch, so they must fit into the topic's `max.message.bytes` together.
   */
  readonly isWhole?: boolean
}

export interface Log {
  /** The topic: `messages`. */
  readonly name: string
  /** Changes when the topic is recreated; offsets are valid only for one id. */
  readonly id: string

  /**
   * Resolves when every message is durable, with its position, in the order given; a crash right after loses none.
   * Order is kept between calls for messages of one channel.
   *
   * @throws LogUnavailableError if not all of the messages were stored; the sender may retry
   * @throws MessageRefusedError if one of them, or all together, can never be stored, which says nothing about the others
   * @throws SystemicError if the log refuses every message until a person corrects its settings or a clock
   */
  append(messages: readonly OutgoingMessage[], options?: AppendOptions): Promise<LogPosition[]>

  /** Waits for appends in flight; later ones are refused. A second call does nothing. */
  close(): Promise<void>
}
