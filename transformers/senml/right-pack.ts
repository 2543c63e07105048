// Decodes a pack only to know that it is right, before it is converted.

import { type MessageOrigin, RecordBatch } from '../record-batch.ts'
import type { TimeBounds } from '../time-bounds.ts'
import type { Transformer } from '../transformer.ts'

/** A clock that is wrong is no reason not to convert. */
export const anyTime: TimeBounds = { timeMinUs: Number.NEGATIVE_INFINITY, timeAheadMaxUs: Number.POSITIVE_INFINITY }

const nobody: MessageOrigin = { partition: 0, offset: 0, channel: '', subtopic: '', publisher: '', protocol: '' }

/** @throws DecodeError where the pack breaks a rule of the transformer */
export function assertRight(transformer: Transformer, payload: Uint8Array): void {
  const batch = new RecordBatch()
  batch.beginMessage(nobody)
  transformer.decode(payload, { ...nobody, contentType: '', createdUs: 0, createdRestNs: 0 }, batch)
}
