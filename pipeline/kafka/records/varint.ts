// The varints of Kafka's records: seven bits per byte, lowest first; signed ones in zigzag (0, -1, 1, -2 …).

/** The varint read last, still in zigzag: 32 bits, unsigned. */
export const varint = { value: 0 }

/**
 * Reads a 32-bit varint into `varint`.
 *
 * @returns the index after it; beyond the end of the bytes if it is cut off or longer than five bytes
 */
export function readVarint(bytes: Uint8Array, at: number): number {
  let value = 0
  for (let shift = 0; shift < 35; shift += 7) {
    const byte = bytes[at++]
    if (byte === undefined) break
    value |= (byte & 0x7f) << shift
    if (byte < 0x80) {
      varint.value = value >>> 0
      return at
    }
  }
  varint.value = 0
  return bytes.length + 1
}

/** Reads the 64-bit varint at `at`, which must be complete, and undoes zigzag; exact below 2^53. */
export function signedLongAt(bytes: Uint8Array, at: number): number {
  let value = 0
  let factor = 1
  while (true) {
    const byte = bytes[at++]!
    value += (byte & 0x7f) * factor
    if (byte < 0x80) break
    factor *= 128
  }
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2
}

/** Writes a whole number within 2^63 in zigzag. Returns the index after it. */
export function writeSigned(bytes: Uint8Array, at: number, number: number): number {
  let rest = number < 0 ? -2 * number - 1 : 2 * number
  while (rest >= 128) {
    bytes[at++] = 0x80 | (rest % 128)
    rest = Math.floor(rest / 128)
  }
  bytes[at++] = rest
  return at
}
