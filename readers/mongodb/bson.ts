// Reads BSON in place (bsonspec.org, version 1.1; the sink's bson.ts has the grammar): where values end, numbers and texts, and a document as JSON
// text with every digit of its numbers. A hot path.
//
// The driver would create objects, and it interprets some keys: a device's `{"$ref": …, "$id": …}` would become a reference to another document, and
// an int64 would look like a double.
//
// Most keys and texts are the same in JSON. So the bytes are decoded once to a string, and these are slices of it: that takes half the time of
// decoding and quoting each of them.

import { elementType } from '../../sinks/mongodb/bson.ts'

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
