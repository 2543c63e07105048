// Where a record set ends in the log, by the heads of its batches alone: the offset to fetch next.

import { int64At, lengthBytes, lengthMin, place } from '../batch-header.ts'

const magicOfBatches = 2
const lastOffsetDeltaAt = 23

/**
 * The offset behind the last batch that lies whole in the set, or `next` where that is more. What is wrong with the set is found by who
 * decodes it.
 */
export function endOf(set: Uint8Array, next: number): number {
  const view = new DataView(set.buffer, set.byteOffset, set.byteLength)
  let end = next
  let at = 0
  while (set.length - at > place.magic) {
    const length = view.getInt32(at + place.length)
    if (length < lengthMin || at + lengthBytes + length > set.length) break
    const isBatch = view.getInt8(at + place.magic) === magicOfBatches && length >= lastOffsetDeltaAt + 4 - lengthBytes
    // In the older formats it is the offset of the message, which of messages compressed together is that of the last.
    const last = int64At(view, at) + (isBatch ? view.getInt32(at + lastOffsetDeltaAt) : 0)
    end = Math.max(end, last + 1)
    at += lengthBytes + length
  }
  return end
}
