// The sink for stores without transactions. A row's key is made of its message's position, so writing it again overwrites it.
//
// It keeps no positions: a writer resumes at the offset committed to the log, and commits only after the write. What differs between stores is behind
// the interface `KeyedStore`.

import { setMaxListeners } from 'node:events'
import type { Range, RecordBatch } from '../transformers/record-batch.ts'
import { type CountedMessages, countMessages } from './counts.ts'
import { checkNumbers } from './logs.ts'
import { acknowledge, noRejections, type Rejections } from './rejections.ts'
import type { ErrorClass, MessageCounts, Reject, Sink } from './sink.ts'

/** What `write` needs of every batch, without its strings, and what earlier attempts have found out, for the next one. */
export interface KeyedBatch extends Rejections {
  readonly messages: CountedMessages
  readonly ranges: readonly Range[]
}

/** Copies what is needed of a batch, since the caller reuses the batch after the write. */
export function keyedBatch({ messages, ranges }: RecordBatch): KeyedBatch {
  const { length, at, offset, outcome } = messages
  return { messages: { length, at, offset, outcome }, ranges: ranges.map(range => ({ ...range })), ...noRejections() }
}

/** One store, for one sink. `Prepared` is what `prepare` passes to `insert`. */
export interface KeyedStore<Encoded extends KeyedBatch, Prepared = void> {
  /** Pure: see `Sink.encode`. Adds to `rejected` what the store can never store. */
  encode(batch: RecordBatch): Encoded
  release?(encoded: Encoded): void
  /** Creates what the batch's formats need, and adds to `rejected` what is refused before any row is sent. */
  prepare(encoded: Encoded, signal: AbortSignal): Promise<Prepared>
  /**
   * Resolves when every row of every message that is not rejected is durable. Adds to `rejected` the messages with a row that the server refuses.
   *
   * @returns the messages whose rows were all stored before, where the store reports that
   */
  insert(encoded: Encoded, prepared: Prepared, signal: AbortSignal): Promise<ReadonlySet<number> | undefined>
  /**
   * Called when an attempt failed and its signal did not cause that. Clears what is cached. Returns if the write should be retried at once; otherwise
   * throws the error, with what to do about it.
   */
  failed(error: unknown, attempt: number, signal: AbortSignal): Promise<void>
  classify(error: unknown): ErrorClass
}

export function openKeyedSink<Encoded extends KeyedBatch, Prepared>(
  store: KeyedStore<Encoded, Prepared>,
  { logNumbers, takeNumbers }: Pick<Sink, 'logNumbers' | 'takeNumbers'>,
): Sink<Encoded> {
  let underWay: Promise<unknown> = Promise.resolve()
  let closed = false

  async function write(encoded: Encoded, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    const { messages, ranges, rejected } = encoded
    const prepared = await store.prepare(encoded, signal)
    // Messages that are known to be refused get their dead letters before any row of the batch can be read.
    await acknowledge(encoded, reject, signal)
    const duplicates = await store.insert(encoded, prepared, signal)
    await acknowledge(encoded, reject, signal)
    return countMessages(messages, ranges, rejected, undefined, duplicates)
  }

  async function writeUntilDone(encoded: Encoded, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    signal.throwIfAborted()
    // The requests of this write have a signal of their own, since many may share the caller's.
    const aborted = new AbortController()
    setMaxListeners(0, aborted.signal)
    const onAbort = (): void => aborted.abort(signal.reason)
    signal.addEventListener('abort', onAbort)
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          return await write(encoded, reject, aborted.signal)
        } catch (error) {
          signal.throwIfAborted()
          await store.failed(error, attempt, aborted.signal)
        }
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  return {
    logNumbers,
    takeNumbers,
    encode(batch) {
      checkNumbers(logNumbers, batch)
      return store.encode(batch)
    },
    release: encoded => store.release?.(encoded),
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      const writing = writeUntilDone(encoded, reject, signal)
      underWay = writing.catch(() => undefined)
      return await writing
    },
    classify: error => store.classify(error),
    async close() {
      closed = true
      await underWay
    },
  }
}
