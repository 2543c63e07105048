// The contract of a source: one worker's share of the log, handed out in bounded runs.

import type { Positions } from '../sinks/sink.ts'
import type { Envelope } from '../transformers/envelope.ts'
import type { Header } from './log.ts'

/** Why a message is a dead letter before its payload is looked at. */
export interface MessageFault {
  readonly rule: string
  readonly reason: string
  readonly hint: string
  /** The channel and the subtopic are known all the same: what no subject matches is filtered, and nobody's dead letter. */
  readonly subjectKnown?: true
}

/** A message as the log holds it. The cursor overwrites it at each step: copy out what you keep. */
export interface RawMessage extends Envelope {
  offset: number
  /** Set where the envelope cannot be read: there is no key, say. What is then unknown of the envelope is empty or 0. */
  fault: MessageFault | undefined
  payload: Uint8Array
}

const noBytes = new Uint8Array(0)

/** What a cursor begins with, before its first step: one object of one shape for the whole run. */
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

/** Its channel is unknown. */
export const noKey: MessageFault = { rule: 'no-key', reason: 'the message has no key', hint: 'give the channel id as the key' }

/** Steps through the messages of a run, in the order of the log. */
export interface RawCursor {
  /** The message that `next` moved to. */
  readonly message: RawMessage
  /** Moves on; false at the end. */
  next(): boolean
  /** The key of this message, untouched; null where it has none. Not for the hot path: for dead letters. */
  key(): Uint8Array | null
  /** All headers of this message, untouched, those of the envelope too. Not for the hot path: for dead letters. */
  headers(): Header[]
  /**
   * The value of this message, untouched, where the message at hand was read out of it: its envelope, too, lies inside and not in the
   * headers. Absent where the payload is the value. Not for the hot path: for dead letters.
   */
  value?(): Uint8Array
}

/**
 * Messages of one partition that lie together. A run owns its bytes (nothing of a larger fetch is kept alive by it) and can
 * be walked more than once: what a store refuses is found again by its offset.
 */
export interface RawRun {
  readonly partition: number
  /** The run covers the offsets `[from, to)`; those without a message are gaps. */
  readonly from: number
  readonly to: number
  /** So many offsets from `from` on held messages that the log deleted unread; absent: none. The store counts them with the batch. */
  readonly lost?: number
  /** What the run holds in memory. */
  readonly byteLength: number
  cursor(): RawCursor
}

export interface Source {
  /**
   * The worker's share of the log from where the store says to go on (see `StartAt`), run after run, each partition
   * contiguous: a run's `from` is the `to` of the partition's run before, and the first run's is the offset to go on at, so that
   * what the log lost before it is a gap. Waits for new messages at the end of the log. Takes nothing
   * from the log while nobody asks: back-pressure is not asking. Ends after `signal` aborts, and where the worker's share of the
   * log changes. Called again after it ended, it waits for a share and asks for the positions anew.
   *
   * @param onStart told where it goes on, as soon as the store and the log have said so: before the first run, which may be far.
   * `revoked` aborts when the share is taken away, with the failure as its reason where it was lost by one: what is in flight belongs to
   * others then, and is neither tried again nor committed. `ends` is where the log ended, as far as it has said
   * @param onShare told what was committed, before the store is asked where to go on: it may be away. By a source that has shares
   * @throws SystemicError when the log no longer holds what the store needs next
   * @throws LogUnavailableError when the log cannot be read now; so does `commit`
   */
  runs(signal: AbortSignal, onStart?: OnStart, onShare?: OnShare): AsyncIterable<RawRun>

  /** The partition's first offset that is still there, and the one that the next message will get. */
  bounds(partition: number): Promise<{ start: number; end: number }>

  /**
   * Where each partition of the worker's share ends now, in one request to each broker; without those whose broker does not answer, and
   * empty before there is a share.
   *
   * @throws LogUnavailableError where the log does not answer
   */
  ends(): Promise<Positions>

  /**
   * Tells the log that everything below is stored or dead-lettered. Never goes back, and says nothing of partitions that are no
   * longer the worker's.
   */
  commit(positions: Positions): Promise<void>

  close(): Promise<void>
}

export type OnShare = (committed: Positions, revoked: AbortSignal) => void
export type OnStart = (positions: Positions, revoked: AbortSignal, ends: Positions) => void

/**
 * Asked by the source for the partitions it was given, where the store keeps its positions itself. A partition that such a store
 * does not know begins at the start of the log, whatever was committed there: a store that was lost and made anew gets back
 * everything that the log still holds. Without a `StartAt` a source goes on at the log's committed offset, else at its start.
 */
export type StartAt = (partitions: readonly number[]) => Promise<Positions>
