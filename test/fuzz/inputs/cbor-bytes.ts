// Growing CBOR bytes (RFC 8949 §3): any head, in its shortest form or a longer one, and any item.

import type { Random } from '../random.ts'

export const Major = { unsigned: 0, negative: 1, bytes: 2, text: 3, array: 4, map: 5, tag: 6, other: 7 } as const

export interface CborBytes {
  readonly length: number
  /** @param width minimum number of bytes of the argument: 0, 1, 2, 4 or 8 */
  head(major: number, argument: number | bigint, width?: number): void
  raw(bytes: Uint8Array | readonly number[]): void
  text(text: string): void
  data(bytes: Uint8Array): void
  float(width: 2 | 4 | 8, number: number): void
  bytes(): Uint8Array
}

export function openCborBytes(): CborBytes {
  let bytes = Buffer.allocUnsafe(256)
  let length = 0

  function reserve(more: number): number {
    if (length + more > bytes.length) bytes = Buffer.concat([bytes.subarray(0, length)], Math.max(2 * bytes.length, length + more))
    const at = length
    length += more
    return at
  }

  function head(major: number, argument: number | bigint, width = 0): void {
    const needed = argument < 24 ? 0 : argument < 2 ** 8 ? 1 : argument < 2 ** 16 ? 2 : argument < 2 ** 32 ? 4 : 8
    const wide = Math.max(needed, width)
    const at = reserve(1 + wide)
    bytes[at] = (major << 5) | (wide === 0 ? Number(argument) : wide === 1 ? 24 : wide === 2 ? 25 : wide === 4 ? 26 : 27)
    if (wide === 1) bytes[at + 1] = Number(argument)
    else if (wide === 2) bytes.writeUInt16BE(Number(argument), at + 1)
    else if (wide === 4) bytes.writeUInt32BE(Number(argument), at + 1)
    else if (wide === 8) bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(argument)), at + 1)
  }

  function raw(more: Uint8Array | readonly number[]): void {
    // Not earlier, because reserving may replace the memory.
    const at = reserve(more.length)
    bytes.set(more, at)
  }

  return {
    get length() {
      return length
    },
    head,
    raw,
    text(text) {
      const encoded = Buffer.from(text)
      head(Major.text, encoded.length)
      raw(encoded)
    },
    data(data) {
      head(Major.bytes, data.length)
      raw(data)
    },
    float(width, number) {
      const at = reserve(1 + width)
      bytes[at] = width === 2 ? 0xf9 : width === 4 ? 0xfa : 0xfb
      if (width === 8) bytes.writeDoubleBE(number, at + 1)
      else if (width === 4) bytes.writeFloatBE(number, at + 1)
      else bytes.writeUInt16BE(halfBits(number), at + 1)
    },
    bytes: () => Uint8Array.from(bytes.subarray(0, length)),
  }
}

/** The bits of a small whole number as a half-precision float. */
function halfBits(number: number): number {
  const size = Math.abs(number)
  const sign = number < 0 || Object.is(number, -0) ? 0x8000 : 0
  if (size === 0) return sign
  const exponent = Math.floor(Math.log2(size))
  return sign | ((exponent + 15) << 10) | ((size / 2 ** exponent - 1) * 1024)
}

/** Writes a number in one of the forms that keep its value. */
export function writeNumber(output: CborBytes, random: Random, number: number): void {
  const whole = Number.isSafeInteger(number) && !Object.is(number, -0)
  const form = random.below(5)
  if (whole && form < 2) {
    const width = random.oneIn(6) ? random.pick([1, 2, 4, 8]) : 0
    if (number < 0) output.head(Major.negative, -1 - number, width)
    else output.head(Major.unsigned, number, width)
  } else if (form === 2 && Number.isInteger(number) && Math.abs(number) <= 2048) {
    output.float(2, number)
  } else if (form === 3 && Math.fround(number) === number) {
    output.float(4, number)
  } else if (form === 4 && whole && random.oneIn(2)) {
    writeDecimal(output, number)
  } else {
    output.float(8, number)
  }
}

/** A decimal fraction (RFC 8949 §3.4.4) with an exponent from -3 to 0, if that is exact. */
function writeDecimal(output: CborBytes, number: number): void {
  const exponent = Math.abs(number) < 1e12 ? 3 : 0
  const mantissa = number * 10 ** exponent
  output.raw([0xc4, 0x82])
  if (exponent === 0) output.head(Major.unsigned, 0)
  else output.head(Major.negative, exponent - 1)
  if (mantissa < 0) output.head(Major.negative, -1 - mantissa)
  else output.head(Major.unsigned, mantissa)
}
