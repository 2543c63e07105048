// Steps from record to record of a batch by their lengths (Kafka protocol guide, "Record"), so that runs can be cut without reading more.
//
//   record   length varint · attributes int8 · timestampDelta varlong · offsetDelta varint · key · value · headers
//            length counts what follows it; the rest is in record-cursor.ts

import { readVarint, varint } from './varint.ts'

/** Of the record that `stepRecord` stepped over: the place of its key, the place behind it, and its offset less that of the batch. */
export const record = { bodyAt: 0, next: 0, offsetDelta: 0 }

const longBytesMax = 10

/**
 * Steps over the record at `at` of the records that end at `end`.
 *
 * @returns false where there is none, or it is cut: its parts do not fit into its length, or its length not into the records
 */
export function stepRecord(bytes: Uint8Array, at: number, end: number): boolean {
  let body = readVarint(bytes, at)
  const length = varint.value
  // An odd one is negative; and what was cut is beyond the end.
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
