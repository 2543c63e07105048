// A row in BSON: the buffer that documents are written to, the elements of a row, its `_id`, and how documents are read. From the BSON specification
// (bsonspec.org, version 1.1):
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

// Reading: where values end, numbers and texts, and a document as JSON text with every digit of its numbers. A hot path of readers. The driver would
// create objects, and it interprets some keys: a device's `{"$ref": …, "$id": …}` would become a reference to another document, and an int64 would
// look like a double. Most keys and texts are the same in JSON. So the bytes are decoded once to a string, and these are slices of it: that takes half
// the time of decoding and quoting each of them.

const space = 0x20
const quote = 0x22
const backslash = 0x5c
const tilde = 0x7e

/**
 * The JSON text of the document that begins at `start`, with keys in its order and without blanks. Numbers are printed as JavaScript prints them, and
 * int64s with all their digits. Values that JSON cannot represent come only from other programs, and become null.
 */
export function payloadText(bytes: Buffer, start: number): string {
  return objectText(bytes, bytes.toString('latin1'), start)
}

/** @param characters the bytes as a string with one character for each */
function objectText(bytes: Buffer, characters: string, start: number): string {
  let text = '{'
  for (let at = start + 4; bytes[at] !== 0; ) {
    const value = behindNul(bytes, at + 1)
    if (text.length > 1) text += ','
    text += `${quoted(bytes, characters, at + 1, value - 1)}:${valueText(bytes[at]!, bytes, characters, value)}`
    at = valueEnd(bytes[at]!, bytes, value)
  }
  return `${text}}`
}

/** An array is a document with the names 0, 1, 2 … */
function arrayText(bytes: Buffer, characters: string, start: number): string {
  let text = '['
  for (let at = start + 4; bytes[at] !== 0; ) {
    const value = behindNul(bytes, at + 1)
    if (text.length > 1) text += ','
    text += valueText(bytes[at]!, bytes, characters, value)
    at = valueEnd(bytes[at]!, bytes, value)
  }
  return `${text}]`
}

function valueText(type: number, bytes: Buffer, characters: string, at: number): string {
  switch (type) {
    case elementType.string:
      return quoted(bytes, characters, at + 4, at + 3 + bytes.readInt32LE(at))
    case elementType.double:
      return doubleText(bytes.readDoubleLE(at))
    case elementType.int32:
      return String(bytes.readInt32LE(at))
    case elementType.int64:
      return String(bytes.readBigInt64LE(at))
    case elementType.boolean:
      return bytes[at] === 0 ? 'false' : 'true'
    case elementType.document:
      return objectText(bytes, characters, at)
    case elementType.array:
      return arrayText(bytes, characters, at)
    default:
      return 'null'
  }
}

function quoted(bytes: Buffer, characters: string, start: number, end: number): string {
  for (let at = start; at < end; at++) {
    const byte = bytes[at]!
    if (byte < space || byte > tilde || byte === quote || byte === backslash) return JSON.stringify(bytes.toString('utf8', start, end))
  }
  return `"${characters.slice(start, end)}"`
}

function doubleText(value: number): string {
  return Number.isFinite(value) ? String(value) : 'null'
}

/** Types that sluice never writes, but other programs may. */
const foreignType = {
  undefined: 0x06,
  objectId: 0x07,
  regex: 0x0b,
  pointer: 0x0c,
  code: 0x0d,
  symbol: 0x0e,
  codeWithScope: 0x0f,
  timestamp: 0x11,
  decimal128: 0x13,
  maxKey: 0x7f,
  minKey: 0xff,
} as const

/** The end of a name or a regular expression: after its 00. */
export function behindNul(bytes: Uint8Array, at: number): number {
  let end = at
  while (bytes[end] !== 0) end++
  return end + 1
}

/** @throws RangeError for a type that BSON does not have */
export function valueEnd(type: number, bytes: Buffer, at: number): number {
  switch (type) {
    case elementType.double:
    case elementType.date:
    case elementType.int64:
    case foreignType.timestamp:
      return at + 8
    case elementType.string:
    case foreignType.code:
    case foreignType.symbol:
      return at + 4 + bytes.readInt32LE(at)
    case elementType.document:
    case elementType.array:
    case foreignType.codeWithScope:
      return at + bytes.readInt32LE(at)
    case elementType.binary:
      return at + 5 + bytes.readInt32LE(at)
    case elementType.boolean:
      return at + 1
    case elementType.int32:
      return at + 4
    case elementType.null:
    case foreignType.undefined:
    case foreignType.maxKey:
    case foreignType.minKey:
      return at
    case foreignType.objectId:
      return at + 12
    case foreignType.decimal128:
      return at + 16
    case foreignType.regex:
      return behindNul(bytes, behindNul(bytes, at))
    case foreignType.pointer:
      return at + 4 + bytes.readInt32LE(at) + 12
    default:
      throw new RangeError(`BSON has no type ${type}`)
  }
}

/** A number of any numeric type; undefined for other types. For an int64 beyond 2^53 the nearest double. */
export function numberAt(type: number, bytes: Buffer, at: number): number | undefined {
  if (type === elementType.double) return bytes.readDoubleLE(at)
  if (type === elementType.int64) return bytes.readInt32LE(at + 4) * 0x1_0000_0000 + bytes.readUInt32LE(at)
  return type === elementType.int32 ? bytes.readInt32LE(at) : undefined
}

/** The text of a string, without its length and the 00 after it. */
export function stringAt(bytes: Buffer, at: number): string {
  return bytes.toString('utf8', at + 4, at + 3 + bytes.readInt32LE(at))
}
