// Parses the header `created`, decimal nanoseconds since 1970, without a bigint.

/** The instant read last: nanoseconds = us × 1000 + restNs, as in the envelope. */
export const created = { us: 0, restNs: 0 }

/** A sign and the digits of the largest allowed time, 2^53 microseconds. */
const bytesMax = 20
const zero = '0'.charCodeAt(0)
/** Four digits `0`. */
const zeros = 0x30303030
const minus = '-'.charCodeAt(0)

/**
 * Reads the digits at `[start, end)`, with an optional minus, into `created`.
 *
 * @param view of the same memory as `bytes`
 * @returns false if they are not a decimal integer, or its microseconds not a safe integer
 */
export function readCreated(bytes: Uint8Array, view: DataView, start: number, end: number): boolean {
  if (end - start > bytesMax) return false
  const negative = bytes[start] === minus
  const digitsAt = negative ? start + 1 : start
  if (digitsAt === end) return false
  const restAt = Math.max(digitsAt, end - 3)
  let us = 0
  let at = digitsAt
  for (; at + 4 <= restAt; at += 4) {
    // Each byte must be a digit: adding 118 sets the highest bit of a byte of 10 or more, unless it is already set.
    const digits = view.getInt32(at, true) ^ zeros
    if (((digits | (digits + 0x76767676)) & 0x80808080) !== 0) return false
    // Combines pairs of digits, each in the byte of its first digit.
    const pairs = digits * 10 + (digits >> 8)
    us = us * 10_000 + (pairs & 0xff) * 100 + ((pairs >> 16) & 0xff)
  }
  for (; at < restAt; at++) {
    const digit = bytes[at]! - zero
    if (digit < 0 || digit > 9) return false
    us = us * 10 + digit
  }
  let restNs = 0
  for (; at < end; at++) {
    const digit = bytes[at]! - zero
    if (digit < 0 || digit > 9) return false
    restNs = restNs * 10 + digit
  }
  // The rest is positive even before 1970, and zero is never negative.
  if (negative) us = restNs === 0 ? 0 - us : -1 - us
  if (!Number.isSafeInteger(us)) return false
  created.us = us
  created.restNs = negative && restNs > 0 ? 1000 - restNs : restNs
  return true
}
