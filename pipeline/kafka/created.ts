// The instant of the header `created`: nanoseconds since 1970 in decimal digits, taken apart without a bigint.

/** The instant read last: nanoseconds = us × 1000 + restNs, as in the envelope. */
export const created = { us: 0, restNs: 0 }

/** A sign and the digits of the largest instant: 2^53 microseconds. */
const bytesMax = 20
const zero = '0'.charCodeAt(0)
/** Four digits `0`. */
const zeros = 0x30303030
const minus = '-'.charCodeAt(0)

/**
 * Reads the digits at `[start, end)`, with or without a minus before them, into `created`.
 *
 * @param view of the same memory as `bytes`
 * @returns false where they are no decimal integer, or its microseconds no safe integer
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
    // Each byte a digit; one of 10 or more reaches the highest bit of its byte by adding 118, or has it already.
    const digits = view.getInt32(at, true) ^ zeros
    if (((digits | (digits + 0x76767676)) & 0x80808080) !== 0) return false
    // Each pair in the byte of its first digit.
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
  // The rest counts forward, also before 1970; and no zero is negative.
  if (negative) us = restNs === 0 ? 0 - us : -1 - us
  if (!Number.isSafeInteger(us)) return false
  created.us = us
  created.restNs = negative && restNs > 0 ? 1000 - restNs : restNs
  return true
}
