// Where the values of BSON end, and the numbers among them (bsonspec.org, version 1.1; the sink's bson-bytes.ts has the grammar).

import { elementType } from '../../sinks/mongodb/bson-bytes.ts'

/** Types that this project never writes, and others may. */
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

/** Of a name or a regular expression: behind its 00. */
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

/** A number of any of its types; undefined for what is none. Of an int64 beyond 2^53 the nearest double. */
export function numberAt(type: number, bytes: Buffer, at: number): number | undefined {
  if (type === elementType.double) return bytes.readDoubleLE(at)
  if (type === elementType.int64) return bytes.readInt32LE(at + 4) * 0x1_0000_0000 + bytes.readUInt32LE(at)
  return type === elementType.int32 ? bytes.readInt32LE(at) : undefined
}

/** The text of a string: without its length, and without the 00 behind it. */
export function stringAt(bytes: Buffer, at: number): string {
  return bytes.toString('utf8', at + 4, at + 3 + bytes.readInt32LE(at))
}
