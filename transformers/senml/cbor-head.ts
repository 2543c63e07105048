// The heads of CBOR items and what they refuse (RFC 8949 §3): every item begins with one.
//
//   first byte   3 bits major type, 5 bits information
//   argument     the information itself below 24; else the 1, 2, 4 or 8 bytes behind it, most significant first
//   24 to 27     say how many bytes; 28 to 30 are reserved; 31 is an indefinite length, or the break that ends one

import { badTag, cutShort, indefiniteLength, malformed } from './cbor-faults.ts'
import { bytes, end, view } from './cbor-input.ts'

/** The major types of RFC 8949 §3.1. */
export const Major = { unsigned: 0, negative: 1, bytes: 2, text: 3, array: 4, map: 5, tag: 6, other: 7 } as const

/** The only tag that is read (RFC 8428 §6): `4([exponent, mantissa])`. */
const decimalFractionTag = 4

const word = 2 ** 32

/** The head that was read last. One object, so that a head costs none. */
export const head = {
  major: 0,
  /** The five bits of information. */
  info: 0,
  /** The argument, to the nearest double. */
  argument: Number.NaN,
  /** The argument exactly: its upper and lower 32 bits. */
  high: Number.NaN,
  low: Number.NaN,
}

/**
 * Reads the head at `at` into `head`, and gives the place behind it.
 *
 * @param record the record at hand, for the error
 * @throws DecodeError where the head is cut or malformed, its length indefinite, or its tag not the one that is read
 */
export function readHead(at: number, record: number | undefined): number {
  if (at >= end) throw cutShort(record)
  const first = bytes[at]!
  const info = first & 0x1f
  const major = first >> 5
  if (info > 27) throw specialHead(first, record)
  let next = at + 1
  let high = 0
  let low = info
  if (info > 23) {
    next += 1 << (info - 24)
    if (next > end) throw cutShort(record)
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
  if (major === Major.other) return malformed('a break where an item must stand', record)
  if (major >= Major.bytes && major <= Major.map) return indefiniteLength(first, record)
  return malformed('an indefinite length where none can be', record)
}

/** The end of the content of the string whose head was read last, from `start` on. @throws DecodeError where it is cut */
export function endOfString(start: number, record: number): number {
  if (head.argument > end - start) throw cutShort(record)
  return start + head.argument
}

/** The integer whose head was read last, to the nearest double. Rounded once: −1 − argument would round an argument that is rounded already. */
export function integerOfHead(): number {
  return head.major === Major.unsigned ? head.argument : -(head.high * word + (head.low + 1))
}

/** The digits of the integer whose head was read last. */
export function digitsOfHead(): string {
  if (head.high < 2 ** 20) return String(integerOfHead())
  const argument = (BigInt(head.high) << 32n) | BigInt(head.low)
  return String(head.major === Major.unsigned ? argument : -1n - argument)
}
