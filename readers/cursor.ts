// Cursors: where a page ended, as text that only we can make, and that fits one query alone.
//
//   base64url( version 1 byte | time int64 | position uint64 | index uint32 | total uint32 | MAC 16 bytes )
//
// The MAC (HMAC-SHA256, cut) is over these bytes and the query that the page belongs to, publisher included: a cursor of one query, or of
// one reader's rights, is none of another. Whoever holds one learns a place in their own answers, and nothing else. The total is what the
// first page found, so that no later one counts again.

import { createHmac, timingSafeEqual } from 'node:crypto'
import type { RowKey } from './query.ts'

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
const macBytes = 16
const cursorCharacters = Math.ceil(((placeBytes + macBytes) * 4) / 3)
const uncounted = 0xffff_ffff
/** The highest bit says that the total is a lower bound. */
const lowerBound = 0x8000_0000
const totalMax = lowerBound - 2

/** @param key 32 bytes, the same in every process that answers the same readers */
export function openCursors(key: Uint8Array): Cursors {
  const macOf = (bytes: Uint8Array, of: string): Buffer =>
    createHmac('sha256', key).update(bytes).update(of, 'utf8').digest().subarray(0, macBytes)

  return {
    encode({ key: { timeNs, position, index }, total }, of) {
      const bytes = Buffer.alloc(placeBytes)
      bytes.writeUInt8(version, 0)
      bytes.writeBigInt64BE(timeNs, 1)
      bytes.writeBigUInt64BE(position, 9)
      bytes.writeUInt32BE(index, 17)
      bytes.writeUInt32BE(totalBits(total), 21)
      return Buffer.concat([bytes, macOf(bytes, of)]).toString('base64url')
    },
    decode(text, of) {
      if (text.length !== cursorCharacters) return undefined
      const given = Buffer.from(text, 'base64url')
      if (given.length !== placeBytes + macBytes || given.toString('base64url') !== text || given[0] !== version) return undefined
      const bytes = given.subarray(0, placeBytes)
      if (!timingSafeEqual(given.subarray(placeBytes), macOf(bytes, of))) return undefined
      return {
        key: { timeNs: bytes.readBigInt64BE(1), position: bytes.readBigUInt64BE(9), index: bytes.readUInt32BE(17) },
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
