// The contract of a source: one worker's share of the log, in bounded chunks.

import type { Positions } from '../sinks/sink.ts'
import type { Envelope } from '../transformers/envelope.ts'
import type { LogPartition } from '../transformers/log-partition.ts'
import type { Header } from './log.ts'

/** Why a message becomes a dead letter before its payload is decoded. */
export interface MessageFault {
  readonly rule: string
  readonly reason: string
  readonly hint: string
  /** Channel and subtopic are known nevertheless: if no subject matches, the message is filtered and does not become a dead letter. */
  readonly subjectKnown?: true
  /** The part of the envelope that is at fault; absent if it is the message as a whole. */
  readonly part?: EnvelopePart
}

/** The parts that a topic may have elsewhere than Sluice writes them. */
export type EnvelopePart = 'channel' | 'publisher' | 'subtopic' | 'contentType' | 'created'

/** A message in the log. The cursor overwrites the object at each step: copy what you keep. */
export interface RawMessage extends Envelope {
  offset: number
  /** Set if the envelope cannot be decoded, for example without a key. Unknown parts of the envelope are then empty or 0. */
  fault: MessageFault | undefined
  payload: Uint8Array
}

const noBytes = new Uint8Array(0)

/** A cursor's message before the first step: one object of one shape for the whole chunk. */
export function emptyMessage(): RawMessage {
  return {
    offset: -1,
    fault: undefined,
    channel: '',
    subtopic: '',
    publisher: '',
    protocol: '',
    contentType: '',
    createdUs: 0,
    createdRestNs: 0,
    payload: noBytes,
  }
}

/** Of a message. A header of two bytes takes a hundred in memory, and a compressed batch can contain millions. */
export const headersMaxDefault = 1000

/** The message has too many headers: none of them is read, or is in its dead letter. */
export const headerLimitRule = 'header-limit'

/** Its channel is unknown. */
export const noKey: MessageFault = {
  rule: 'no-key',
  reason: 'the message has no key',
  hint: 'give the channel id as the key',
  part: 'channel',
}

/** The payload is larger than the writer's limit. */
export function payloadSizeFault(bytes: number, bytesMax: number): MessageFault {
  return { rule: 'payload-size', reason: `the payload's ${bytes} bytes exceed the limit of ${bytesMax}`, hint: 'send smaller packs' }
}

/**
 * The time of a message is not one, or is out of range. The range is the same wherever a time is read: its microseconds are exact in a double, and
 * its nanoseconds then fit into 64 bits, in the header of a dead letter as in a store.
 *
 * @param from what it was read from: `the field at`
 */
export function createdFault(from: string, hint: string): MessageFault {
  return {
    rule: 'created',
    reason: `${from} is not a time within 2^53 microseconds of 1970 (1684-07-28 to 2255-06-05)`,
    hint: `${hint}; leave it out if it is not set`,
    subjectKnown: true,
    part: 'created',
  }
}

/** Levels of a topic of MQTT, from 1: to the last one if that is undefined. */
export interface TopicLevels {
  readonly first: number
  readonly last: number | undefined
}

/**
 * The parts of the present message as they are in a Kafka record, for a topic whose envelope has another layout. Texts are null if there is none or
 * it is empty, and undefined if it is not UTF-8.
 */
export interface RecordParts {
  keyText(): string | null | undefined
  /** Of repeated headers the last one counts. */
  headerText(name: Uint8Array): string | null | undefined
  /** For messages whose topics differ; absent if all have that of the chunk. @param levels undefined for the whole topic */
  topicText?(levels: TopicLevels | undefined): string | null
  /** The timestamp in whole microseconds, 0 without one; undefined if it is beyond 2^53. */
  timestampUs(): number | undefined
  /** The first fault of the message that does not concern one of these parts. */
  faultOutside(parts: ReadonlySet<EnvelopePart>): MessageFault | undefined
}

/** Steps through the messages of a chunk, in the order of the log. */
export interface RawCursor {
  /** The message that `next` moved to. */
  readonly message: RawMessage
  /** Moves to the next message; false at the end. */
  next(): boolean
  /** The key of this message, unchanged; null if it has none. For dead letters, not for the hot path. */
  key(): Uint8Array | null
  /** All headers of this message, unchanged, including the envelope's. For dead letters, not for the hot path. */
  headers(): Header[]
  /** Whether it has the header `retainHeader`; absent where none has. For messages that are followed, not for the hot path. */
  isRetained?(): boolean
  /**
   * The value of this message, unchanged, if the message was decoded from it: its envelope is then in the value too, not in the headers. Absent if
   * the payload is the value. For dead letters, not for the hot path.
   */
  value?(): Uint8Array
  /** Absent in logs that only Sluice writes. */
  readonly parts?: RecordParts
}

/** Half-open: `[from, to)`. */
export interface OffsetRange {
  readonly from: number
  readonly to: number
}

/**
 * Consecutive messages of one partition. A chunk owns its bytes (it keeps no larger fetch in memory) and can be walked more than once: messages that
 * a store refuses are found again by their offset.
 */
export interface RawChunk {
  readonly at: LogPartition
  /** The chunk covers the offsets `[from, to)`; those without a message are gaps. */
  readonly from: number
  readonly to: number
  /** How many offsets from `from` on had messages that the log deleted unread; absent for none. The store counts them with the batch. */
  readonly lost?: number
  /**
   * The offsets that never had a message: transaction markers, and messages of aborted transactions. In order; absent for none. At every other offset
   * without a message the log has deleted it, as a compacted topic does.
   */
  readonly markers?: readonly OffsetRange[]
  /** The chunk's memory. */
  readonly byteLength: number
  cursor(): RawCursor
}

export interface Source {
  /**
   * The worker's share of the log from where the store says to resume (see `StartAt`), chunk by chunk. In each partition the chunks are contiguous: a
   * chunk's `from` is the `to` of the previous one, and the first one's is the offset to resume at, so messages that the log lost before it are a
   * gap. Waits for new messages at the end of the log. Reads from the log only while a chunk is requested, which is the back-pressure. Ends after
   * `signal` aborts, and when the worker's share of the log changes. When it is called again after that, it waits for a share and asks for the
   * positions again. Messages that were given and are not below the positions then come again, here or at another worker: sinks store them once
   * (`test/conformance/sink/again.ts`).
   *
   * @param onStart called with the positions as soon as the store and the log have reported them, possibly long before the first chunk. `revoked`
   *   aborts when the share is revoked, with the error as its reason if a failure caused that: what is in flight then belongs to others, and is
   *   neither retried nor committed. `ends` are the ends of the log as far as known
   * @param onShare called with the committed offsets before the store, which may be down, is asked for positions; only by sources that have shares
   * @throws SystemicError if the log no longer has what the store needs next
   * @throws LogUnavailableError if the log cannot be read now; `commit` throws it as well
   */
  chunks(signal: AbortSignal, onStart?: OnStart, onShare?: OnShare): AsyncIterable<RawChunk>

  /**
   * The present ends of the partitions of the worker's share, by one request to each broker; without those whose broker does not answer, and empty
   * before there is a share.
   *
   * @throws LogUnavailableError if the log does not answer
   */
  ends(): Promise<Positions>

  /**
   * Tells the log that everything below is stored or dead-lettered. Never goes back, and ignores partitions that no longer belong to the worker.
   */
  commit(positions: Positions): Promise<void>

  close(): Promise<void>
}

export type OnShare = (committed: Positions, revoked: AbortSignal) => void
export type OnStart = (positions: Positions, revoked: AbortSignal, ends: Positions) => void

/**
 * Called by the source for the partitions that it was assigned, if the store keeps its positions itself. A partition that such a store does not know
 * begins at the start of the log, whatever was committed there: a store that was lost and created again gets everything that the log still has.
 * Without a `StartAt` a source resumes at the log's committed offset, or at its start.
 */
export type StartAt = (of: readonly LogPartition[]) => Promise<Positions>
