// The `_id` of a row: its position as a big-endian int64 and its index as a big-endian uint32, 12 bytes of generic binary. In their order
// rows lie as in the log: by log, partition, offset and index, since the sign bit of a position is never set.

import { positionHigh, positionLow } from '../sink.ts'
import type { BsonBytes } from './bson-bytes.ts'

export const rowIdLength = 12

/** A row's document begins with its `_id`: length int32, type byte, `_id` and its 00, length int32 and subtype byte of the binary. */
const startInDocument = 4 + 1 + 4 + 4 + 1
const type = 0x05

/** Writes the element `_id`: 22 bytes. */
export function writeRowId(bson: BsonBytes, log: number, partition: number, offset: number, index: number): void {
  const { bytes, view } = bson
  let { at } = bson
  bytes[at++] = type
  bytes[at++] = 0x5f // _
  bytes[at++] = 0x69 // i
  bytes[at++] = 0x64 // d
  bytes[at++] = 0
  view.setInt32(at, rowIdLength, true)
  bytes[at + 4] = 0
  view.setUint32(at + 5, positionHigh(log, partition, offset))
  view.setUint32(at + 9, positionLow(offset))
  view.setUint32(at + 13, index)
  bson.at = at + 5 + rowIdLength
}

/** The `_id` of the document that begins at `start`, without a copy. */
export function rowIdAt(documents: Uint8Array, start: number): Uint8Array {
  return documents.subarray(start + startInDocument, start + startInDocument + rowIdLength)
}

/** @param position packed: log, partition and offset */
export function rowIdOf(position: bigint, index: number): Uint8Array {
  const rowId = new Uint8Array(rowIdLength)
  const view = viewOf(rowId)
  view.setBigUint64(0, position)
  view.setUint32(8, index)
  return rowId
}

/** Packed: log, partition and offset. */
export function positionAt(rowId: Uint8Array): bigint {
  return viewOf(rowId).getBigUint64(0)
}

/** The record's ordinal in its message. */
export function indexOf(rowId: Uint8Array): number {
  return viewOf(rowId).getUint32(8)
}

/** The offset of its message: the lower 44 bits of the position. */
export function offsetOf(rowId: Uint8Array): number {
  const view = viewOf(rowId)
  return (view.getUint32(0) & 0xfff) * 0x1_0000_0000 + view.getUint32(4)
}

/** The smallest `_id` that a row of this message may have. */
export function firstRowId(log: number, partition: number, offset: number): Uint8Array {
  const rowId = new Uint8Array(rowIdLength)
  const view = viewOf(rowId)
  view.setUint32(0, positionHigh(log, partition, offset))
  view.setUint32(4, positionLow(offset))
  return rowId
}

/** The largest. */
export function lastRowId(log: number, partition: number, offset: number): Uint8Array {
  const rowId = firstRowId(log, partition, offset)
  viewOf(rowId).setUint32(8, 0xffff_ffff)
  return rowId
}

/** As a key of a map. */
export function keyOf(rowId: Uint8Array): string {
  return Buffer.from(rowId.buffer, rowId.byteOffset, rowId.byteLength).toString('latin1')
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength)
}
