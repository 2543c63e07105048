// The contract of a store of retained messages: of each topic the newest message that was published with the retain flag (MQTT 5 §3.3.1.3).
//
// A retained message is one of the log like any other, and is kept once the log has it: the one that is later in the log is the newer one, whoever is first
// to save it. All are in memory.

import type { Qos } from '../sessions/store.ts'

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

export interface RetainedStore {
  /** Checks the bounds; messages that are on their way are not counted. @throws HttpError `too_large`, `too_many_requests` */
  check(topic: RetainedTopic, payloadBytes: number): void
  get(topic: RetainedTopic): RetainedMessage | undefined
  /** Those of a channel, which may change meanwhile. */
  messagesOf(channel: string): Iterable<RetainedMessage>
  /** Those that have messages. */
  channels(): Iterable<string>
  /** Resolves when everything is in memory that is durable now. @throws LogUnavailableError */
  ready(): Promise<void>
  /**
   * Keeps a message in place of the one before, unless that is later in the same log. Resolves when it is durable.
   *
   * @throws LogUnavailableError
   */
  keep(message: RetainedMessage): Promise<void>
  /** Nothing is kept of the topic. Resolves when that is durable. @throws LogUnavailableError */
  clear(topic: RetainedTopic): Promise<void>
  /** Waits for what is being saved; later calls reject. A second call does nothing. */
  close(): Promise<void>
}
