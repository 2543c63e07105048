// Cursors: the encrypted end position of a page, bound to one query.
//
//   nonce 12 bytes | tag 16 bytes | AES-256-GCM of (version 1 byte | time int64 | position int64 | index uint32 | total uint32), as base64url
//
// They are encrypted because log positions would reveal how busy other users are. The query, including its publisher, is authenticated with
// the cursor: a cursor of another query, or of a reader with other rights, cannot be decoded. It contains the total of the first page, so that later pages do
// not count again.

import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import { decrypt, encrypt, nonceBytes } from '../config/secrets.ts'
import type { RowKey } from './reader.ts'

/** The total of the first page: a lower bound if it is not exact. */
export interface Total {
  readonly total: number
  readonly isExact: boolean
}

/** The content of a cursor. */
export interface Keyset {
  /** Key of the last row of the previous page. */
  readonly key: RowKey
  /** undefined if not counted. */
  readonly total: Total | undefined
}

/** Encodes and decodes cursors of pages. */
export interface Cursors {
  /** @param of the canonical query to which the cursor is bound */
  encode(keyset: Keyset, of: string): string
  /** undefined if the text is not a cursor of this query. */
  decode(text: string, of: string): Keyset | undefined
}

const version = 2
const keysetBytes = 25
const uncounted = 0xffff_ffff
/** The highest bit marks the total as a lower bound. */
const lowerBound = 0x8000_0000
const totalMax = lowerBound - 2

/** @param key 32 bytes, the same in every process that serves the same clients */
export function openCursors(key: Uint8Array): Cursors {
  const codec = openCursorCodec(key, 'cursors')
  return {
    encode({ key: { timeNs, position, index }, total }, of) {
      const bytes = Buffer.alloc(keysetBytes)
      bytes.writeUInt8(version, 0)
      bytes.writeBigInt64BE(timeNs, 1)
      bytes.writeBigInt64BE(position, 9)
      bytes.writeUInt32BE(index, 17)
      bytes.writeUInt32BE(totalBits(total), 21)
      return codec.encode(bytes, of)
    },
    decode(text, of) {
      const bytes = codec.decode(text, of)
      if (bytes?.length !== keysetBytes || bytes[0] !== version) return undefined
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
  // Beyond two billion rows it is a lower bound.
  if (total > totalMax) return totalMax + lowerBound
  return isExact ? total : total + lowerBound
}

function totalOf(bits: number): Total | undefined {
  if (bits === uncounted) return undefined
  return bits >= lowerBound ? { total: bits - lowerBound, isExact: false } : { total: bits, isExact: true }
}

/** Encrypts bytes into text that is bound to a context: a request, a channel. */
export interface CursorCodec {
  /**
   * @param of the context to which the text is bound
   * @param nonce 12 bytes that were never used before. By default it is derived from the bytes: equal bytes give equal texts, so that an unchanged page has
   *   the same bytes and ETag
   */
  encode(bytes: Uint8Array, of: string, nonce?: Uint8Array): string
  /** undefined if the text was not encoded with this key, or is bound to another context. */
  decode(text: string, of: string): Buffer | undefined
}

/**
 * @param key 32 bytes, the same in every process that answers the same readers
 * @param purpose separates keys: texts of one purpose cannot be decoded for another
 */
export function openCursorCodec(key: Uint8Array, purpose: string): CursorCodec {
  // As key objects: creating a cipher from raw key bytes takes ten times as long.
  const subkey = (part: string): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync('sha256', key, new Uint8Array(0), `${purpose} ${part}`, 32)))
  const cipherKey = subkey('cipher')
  const nonceKey = subkey('nonce')
  const nonceOf = (bytes: Uint8Array, of: string): Buffer =>
    createHmac('sha256', nonceKey).update(`${bytes.length} `).update(bytes).update(of).digest().subarray(0, nonceBytes)

  return {
    encode: (bytes, of, nonce = nonceOf(bytes, of)) => encrypt(cipherKey, bytes, of, nonce).toString('base64url'),
    decode(text, of) {
      const given = Buffer.from(text, 'base64url')
      if (given.toString('base64url') !== text) return undefined
      try {
        return decrypt(cipherKey, given, of)
      } catch {
        return undefined
      }
    },
  }
}
