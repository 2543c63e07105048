// Places as text that only we can make and read: the cursors of pages, and the ids of live events.
//
//   base64url( tag 16 bytes | sealed bytes )
//
// The tag is HMAC-SHA256, cut, over the bytes and what they are of: the question and its asker, or the channel and what of it may be read. It is the
// first counter of AES-256-CTR, too (synthetic, as in RFC 5297): the same bytes of the same reader are the same text, and no two share a key stream.
// They are sealed because positions in the log tell how busy others are.
//
// Every answer and every event has one, so it must cost little: the hash in one call and the cipher kept open take 6 µs, where an HMAC and a cipher
// made for each took 62.

import { createCipheriv, hash, hkdfSync, timingSafeEqual } from 'node:crypto'

export interface Seal {
  /** @param of whose it is */
  seal(bytes: Uint8Array, of: string): string
  /** The bytes; undefined for what was not sealed here, or is of somebody else. */
  open(text: string, of: string): Buffer | undefined
}

const tagBytes = 16
const keyBytes = 32

/**
 * @param key 32 bytes, the same in every process that answers the same readers
 * @param purpose what is sealed of one purpose is nothing of another
 */
export function openSeal(key: Uint8Array, purpose: string): Seal {
  const subkey = (part: string): Buffer => Buffer.from(hkdfSync('sha256', key, new Uint8Array(0), `${purpose} ${part}`, keyBytes))
  const mac = openMac(subkey('mac'))
  const cipher = openCounterMode(subkey('cipher'))

  return {
    seal(bytes, of) {
      const sealed = Buffer.allocUnsafe(tagBytes + bytes.length)
      mac(of, bytes).copy(sealed, 0, 0, tagBytes)
      cipher(bytes, sealed, sealed.subarray(tagBytes))
      return sealed.toString('base64url')
    },
    open(text, of) {
      const given = Buffer.from(text, 'base64url')
      if (given.length <= tagBytes || given.toString('base64url') !== text) return undefined
      const tag = given.subarray(0, tagBytes)
      const bytes = Buffer.allocUnsafe(given.length - tagBytes)
      cipher(given.subarray(tagBytes), tag, bytes)
      return timingSafeEqual(tag, mac(of, bytes).subarray(0, tagBytes)) ? bytes : undefined
    },
  }
}

const hashBlockBytes = 64

const hashBytes = 32

/** HMAC-SHA256 (RFC 2104), of a key of 32 bytes, over the length of a text, the text and bytes. */
function openMac(key: Uint8Array): (of: string, bytes: Uint8Array) => Buffer {
  // A block of the key each, and room behind it for what is hashed.
  let inner = Buffer.alloc(hashBlockBytes + 1024, 0x36)
  const outer = Buffer.alloc(hashBlockBytes + hashBytes, 0x5c)
  for (const [at, byte] of key.entries()) {
    inner[at]! ^= byte
    outer[at]! ^= byte
  }
  return (of, bytes) => {
    const ofBytes = Buffer.byteLength(of)
    const length = `${ofBytes} `
    const end = hashBlockBytes + length.length + ofBytes + bytes.length
    if (end > inner.length) inner = Buffer.concat([inner.subarray(0, hashBlockBytes)], end * 2)
    inner.write(length, hashBlockBytes, 'latin1')
    inner.write(of, hashBlockBytes + length.length)
    inner.set(bytes, end - bytes.length)
    outer.set(hash('sha256', inner.subarray(0, end), 'buffer'), hashBlockBytes)
    return hash('sha256', outer, 'buffer')
  }
}

const cipherBlockBytes = 16

/** AES-256 in counter mode (NIST SP 800-38A §6.5), which seals and opens alike: `from` into `to`, with the first counter. */
function openCounterMode(key: Uint8Array): (from: Uint8Array, first: Buffer, to: Uint8Array) => void {
  const block = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
  return (from, first, to) => {
    const counters = Buffer.allocUnsafe(Math.ceil(from.length / cipherBlockBytes) * cipherBlockBytes)
    const number = first.readUInt32BE(12)
    for (let at = 0; at < counters.length; at += cipherBlockBytes) {
      first.copy(counters, at, 0, 12)
      counters.writeUInt32BE((number + at / cipherBlockBytes) >>> 0, at + 12)
    }
    const stream = block.update(counters)
    for (let at = 0; at < from.length; at++) to[at] = from[at]! ^ stream[at]!
  }
}
