// Writes CBOR items in their preferred form (RFC 8949 §4.1): the shortest head, and the shortest float that keeps the value.

import { Major } from './cbor-head.ts'

/** What has been written, and what writes more: each function appends one item or its head. */
export interface CborOutput {
  /** A head; the argument is an integer below 2^64. */
  head(major: number, argument: number | bigint): void
  /** A number: as an integer where it is one that a double holds for certain, or a bigint within 64 bits; else as a float. */
  number(value: number | bigint): void
  text(value: string): void
  data(value: Uint8Array): void
  /** `false`, `true` or `null`. */
  simple(value: boolean | null): void
  /** A copy of all that was written. */
  bytes(): Uint8Array
}

const simpleBytes = new Map<boolean | null, number>([
  [false, 0xf4],
  [true, 0xf5],
  [null, 0xf6],
])

export function openCborOutput(): CborOutput {
  let bytes = new Uint8Array(256)
  let view = new DataView(bytes.buffer)
  let length = 0

  /** Makes room, and gives the place of it. */
  function take(count: number): number {
    if (length + count > bytes.length) {
      const larger = new Uint8Array(2 * (length + count))
      larger.set(bytes)
      bytes = larger
      view = new DataView(bytes.buffer)
    }
    length += count
    return length - count
  }

  function append(content: Uint8Array): void {
    const at = take(content.length)
    bytes.set(content, at)
  }

  const output: CborOutput = {
    head(major, argument) {
      const first = major << 5
      const width = argument < 24 ? 0 : argument < 2 ** 8 ? 1 : argument < 2 ** 16 ? 2 : argument < 2 ** 32 ? 4 : 8
      const at = take(1 + width)
      view.setUint8(at, first | (width === 0 ? Number(argument) : 24 + Math.log2(width)))
      if (width === 0) return
      if (width === 1) view.setUint8(at + 1, Number(argument))
      else if (width === 2) view.setUint16(at + 1, Number(argument))
      else if (width === 4) view.setUint32(at + 1, Number(argument))
      else view.setBigUint64(at + 1, BigInt(argument))
    },
    number(value) {
      if (typeof value === 'number' && (!Number.isSafeInteger(value) || Object.is(value, -0))) writeFloat(value)
      else if (value < 0) output.head(Major.negative, typeof value === 'bigint' ? -1n - value : -1 - value)
      else output.head(Major.unsigned, value)
    },
    text(value) {
      const content = Buffer.from(value, 'utf8')
      output.head(Major.text, content.length)
      append(content)
    },
    data(value) {
      output.head(Major.bytes, value.length)
      append(value)
    },
    simple(value) {
      const at = take(1)
      view.setUint8(at, simpleBytes.get(value)!)
    },
    bytes: () => bytes.slice(0, length),
  }

  function writeFloat(value: number): void {
    const half = halfBits(value)
    const single = Math.fround(value) === value
    const at = take(half >= 0 ? 3 : single ? 5 : 9)
    view.setUint8(at, half >= 0 ? 0xf9 : single ? 0xfa : 0xfb)
    if (half >= 0) view.setUint16(at + 1, half)
    else if (single) view.setFloat32(at + 1, value)
    else view.setFloat64(at + 1, value)
  }

  return output
}

/** The bits of a finite value as a half; -1 where a half does not hold it. */
function halfBits(value: number): number {
  const size = Math.abs(value)
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  if (size === 0) return sign
  const exponent = Math.max(-14, Math.floor(Math.log2(size)))
  const count = size / 2 ** (exponent - 10)
  if (!Number.isInteger(count) || exponent > 15) return -1
  return sign | (count < 1024 ? count : ((exponent + 14) << 10) + count)
}
