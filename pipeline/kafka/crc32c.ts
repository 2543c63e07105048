// CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum of a record batch: native where the add-on is there, else by tables.

import { createRequire } from 'node:module'

/** The polynomial with its bits reversed. */
const polynomial = 0x82f63b78
/** So many bytes are taken at once ("slicing by 16"): table `n` is a byte followed by `n` zero bytes. */
const slices = 16
const tables = new Int32Array(slices * 256)

for (let byte = 0; byte < 256; byte++) {
  let remainder = byte
  for (let bit = 0; bit < 8; bit++) remainder = (remainder & 1) === 0 ? remainder >>> 1 : (remainder >>> 1) ^ polynomial
  tables[byte] = remainder
}
for (let at = 256; at < tables.length; at++) tables[at] = (tables[at - 256]! >>> 8) ^ tables[tables[at - 256]! & 0xff]!

const noWords = new Int32Array(0)

/** The checksum as an unsigned number, from tables alone. */
export function crc32cByTables(bytes: Uint8Array): number {
  // Words lie at multiples of four in memory.
  const wordsAt = bytes.length < 4 ? bytes.length : (4 - (bytes.byteOffset & 3)) & 3
  const words = bytes.length < 4 ? noWords : new Int32Array(bytes.buffer, bytes.byteOffset + wordsAt, (bytes.length - wordsAt) >> 2)
  const blocksEnd = words.length & ~3
  let crc = ~0
  for (let at = 0; at < wordsAt; at++) crc = (crc >>> 8) ^ tables[(crc ^ bytes[at]!) & 0xff]!
  for (let at = 0; at < blocksEnd; at += 4) {
    const first = crc ^ words[at]!
    const second = words[at + 1]!
    const third = words[at + 2]!
    const fourth = words[at + 3]!
    crc =
      tables[0xf00 | (first & 0xff)]! ^
      tables[0xe00 | ((first >>> 8) & 0xff)]! ^
      tables[0xd00 | ((first >>> 16) & 0xff)]! ^
      tables[0xc00 | (first >>> 24)]! ^
      tables[0xb00 | (second & 0xff)]! ^
      tables[0xa00 | ((second >>> 8) & 0xff)]! ^
      tables[0x900 | ((second >>> 16) & 0xff)]! ^
      tables[0x800 | (second >>> 24)]! ^
      tables[0x700 | (third & 0xff)]! ^
      tables[0x600 | ((third >>> 8) & 0xff)]! ^
      tables[0x500 | ((third >>> 16) & 0xff)]! ^
      tables[0x400 | (third >>> 24)]! ^
      tables[0x300 | (fourth & 0xff)]! ^
      tables[0x200 | ((fourth >>> 8) & 0xff)]! ^
      tables[0x100 | ((fourth >>> 16) & 0xff)]! ^
      tables[fourth >>> 24]!
  }
  for (let at = wordsAt + 4 * blocksEnd; at < bytes.length; at++) crc = (crc >>> 8) ^ tables[(crc ^ bytes[at]!) & 0xff]!
  return ~crc >>> 0
}

/** Below this the call into the add-on costs more than it saves. */
const nativeBytesMin = 128

/** The add-on takes a third of the tables' time. It comes with `@platformatic/kafka`, for the systems that it was built for. */
function loadNative(): ((bytes: Uint8Array) => number) | undefined {
  try {
    return (createRequire(import.meta.url)('@node-rs/crc32') as { crc32c: (bytes: Uint8Array) => number }).crc32c
  } catch {
    return undefined
  }
}

const native = loadNative()

/** Whether the add-on is there. */
export const isNative = native !== undefined

/** The checksum as an unsigned number. */
export function crc32c(bytes: Uint8Array): number {
  return native === undefined || bytes.length < nativeBytesMin ? crc32cByTables(bytes) : native(bytes) >>> 0
}
