// A document in BSON as JSON text, with every digit of its numbers. A hot path: nothing is made in between.
//
// The driver would make objects of it first, and takes some keys for its own: a device's `{"$ref": …, "$id": …}` would become a reference to
// another document, and nobody could tell an int64 from a double.
//
// Most keys and texts stand in JSON as they are. So the bytes are made one string, of which those are parts: that takes half of the time of
// decoding and quoting each of them.

import { elementType } from '../../sinks/mongodb/bson-bytes.ts'
import { behindNul, valueEnd } from './bson-values.ts'

const space = 0x20
const quote = 0x22
const backslash = 0x5c
const tilde = 0x7e

/**
 * The text of the document that begins at `start`, keys in its order, without blanks. Numbers are printed as JavaScript prints them, and
 * int64s with all their digits. What JSON has no form for comes from a foreign writer only, and is null.
 */
export function payloadText(bytes: Buffer, start: number): string {
  return objectText(bytes, bytes.toString('latin1'), start)
}

/** @param characters one for each byte */
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

/** An array is a document whose names are 0, 1, 2 …. */
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
