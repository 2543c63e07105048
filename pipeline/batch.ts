// Cuts the runs of a source into batches, by rows, bytes or age, each decoded and covering a contiguous range of the log.

import type { Rejection } from '../sinks/sink.ts'
import { initialRoom, RecordBatch } from '../transformers/record-batch.ts'
import type { Decoder } from './decode.ts'
import type { BatchOptions } from './options.ts'
import type { RawCursor, RawRun } from './source.ts'

/** A batch on its way to the sink. */
export interface PendingBatch {
  readonly batch: RecordBatch
  /** The runs that its messages come from, so that the raw message of a rejection is found again. */
  readonly runs: RawRun[]
  /** The messages that could not be decoded: to be dead-lettered before the batch is written. */
  readonly rejections: Rejection[]
  /** By partition, when its first message here was created, in microseconds since 1970; 0 where that is unknown. */
  readonly firstCreatedUs: Map<number, number>
  /** Of payloads, with what each message costs beside. */
  bytes: number
  /** What the runs hold in memory: keys and headers as well. */
  heldBytes: number
}

/** What a message counts beside its payload, so that empty ones fill a batch, too. */
const messageOverheadBytes = 256

/** A batch with room for so many times its rows was made for rare messages, and is not kept for others. */
const roomFactorMax = 8

/** Batches that were settled: filled anew, since making the columns of one costs as much as a tenth of decoding its messages. */
export type Spares = RecordBatch[]

/** Keeps the batch for another filling. Nobody may read it from now on: it is settled, and so is whatever was encoded from it. */
export function spare(spares: Spares, { batch }: PendingBatch, { rows }: BatchOptions): void {
  if (batch.room > Math.max(rows, initialRoom) * roomFactorMax) return
  batch.clear()
  spares.push(batch)
}

const late = Symbol('the age of the batch is reached before the next run')

/**
 * The batches of a source's runs, in order. A batch is cut when it has `rows` or `bytes`, which its last message may exceed, where the
 * runs that it holds on to have so many bytes, or `ageMs` after its first message; what is left when the runs end is the last batch. A batch without rows is handed on as well,
 * since the positions behind it advance. Asks for a run only while it is asked for a batch. Fills `spares` before it makes a batch.
 *
 * Ending it early waits for the run that it asked for: abort the signal of the runs first.
 */
export async function* batches(
  runs: AsyncIterable<RawRun>,
  decoder: Decoder,
  limits: BatchOptions,
  spares: Spares = [],
): AsyncGenerator<PendingBatch, void, undefined> {
  const iterator = runs[Symbol.asyncIterator]()
  let asked: Promise<IteratorResult<RawRun>> | undefined
  let pending = emptyBatch(spares)
  let startedMs = 0
  try {
    while (true) {
      if (asked === undefined) {
        asked = iterator.next()
        // It is awaited below, but perhaps not before the batch that is due has been taken.
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
      const run = result.value
      const cursor = run.cursor()
      let from = run.from
      // What is lost lies at the beginning of a batch's range, so that a store can tell whether it was counted before.
      if ((run.lost ?? 0) > 0 && !isEmpty(pending)) {
        yield pending
        pending = emptyBatch(spares)
      }
      while (from < run.to) {
        if (isEmpty(pending)) startedMs = performance.now()
        from = fill(pending, run, cursor, from)
        // A run that is cut is held by both batches, so that what it holds counts at its end only.
        if (!isFull(pending) && pending.heldBytes < limits.bytes) break
        yield pending
        pending = emptyBatch(spares)
      }
    }
    if (!isEmpty(pending)) yield pending
  } finally {
    await iterator.return?.()
  }

  /** Decodes messages of the run into the batch until it is full or the run ends; returns the offset to go on at. */
  function fill(pending: PendingBatch, run: RawRun, cursor: RawCursor, from: number): number {
    const { batch, rejections, firstCreatedUs } = pending
    const { message } = cursor
    let isFirst = !firstCreatedUs.has(run.partition)
    pending.runs.push(run)
    pending.heldBytes += run.byteLength
    let to = run.to
    while (cursor.next()) {
      const rejection = decoder.decode(message, run.partition, batch)
      if (rejection !== undefined) rejections.push(rejection)
      pending.bytes += message.payload.byteLength + messageOverheadBytes
      if (isFirst) {
        firstCreatedUs.set(run.partition, message.createdUs)
        isFirst = false
      }
      if (isFull(pending)) {
        to = message.offset + 1
        break
      }
    }
    batch.cover(run.partition, from, to, from === run.from ? run.lost : 0)
    return to
  }

  function isFull({ batch, bytes }: PendingBatch): boolean {
    return batch.rowCount >= limits.rows || bytes >= limits.bytes
  }
}

function emptyBatch(spares: Spares): PendingBatch {
  return { batch: spares.pop() ?? new RecordBatch(), runs: [], rejections: [], firstCreatedUs: new Map(), bytes: 0, heldBytes: 0 }
}

function isEmpty({ batch }: PendingBatch): boolean {
  return batch.ranges.length === 0
}

/** The next run, or `late` where it does not come within `waitMs`. */
async function beforeAge(asked: Promise<IteratorResult<RawRun>>, waitMs: number): Promise<IteratorResult<RawRun> | typeof late> {
  if (waitMs <= 0) return late
  const age = Promise.withResolvers<typeof late>()
  const timer = setTimeout(age.resolve, waitMs, late)
  try {
    return await Promise.race([asked, age.promise])
  } finally {
    clearTimeout(timer)
  }
}
