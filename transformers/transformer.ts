// The contract of a transformer, which decodes the bytes of one payload into a batch.

import type { Envelope } from './envelope.ts'
import type { RecordBatch } from './record-batch.ts'

/**
 * A transformer is pure and synchronous: no driver, logger, clock or configuration. It reads `payload` without
 * changing or keeping it, and appends records or documents to the message that the caller has begun in `batch`
 * (`batch.beginMessage`).
 * The caller guarantees that `payload` is at most as large as configured. If a transformer throws, the caller
 * rolls the batch back to the start of the message, so it may throw half-way.
 * A transformer guarantees for its rows, so that no store has to check again: times are within the bounds that it was opened
 * with, numbers are finite, and text contains neither a NUL nor a lone surrogate.
 *
 * Appending nothing is valid: the message was empty.
 */
export interface Transformer {
  /**
   * False for a message that another writer takes: it is filtered, whatever its payload. Absent: it takes all.
   */
  takes?(payload: Uint8Array, envelope: Envelope): boolean

  /** @throws DecodeError if the payload breaks a rule of its format; never throws anything else. */
  decode(payload: Uint8Array, envelope: Envelope, batch: RecordBatch): void
}

/** Which times rows may have, in whole microseconds. The bounds are always limited to ±2^53 µs, the range that a row can store exactly. */
export interface TimeBounds {
  /** The earliest time, since 1970. SenML treats times below 2^28 s as relative (RFC 8428 §4.5.3), so they cannot be absolute there. */
  timeMinUs: number
  /** How far a time may be after the time of receipt. */
  timeAheadMaxUs: number
}

/** From 2^28 seconds (July 1978) to 366 days after the message was received. */
export const defaultTimeBounds: TimeBounds = { timeMinUs: 2 ** 28 * 1e6, timeAheadMaxUs: 366 * 86_400 * 1e6 }
