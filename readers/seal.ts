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

  function tagOf(bytes: Uint8Array, of: string): Buffer {
    return mac(Buffer.concat([Buffer.from(`${Buffer.byteLength(of)} ${of}`), bytes])).subarray(0, tagBytes)
  }

  return {
    seal(bytes, of) {
      const tag = tagOf(bytes, of)
      return Buffer.concat([tag, cipher(bytes, tag)]).toString('base64url')
    },
    open(text, of) {
      const given = Buffer.from(text, 'base64url')
      if (given.length <= tagBytes || given.toString('base64url') !== text) return undefined
      const tag = given.subarray(0, tagBytes)
      const bytes = cipher(given.subarray(tagBytes), tag)
      return timingSafeEqual(tag, tagOf(bytes, of)) ? bytes : undefined
    },
  }
}

const hashBlockBytes = 64

/** HMAC-SHA256 (RFC 2104), of a key of 32 bytes. */
function openMac(key: Uint8Array): (bytes: Uint8Array) => Buffer {
  const inner = Buffer.alloc(hashBlockBytes, 0x36)
  const outer = Buffer.alloc(hashBlockBytes, 0x5c)
  for (const [at, byte] of key.entries()) {
    inner[at]! ^= byte
    outer[at]! ^= byte
  }
  return bytes => hash('sha256', Buffer.concat([outer, hash('sha256', Buffer.concat([inner, bytes]), 'buffer')]), 'buffer')
}

const cipherBlockBytes = 16

/** AES-256 in counter mode (NIST SP 800-38A §6.5), which seals and opens alike. */
function openCounterMode(key: Uint8Array): (bytes: Uint8Array, first: Buffer) => Buffer {
  const block = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
  return (bytes, first) => {
    const counters = Buffer.alloc(Math.ceil(bytes.length / cipherBlockBytes) * cipherBlockBytes)
    const from = first.readUInt32BE(12)
    for (let at = 0; at < counters.length; at += cipherBlockBytes) {
      first.copy(counters, at)
      counters.writeUInt32BE((from + at / cipherBlockBytes) >>> 0, at + 12)
    }
    const stream = block.update(counters)
    return Buffer.from(bytes.map((byte, at) => byte ^ stream[at]!))
  }
}
