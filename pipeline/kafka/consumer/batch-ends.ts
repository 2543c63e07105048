// Finds the end offset of a record set, the next one to fetch, from the heads of its batches only.

import { fieldAt, int64At, lengthBytes, lengthMin } from '../records/batch-header.ts'

const magicOfBatches = 2
const lastOffsetDeltaAt = 23

/**
 * The offset after the last complete batch of the set, or `next` if that is larger. Faults of the set are detected later, when it is
 * decoded.
 */
export function endOf(set: Uint8Array, next: number): number {
  const view = new DataView(set.buffer, set.byteOffset, set.byteLength)
  let end = next
  let at = 0
  while (set.length - at > fieldAt.magic) {
    const length = view.getInt32(at + fieldAt.length)
    if (length < lengthMin || at + lengthBytes + length > set.length) break
    const isBatch = view.getInt8(at + fieldAt.magic) === magicOfBatches && length >= lastOffsetDeltaAt + 4 - lengthBytes
    // In the older formats this is the offset of the message, or for a compressed set that of its last message.
    const last = int64At(view, at) + (isBatch ? view.getInt32(at + lastOffsetDeltaAt) : 0)
    end = Math.max(end, last + 1)
    at += lengthBytes + length
  }
  return end
}
