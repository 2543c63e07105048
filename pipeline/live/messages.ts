// The contract of live messages: what one who follows a channel needs from the log.

import { hash } from 'node:crypto'
import type { RecordBatch } from '../../transformers/record-batch.ts'
import type { RawMessage } from '../source.ts'

/** An offset in a stream of the log: everything before it was sent. */
export interface StreamOffset {
  /** Identifies the log, 16 hexadecimal digits: a recreated log has others. */
  readonly log: string
  /** The offset of the next message, by partition. */
  readonly offsets: readonly number[]
  /** How many rows of the next message of this partition were sent, in the order of its batch; 0 if it was not started. */
  readonly partition: number
  readonly rows: number
}

/** Identifies a log in offsets, by its id. Short, because it is part of each. */
export function logTag(id: string): string {
  return hash('sha256', id, 'hex').slice(0, 16)
}

/**
 * The offset after this many rows of a message.
 *
 * @param offsets the offset of the next message by partition; in the message's own partition its own offset
 */
export function streamOffsetBehind(
  rows: number,
  { batch, partition, offset }: LiveMessage,
  log: string,
  offsets: readonly number[],
): StreamOffset {
  if (rows < batch.rowCount) return { log, offsets, partition, rows }
  // Not inside the message: otherwise it would count as lost if the retention deletes it.
  return { log, offsets: offsets.with(partition, offset + 1), partition, rows: 0 }
}

/** A message. All followers of its channel get the same object, which never changes. */
export interface LiveMessage {
  readonly partition: number
  readonly offset: number
  /** As it is in the log. */
  readonly raw: Readonly<RawMessage>
  /** It was published over MQTT with the retain flag. */
  readonly isRetained: boolean
  /** Its rows, all of them records or all documents: decoded when they are first asked for. None if it is empty, undecodable, or not subscribed to. */
  readonly batch: RecordBatch
  /** For `oncePerMessage`. A map beside thousands of messages a second would hold up the process when memory is collected. */
  readonly made: object[]
}

let makers = 0

/** @returns `make`, called once for each message: what it returns is kept as long as the message, for all who follow its channel */
export function oncePerMessage<Made extends object>(make: (message: LiveMessage) => Made): (message: LiveMessage) => Made {
  const own = makers++
  return message => (message.made[own] ??= make(message)) as Made
}

export interface Follower {
  /** How many parts a message has for this follower, which are taken one after the other: its rows, or 1 for a message as a whole. */
  partsOf(message: LiveMessage): number
  /**
   * Takes the parts `[first, end)` of a message, synchronously. Parts that do not match count as taken.
   *
   * @param offsets the offset of the next message by partition; in the message's own partition its own offset. Valid until the call returns
   * @returns the number of the first part that it did not take for lack of room; `end` if it took all
   */
  take(message: LiveMessage, first: number, end: number, offsets: readonly number[]): number
  /** undefined while it has room; otherwise resolves when it has room again, or was stopped. */
  space(): Promise<void> | undefined
  /**
   * The log deleted messages that were not sent: what comes next is after them.
   *
   * @param shortened lost its last messages: what comes from its end on has offsets that were sent before
   */
  lost(shortened?: { readonly partition: number; readonly end: number }): void
  /** No more messages follow, because the log cannot be followed. */
  end(): void
}

export interface Following {
  /** Identifies the log, as in its offsets. */
  readonly log: string
  /** Messages after the requested offset are no longer in the log, or it is another log. */
  readonly lost: boolean
  /** Starts sending. Called once. */
  start(follower: Follower): void
  streamOffset(): StreamOffset
  /** Nothing is sent afterwards. A second call does nothing. */
  stop(): void
}

/** The log cannot be followed now; the caller may retry. */
export class LiveUnavailableError extends Error {
  override readonly name = 'LiveUnavailableError'
}

/**
 * Messages as they are written to the log, for streams of rows and for subscribers of MQTT. In each partition they come in the order of the log, each
 * exactly once as long as the log has what comes after the place.
 */
export interface LiveMessages {
  /**
   * Follows a channel.
   *
   * @param after where to resume; undefined: with messages written from now on
   * @throws LiveUnavailableError
   */
  follow(channel: string, after: StreamOffset | undefined): Promise<Following>
}

/** The offset of the next message of a channel, by partition. @throws LiveUnavailableError */
export async function endsOf(live: LiveMessages, channel: string): Promise<readonly number[]> {
  const following = await live.follow(channel, undefined)
  following.stop()
  return following.streamOffset().offsets
}
