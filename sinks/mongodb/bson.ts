// A row in BSON: the buffer that documents are written to, the elements of a row, and its `_id`. From the BSON specification (bsonspec.org, version
// 1.1):
//
//   document = length int32 (of all of it), element*, 00
//   element  = type byte, name, 00, value; integers and floats little-endian
//   value    = 01 float64 | 02 length int32 (with the 00), UTF-8, 00 | 03 document | 04 document with the names 0, 1, 2 …
//              | 05 length int32, subtype byte, bytes | 08 byte | 09 milliseconds int64 | 0A nothing | 10 int32 | 12 int64

import { positionHigh, positionLow } from '../sink.ts'

export const elementType = {
  double: 0x01,
  string: 0x02,
  document: 0x03,
  array: 0x04,
  binary: 0x05,
  boolean: 0x08,
  date: 0x09,
  null: 0x0a,
  int32: 0x10,
  int64: 0x12,
} as const

/** The type and name of an element, encoded once for many documents: `head(elementType.string, 'channel')`. */
export function head(type: number, name: string): Uint8Array {
  return Uint8Array.from([type, ...Buffer.from(name), 0])
}

/** Documents, one after another. The caller reserves space, then writes: only `reserve` checks the end of the buffer. */
export class BsonBytes {
  bytes: Buffer
  view: DataView
  /** Where the next byte goes. */
  at = 0

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity)
    this.view = new DataView(this.bytes.buffer)
  }

  /** Reserves space for this many more bytes. */
  reserve(length: number): void {
    const needed = this.at + length
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
    this.view = new DataView(larger.buffer)
  }

  /** Begins a document, or one nested in another: 4 bytes. Pass the result to `endDocument`. */
  beginDocument(): number {
    const start = this.at
    this.at += 4
    return start
  }

  /** Ends a document: 1 byte. */
  endDocument(start: number): void {
    this.bytes[this.at++] = 0
    this.view.setInt32(start, this.at - start, true)
  }

  /** Writes the type and name of the next element. */
  head(head: Uint8Array): void {
    const { bytes } = this
    let { at } = this
    for (let nth = 0; nth < head.length; nth++) bytes[at++] = head[nth]!
    this.at = at
  }

  /** Writes the type and name of the next element; a name without a NUL: at most 2 + 3 × name.length bytes. */
  headOf(type: number, name: string): void {
    this.bytes[this.at++] = type
    this.at += this.bytes.write(name, this.at)
    this.bytes[this.at++] = 0
  }

  /** A string value: at most 5 + 3 × value.length bytes. */
  string(value: string): void {
    const start = this.at + 4
    const written = this.bytes.write(value, start)
    this.view.setInt32(this.at, written + 1, true)
    this.bytes[start + written] = 0
    this.at = start + written + 1
  }

  /** A double value: 8 bytes. */
  double(value: number): void {
    this.view.setFloat64(this.at, value, true)
    this.at += 8
  }

  /** An int32 value: 4 bytes. */
  int32(value: number): void {
    this.view.setInt32(this.at, value, true)
    this.at += 4
  }

  /** An int64 value by its halves, the upper one signed: 8 bytes. Also for dates. */
  int64(high: number, low: number): void {
    this.view.setInt32(this.at, low, true)
    this.view.setInt32(this.at + 4, high, true)
    this.at += 8
  }

  /** A whole number within ±2^53, as an int64: 8 bytes. */
  integer(value: number): void {
    this.int64(Math.floor(value / 0x1_0000_0000), value >>> 0)
  }

  /** A boolean value: 1 byte. */
  boolean(value: number): void {
    this.bytes[this.at++] = value
  }

  /** A binary value: 5 + value.length bytes. */
  binary(value: Uint8Array): void {
    this.view.setInt32(this.at, value.length, true)
    this.bytes[this.at + 4] = 0
    this.bytes.set(value, this.at + 5)
    this.at += 5 + value.length
  }

  /** Copies bytes that were written before. */
  again(start: number, end: number): void {
    this.bytes.copyWithin(this.at, start, end)
    this.at += end - start
  }

  /** Returns everything that was written. */
  finish(): Uint8Array {
    return this.bytes.subarray(0, this.at)
  }
}

/** The elements of every row, in their order after `_id`: the sink writes them, and readers look for them. */
export const originFields = {
  channel: head(elementType.string, 'channel'),
  subtopic: head(elementType.string, 'subtopic'),
  publisher: head(elementType.string, 'publisher'),
  protocol: head(elementType.string, 'protocol'),
} as const

/** The elements of a SenML record. */
export const recordFields = {
  name: head(elementType.string, 'name'),
  unit: head(elementType.string, 'unit'),
  time: head(elementType.date, 'time'),
  timeUs: head(elementType.int64, 'timeUs'),
  value: head(elementType.double, 'value'),
  stringValue: head(elementType.string, 'stringValue'),
  boolValue: head(elementType.boolean, 'boolValue'),
  dataValue: head(elementType.binary, 'dataValue'),
  sum: head(elementType.double, 'sum'),
  updateTime: head(elementType.double, 'updateTime'),
} as const

/** The elements of a JSON document. */
export const documentFields = {
  created: head(elementType.int64, 'created'),
  createdAt: head(elementType.date, 'createdAt'),
  payload: head(elementType.document, 'payload'),
} as const

/**
 * The length of a row's `_id`: its position as a big-endian int64 and its index as a big-endian uint32, as generic binary. This orders rows as in the
 * log, by log, partition, offset and index, since the sign bit of a position is never set.
 */
export const rowIdLength = 12

/** The bytes before the `_id`: length int32, type byte, `_id` and its 00, length int32 and subtype byte of the binary. */
const startInDocument = 4 + 1 + 4 + 4 + 1

/** Writes the element `_id`: 22 bytes. */
export function writeRowId(bson: BsonBytes, log: number, partition: number, offset: number, index: number): void {
  const { bytes, view } = bson
  let { at } = bson
  bytes[at++] = elementType.binary
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

/** The `_id` of the document that begins at `start`, without copying it. */
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

/** The ordinal of the record in its message. */
export function indexOf(rowId: Uint8Array): number {
  return viewOf(rowId).getUint32(8)
}

/** The packed position of the message. */
export function positionOf(rowId: Uint8Array): bigint {
  return viewOf(rowId).getBigUint64(0)
}

/** The `_id` as a key of a map. */
export function keyOf(rowId: Uint8Array): string {
  return Buffer.from(rowId.buffer, rowId.byteOffset, rowId.byteLength).toString('latin1')
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength)
}
