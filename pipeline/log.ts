// The contract of a log: where messages become durable before anything else is done with them.

import type { Envelope } from '../transformers/envelope.ts'

/** A header beside those of the envelope. Names may repeat. */
export interface Header {
  readonly key: string
  /** Bytes where they are not UTF-8; null is a header without a value. */
  readonly value: string | Uint8Array | null
}

/** A message on its way into the log. `channel` is its key, so the messages of a channel keep their order; an empty one is no key. */
export interface OutgoingMessage extends Readonly<Envelope> {
  readonly payload: Uint8Array
  readonly headers?: readonly Header[]
  /**
   * The key as it was, null for none: of a dead letter whose envelope cannot be read. `headers` are then all that it had, and nothing
   * of the envelope is written.
   */
  readonly key?: Uint8Array | null
}

/** What a message costs in a queue beside its payload and texts. */
const messageOverheadBytes = 256

/** The bytes that a message is counted with where what waits is bounded. */
export function messageSize({ channel, subtopic, publisher, headers, payload, key }: OutgoingMessage): number {
  let bytes = messageOverheadBytes + payload.byteLength + channel.length + subtopic.length + publisher.length + (key?.byteLength ?? 0)
  if (headers !== undefined) for (const { key, value } of headers) bytes += key.length + (value?.length ?? 0)
  return bytes
}

/** Where a message lies in its log. */
export interface LogPosition {
  readonly partition: number
  readonly offset: number
}

/**
 * The log cannot take messages now: its disk or broker is away, or what waits has reached its bound. Nothing was kept, as far as can be
 * known: what a broker did that no longer answers cannot be.
 */
export class LogUnavailableError extends Error {
  override readonly name = 'LogUnavailableError'
}

/** The log can never take this message: it is larger than its topic allows, say. To send it again is of no use. */
export class MessageRefusedError extends Error {
  override readonly name = 'MessageRefusedError'
}

export interface Log {
  /** The topic: `messages`. */
  readonly name: string
  /** Changes when the topic is made anew: offsets of another id say nothing about this one. */
  readonly id: string

  /**
   * Resolves when every message is durable, with its position, in the order given; a crash right after loses none.
   * Order is kept between calls for messages of one channel.
   *
   * @throws LogUnavailableError when the messages were not taken; the sender may try again
   * @throws MessageRefusedError when one of them can never be taken, which says nothing of the others
   */
  append(messages: readonly OutgoingMessage[]): Promise<LogPosition[]>

  /** Waits for appends under way; what comes after is refused. A second call does nothing. */
  close(): Promise<void>
}
