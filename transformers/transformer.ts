// The contract of a transformer: from the bytes of one payload to records in a batch.

import type { Envelope } from './envelope.ts'
import type { RecordBatch } from './record-batch.ts'

/**
 * A transformer is pure and synchronous: no driver, logger, clock or configuration. It reads `payload`, which it neither
 * changes nor keeps, and appends to `batch` the records or documents of the message that the caller has begun there
 * (`batch.beginMessage`).
 *
 * What the caller guarantees: `payload` is at most the size that the pipeline is configured for; on a throw the caller
 * rolls the batch back to where the message began, so a transformer may throw half-way.
 *
 * What a transformer guarantees of its rows, so that no store has to look again: times lie within the bounds that it was opened
 * with, numbers are finite, and text holds neither a NUL nor a lone surrogate.
 *
 * Appending nothing is valid: the message was empty.
 */
export interface Transformer {
  /** @throws DecodeError when the payload breaks a rule of its format; nothing else is ever thrown. */
  decode(payload: Uint8Array, envelope: Envelope, batch: RecordBatch): void
}
