// Cursors: where a page ended, sealed, so that one query alone has it.
//
//   version 1 byte | time int64 | position int64 | index uint32 | total uint32
//
// A cursor is sealed with the query that the page belongs to, publisher included: one of another query, or of another reader's rights, is none. The total
// is what the first page found, so that no later one counts again.

import type { RowKey } from './query.ts'
import { openSeal } from './seal.ts'

/** What the first page found: at least so many where it is not exact. */
export interface Total {
  readonly total: number
  readonly isExact: boolean
}

export interface Place {
  /** Of the last row of the page before. */
  readonly key: RowKey
  /** undefined: nobody has counted. */
  readonly total: Total | undefined
}

export interface Cursors {
  /** @param of the query in one form: what a cursor is bound to */
  encode(place: Place, of: string): string
  /** undefined for what is no cursor of this query. */
  decode(text: string, of: string): Place | undefined
}

const version = 1
const placeBytes = 25
const uncounted = 0xffff_ffff
/** The highest bit says that the total is a lower bound. */
const lowerBound = 0x8000_0000
const totalMax = lowerBound - 2

/** @param key 32 bytes, the same in every process that answers the same readers */
export function openCursors(key: Uint8Array): Cursors {
  const sealed = openSeal(key, 'cursors')
  return {
    encode({ key: { timeNs, position, index }, total }, of) {
      const bytes = Buffer.alloc(placeBytes)
      bytes.writeUInt8(version, 0)
      bytes.writeBigInt64BE(timeNs, 1)
      bytes.writeBigInt64BE(position, 9)
      bytes.writeUInt32BE(index, 17)
      bytes.writeUInt32BE(totalBits(total), 21)
      return sealed.seal(bytes, of)
    },
    decode(text, of) {
      const bytes = sealed.open(text, of)
      if (bytes?.length !== placeBytes || bytes[0] !== version) return undefined
      return {
        key: { timeNs: bytes.readBigInt64BE(1), position: bytes.readBigInt64BE(9), index: bytes.readUInt32BE(17) },
        total: totalOf(bytes.readUInt32BE(21)),
      }
    },
  }
}

function totalBits(found: Total | undefined): number {
  if (found === undefined) return uncounted
  const { total, isExact } = found
  // Nobody pages through two thousand million rows; if somebody does, there are at least so many.
  if (total > totalMax) return totalMax + lowerBound
  return isExact ? total : total + lowerBound
}

function totalOf(bits: number): Total | undefined {
  if (bits === uncounted) return undefined
  return bits >= lowerBound ? { total: bits - lowerBound, isExact: false } : { total: bits, isExact: true }
}
