// Reads and checks the heads of CBOR items (RFC 8949 §3): every item starts with one.
//
//   first byte   3 bits major type, 5 bits information
//   argument     the information itself below 24; else the following 1, 2, 4 or 8 bytes, most significant first
//   24 to 27     tell how many bytes; 28 to 30 are reserved; 31 is an indefinite length, or the break that ends one

import { badTag, indefiniteLength, malformed, truncated } from './faults.ts'
import { bytes, end, view } from './input.ts'

/** The major types of RFC 8949 §3.1. */
export const Major = { unsigned: 0, negative: 1, bytes: 2, text: 3, array: 4, map: 5, tag: 6, other: 7 } as const

/** The only supported tag (RFC 8428 §6): `4([exponent, mantissa])`. */
const decimalFractionTag = 4

const word = 2 ** 32

/** The head read last. One object is reused, so that reading a head allocates nothing. */
export const head = {
  major: 0,
  /** The five bits of information. */
  info: 0,
  /** The argument as the nearest double. */
  argument: Number.NaN,
  /** The argument exactly: its upper and lower 32 bits. */
  high: Number.NaN,
  low: Number.NaN,
}

/**
 * Reads the head at `at` into `head`, and returns the index after it.
 *
 * @param record the current record, for the error
 * @throws DecodeError if the head is cut off or malformed, its length is indefinite, or its tag is not supported
 */
export function readHead(at: number, record: number | undefined): number {
  if (at >= end) throw truncated(record)
  const first = bytes[at]!
  const info = first & 0x1f
  const major = first >> 5
  if (info > 27) throw specialHead(first, record)
  let next = at + 1
  let high = 0
  let low = info
  if (info > 23) {
    next += 1 << (info - 24)
    if (next > end) throw truncated(record)
    if (info === 24) low = bytes[at + 1]!
    else if (info === 25) low = view.getUint16(at + 1)
    else low = view.getUint32(next - 4)
    if (info === 27) high = view.getUint32(at + 1)
  }
  head.major = major
  head.info = info
  head.high = high
  head.low = low
  head.argument = high * word + low
  if (major === Major.tag && head.argument !== decimalFractionTag) throw badTag(head.argument, record)
  if (major === Major.other && info === 24 && low < 32) throw malformed('a simple value below 32 in two bytes', record)
  return next
}

function specialHead(first: number, record: number | undefined): Error {
  const major = first >> 5
  if ((first & 0x1f) < 31) return malformed('a first byte that is reserved', record)
  if (major === Major.other) return malformed('a break in place of an item', record)
  if (major >= Major.bytes && major <= Major.map) return indefiniteLength(first, record)
  return malformed('an indefinite length where none is allowed', record)
}

/** The end of the content, which begins at `start`, of the string whose head was read last. @throws DecodeError if it is cut off */
export function endOfString(start: number, record: number): number {
  if (head.argument > end - start) throw truncated(record)
  return start + head.argument
}

/** The integer whose head was read last, as the nearest double. Rounds only once: −1 − argument would round an already rounded argument. */
export function integerOfHead(): number {
  return head.major === Major.unsigned ? head.argument : -(head.high * word + (head.low + 1))
}

/** The digits of the integer whose head was read last. */
export function digitsOfHead(): string {
  if (head.high < 2 ** 20) return String(integerOfHead())
  const argument = (BigInt(head.high) << 32n) | BigInt(head.low)
  return String(head.major === Major.unsigned ? argument : -1n - argument)
}
