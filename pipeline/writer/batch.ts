// Divides the chunks of a source into batches, by rows, bytes or age; each is decoded and covers a contiguous range of the log.

import type { Rejection } from '../../sinks/sink.ts'
import type { LogPartition } from '../../transformers/log-partition.ts'
import { initialCapacity, RecordBatch } from '../../transformers/record-batch.ts'
import type { BatchOptions } from '../options.ts'
import type { RawChunk, RawCursor } from '../source.ts'
import type { Decoder } from './decode.ts'

/** A batch for the sink. */
export interface PendingBatch {
  readonly batch: RecordBatch
  /** The chunks of its messages, to find the raw message of a rejection again. */
  readonly chunks: RawChunk[]
  /** The messages that could not be decoded, which are dead-lettered before the batch is written. */
  readonly rejections: Rejection[]
  /** By log and partition, when its first message in the batch was created, in microseconds since 1970; 0 if that is unknown. */
  readonly firstCreatedUs: Map<LogPartition, number>
  /** Of payloads, with a constant for each message. */
  bytes: number
  /** The memory of the chunks, including keys and headers. */
  heldBytes: number
}

/** What a message counts in addition to its payload, so that empty ones fill a batch, too. */
const messageOverheadBytes = 256

/** A batch with room for this many times its rows was made for rare messages, and is not reused for others. */
const capacityFactorMax = 8

/** Settled batches, which are reused, since creating the columns of one costs as much as a tenth of decoding its messages. */
export type Spares = RecordBatch[]

/** Keeps the batch for reuse. It is settled, so neither it nor what was encoded from it may be read afterwards. */
export function spare(spares: Spares, { batch }: PendingBatch, { rows }: BatchOptions): void {
  if (batch.capacity > Math.max(rows, initialCapacity) * capacityFactorMax) return
  batch.clear()
  spares.push(batch)
}

const late = Symbol('the age of the batch is reached before the next chunk')

/**
 * The batches of a source's chunks, in order. A batch is complete when it has `rows` or `bytes`, which its last message may exceed, when its chunks
 * have that many bytes, or `ageMs` after its first message; what is left when the chunks end is the last batch. A batch without rows is returned as
 * well, since its positions advance. Requests a chunk only while a batch is requested. Uses `spares` before it creates a batch.
 *
 * Ending it early waits for the requested chunk: abort the signal of the chunks first.
 */
export async function* batches(
  chunks: AsyncIterable<RawChunk>,
  decoder: Decoder,
  limits: BatchOptions,
  spares: Spares = [],
): AsyncGenerator<PendingBatch, void, undefined> {
  const iterator = chunks[Symbol.asyncIterator]()
  let asked: Promise<IteratorResult<RawChunk>> | undefined
  let pending = emptyBatch(spares)
  let startedMs = 0
  try {
    while (true) {
      if (asked === undefined) {
        asked = iterator.next()
        // It is awaited below, but perhaps only after the batch that is due has been taken.
        asked.catch(() => undefined)
      }
      const result = isEmpty(pending) ? await asked : await beforeAge(asked, startedMs + limits.ageMs - performance.now())
      if (result === late) {
        yield pending
        pending = emptyBatch(spares)
        continue
      }
      asked = undefined
      if (result.done === true) break
      const chunk = result.value
      const cursor = chunk.cursor()
      let from = chunk.from
      // Lost messages are at the beginning of a batch's range, so that a store can tell whether they were counted before.
      if ((chunk.lost ?? 0) > 0 && !isEmpty(pending)) {
        yield pending
        pending = emptyBatch(spares)
      }
      while (from < chunk.to) {
        if (isEmpty(pending)) startedMs = performance.now()
        from = fill(pending, chunk, cursor, from)
        // A chunk that is divided belongs to both batches, so its memory only counts at its end.
        if (!isFull(pending) && pending.heldBytes < limits.bytes) break
        yield pending
        pending = emptyBatch(spares)
      }
    }
    if (!isEmpty(pending)) yield pending
  } finally {
    await iterator.return?.()
  }

  /** Decodes messages of the chunk into the batch until it is full or the chunk ends; returns the offset to continue at. */
  function fill(pending: PendingBatch, chunk: RawChunk, cursor: RawCursor, from: number): number {
    const { batch, rejections, firstCreatedUs } = pending
    const { message } = cursor
    let isFirst = !firstCreatedUs.has(chunk.at)
    pending.chunks.push(chunk)
    pending.heldBytes += chunk.byteLength
    let to = chunk.to
    while (cursor.next()) {
      const rejection = decoder.decode(message, chunk.at, batch)
      if (rejection !== undefined) rejections.push(rejection)
      pending.bytes += message.payload.byteLength + messageOverheadBytes
      if (isFirst) {
        firstCreatedUs.set(chunk.at, message.createdUs)
        isFirst = false
      }
      if (isFull(pending)) {
        to = message.offset + 1
        break
      }
    }
    batch.cover(chunk.at, from, to, from === chunk.from ? chunk.lost : 0)
    return to
  }

  function isFull({ batch, bytes }: PendingBatch): boolean {
    return batch.rowCount >= limits.rows || bytes >= limits.bytes
  }
}

function emptyBatch(spares: Spares): PendingBatch {
  return { batch: spares.pop() ?? new RecordBatch(), chunks: [], rejections: [], firstCreatedUs: new Map(), bytes: 0, heldBytes: 0 }
}

function isEmpty({ batch }: PendingBatch): boolean {
  return batch.ranges.length === 0
}

/** The next chunk, or `late` if it does not come within `waitMs`. */
async function beforeAge(asked: Promise<IteratorResult<RawChunk>>, waitMs: number): Promise<IteratorResult<RawChunk> | typeof late> {
  if (waitMs <= 0) return late
  const age = Promise.withResolvers<typeof late>()
  const timer = setTimeout(age.resolve, waitMs, late)
  try {
    return await Promise.race([asked, age.promise])
  } finally {
    clearTimeout(timer)
  }
}
