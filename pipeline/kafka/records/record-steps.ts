// Steps from record to record of a batch by their lengths (Kafka protocol guide, "Record"), so that chunks can be split without decoding records.
//
//   record   length varint · attributes int8 · timestampDelta varlong · offsetDelta varint · key · value · headers
//            length counts the bytes after it; the rest is in record-cursor.ts

import { readVarint, varint } from './varint.ts'

/** Set by `stepRecord`: the index of the record's key, the index after the record, and its offset relative to the batch. */
export const record = { bodyAt: 0, next: 0, offsetDelta: 0 }

const longBytesMax = 10

/**
 * Steps over the record at `at`; `end` is the end of all records.
 *
 * @returns false if there is none, or it is cut off: its parts do not fit into its length, or its length exceeds `end`
 */
export function stepRecord(bytes: Uint8Array, at: number, end: number): boolean {
  let body = readVarint(bytes, at)
  const length = varint.value
  // An odd one is negative; a truncated one is beyond the end.
  if ((length & 1) !== 0 || length >>> 1 > end - body) return false
  const next = body + (length >>> 1)
  body++
  const timestampAt = body
  while (body < next && bytes[body]! > 0x7f) body++
  if (++body - timestampAt > longBytesMax) return false
  body = readVarint(bytes, body)
  if (body > next) return false
  record.bodyAt = body
  record.next = next
  record.offsetDelta = (varint.value >>> 1) ^ -(varint.value & 1)
  return true
}
