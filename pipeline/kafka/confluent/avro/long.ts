// Reads and writes Avro integers without a bigint (Avro 1.12, "Binary Encoding"): zigzag, seven bits per byte, lowest first.

/** The long read last, as the two halves of its 64 bits: `high` is signed, `low` is not. */
export const long = { high: 0, low: 0 }

const uint32 = 2 ** 32
const nsPerUs = 1000
/** Bytes of 64 bits. */
const longBytesMax = 10

/**
 * Reads a long into `long`.
 *
 * @returns the index after it; beyond `end` if it is cut off or has more than 64 bits
 */
export function readLong(bytes: Uint8Array, at: number, end: number): number {
  let low = 0
  let high = 0
  const last = Math.min(end, at + longBytesMax)
  for (let shift = 0; at < last; shift += 7) {
    const byte = bytes[at++]!
    const bits = byte & 0x7f
    if (shift < 28) low |= bits << shift
    else if (shift === 28) {
      low |= bits << 28
      high = bits >>> 4
    } else high |= bits << (shift - 32)
    // The tenth byte has only one valid bit.
    if (shift === 63 && byte > 1) break
    if (byte < 0x80) {
      const sign = -(low & 1)
      long.low = (((low >>> 1) | (high << 31)) ^ sign) >>> 0
      long.high = (high >>> 1) ^ sign
      return at
    }
  }
  return end + 1
}

/** The length read last, of a string or bytes. */
export const length = { value: 0 }

/**
 * Reads a length into `length`; that many bytes must follow before `end`.
 *
 * @returns the index after it; beyond `end` if it is cut off, negative or too large
 */
export function readLength(bytes: Uint8Array, at: number, end: number): number {
  // Most strings are shorter than 64 bytes, so their length is one byte.
  const byte = bytes[at]!
  if (at < end && byte < 0x80 && (byte & 1) === 0) {
    at++
    length.value = byte >>> 1
    return length.value > end - at ? end + 1 : at
  }
  at = readLong(bytes, at, end)
  if (at > end || long.high !== 0 || long.low > end - at) return end + 1
  length.value = long.low
  return at
}

/** An instant as in an envelope: nanoseconds = us × 1000 + restNs. */
export const timestamp = { us: 0, restNs: 0 }

/**
 * Converts the long read last to an instant, into `timestamp`.
 *
 * @param unitNs nanoseconds per unit: 1, 1,000 or 1,000,000
 * @returns false if its microseconds are not a safe integer
 */
export function longToTimestamp(unitNs: number): boolean {
  const { high, low } = long
  if (unitNs === 1) {
    // Long division by 1000, upper half first; floored, so that the rest is positive even before 1970.
    const upper = Math.floor(high / nsPerUs)
    const lower = (high - upper * nsPerUs) * uint32 + low
    timestamp.restNs = lower % nsPerUs
    timestamp.us = upper * uint32 + Math.floor(lower / nsPerUs)
  } else {
    timestamp.restNs = 0
    timestamp.us = (high * uint32 + low) * (unitNs / nsPerUs)
  }
  return Number.isSafeInteger(timestamp.us)
}

/**
 * Writes an instant as a long of nanoseconds, which is possible for every safe integer of microseconds.
 *
 * @returns the index after it
 */
export function writeTimestamp(bytes: Uint8Array, at: number, us: number, restNs: number): number {
  const usHigh = Math.floor(us / uint32)
  const lower = (us - usHigh * uint32) * nsPerUs + restNs
  const carry = Math.floor(lower / uint32)
  const low = lower - carry * uint32
  const high = usHigh * nsPerUs + carry
  const sign = high >> 31
  return writeVarint(bytes, at, ((high << 1) | (low >>> 31)) ^ sign, (low << 1) ^ sign)
}

/** Writes a length below 2^30. Returns the index after it. */
export function writeLength(bytes: Uint8Array, at: number, length: number): number {
  return writeVarint(bytes, at, 0, length << 1)
}

function writeVarint(bytes: Uint8Array, at: number, high: number, low: number): number {
  while (high !== 0 || low >>> 0 > 0x7f) {
    bytes[at++] = (low & 0x7f) | 0x80
    low = (low >>> 7) | (high << 25)
    high >>>= 7
  }
  bytes[at++] = low
  return at
}
