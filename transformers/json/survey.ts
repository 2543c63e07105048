// Scans a JSON payload before it is parsed: checks depth and counts, and detects numbers that need exact parsing.
//
// One pass that assumes valid JSON; JSON.parse later reports it if it is not. A payload that passes can be parsed by JSON.parse
// without deep recursion and with memory of only a small multiple of the payload.

import { badNumber, badText, tooDeep, tooManyContainers, tooManyKeys } from './faults.ts'
import { containersMax, depthMax, keysMax } from './limits.ts'

const quote = 0x22
const plus = 0x2b
const comma = 0x2c
const minus = 0x2d
const dot = 0x2e
const zero = 0x30
const nine = 0x39
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const letterE = 0x65
const letterU = 0x75
/** Brackets and capital letters differ from braces and small letters only in this bit. */
const lowerBit = 0x20
const openBrace = 0x7b
const closeBrace = 0x7d

/** A decimal with this many digits survives the conversion to a double and back. */
const exactDigits = 15

/** A number below 10 to this power is in the range of a double. */
const finiteMagnitude = 308

/** Numbers estimated below this are surely in the range of a double despite the rounding error; others are parsed again exactly. */
const surelyFinite = 1.79e308
/** Below this, another digit can be appended without losing precision (15 digits). */
const firstDigits = 1e14

const latin1 = new TextDecoder('latin1')

/**
 * Bits for numbers that JSON.parse may not return exactly: those with 16 or more digits, including the fraction, which a double may not
 * represent.
 */
export const Care = { longFractions: 1, longIntegers: 2 } as const

/**
 * Returns the bits of Care that apply.
 *
 * @throws DecodeError `nesting-depth`, `key-count`, `container-count`, `number-finite`, `text-nul`, `text-surrogate`
 */
export function survey(bytes: Uint8Array): number {
  const { length } = bytes
  const most = containersMax(length)
  let depth = 0
  let keys = 0
  let containers = 0
  let care = 0
  let rootIsArray = false
  let record = 0
  let at = 0
  // Nested loops, because branches that go the same way for many bytes are cheap.
  while (at < length) {
    const byte = bytes[at++]!
    if (byte === quote) {
      while (at < length) {
        const inside = bytes[at++]!
        if (inside === quote) break
        if (inside === backslash) at = endOfEscape(bytes, at, record)
      }
    } else if (byte >= zero && byte <= nine) {
      const start = at - 1
      while (at < length && isDigitOrDot(bytes[at]!)) at++
      const hasExponent = at < length && (bytes[at]! | lowerBit) === letterE
      if (hasExponent || at - start > exactDigits) {
        const digits = digitsIn(bytes, start, at)
        const isWhole = digits === at - start && !hasExponent
        if (digits > exactDigits) care |= isWhole ? Care.longIntegers : Care.longFractions
        const end = at
        let exponent = 0
        if (hasExponent) {
          at = endOfExponent(bytes, end + 1)
          exponent = exponentIn(bytes, end + 1, at)
        }
        if (end - start + exponent > finiteMagnitude && nearest(bytes, start, end, exponent) > surelyFinite)
          checkNumber(bytes, start, at, record)
      }
    } else if (byte === comma) {
      if (depth === 1 && rootIsArray) record++
    } else if (byte === colon) {
      if (++keys > keysMax) throw tooManyKeys()
    } else if ((byte | lowerBit) === openBrace) {
      if (containers === 0) rootIsArray = byte === openBracket
      if (++containers > most) throw tooManyContainers(most)
      if (++depth > depthMax) throw tooDeep(record)
    } else if ((byte | lowerBit) === closeBrace) {
      depth--
    }
  }
  return care
}

function isDigitOrDot(byte: number): boolean {
  return (byte >= zero && byte <= nine) || byte === dot
}

function digitsIn(bytes: Uint8Array, start: number, end: number): number {
  let digits = 0
  for (let at = start; at < end; at++) if (bytes[at] !== dot) digits++
  return digits
}

function endOfExponent(bytes: Uint8Array, start: number): number {
  let at = bytes[start] === minus || bytes[start] === plus ? start + 1 : start
  while (at < bytes.length && bytes[at]! >= zero && bytes[at]! <= nine) at++
  return at
}

/** The exponent of a number, or 0 for a negative one. */
function exponentIn(bytes: Uint8Array, start: number, end: number): number {
  if (bytes[start] === minus) return 0
  let exponent = 0
  for (let at = bytes[start] === plus ? start + 1 : start; at < end; at++) exponent = exponent * 10 + (bytes[at]! - zero)
  return exponent
}

/** Estimates a number from its first digits, ignoring its sign: inexact, and too large if its exponent is negative. */
function nearest(bytes: Uint8Array, start: number, end: number, exponent: number): number {
  let number = 0
  let zeros = exponent
  let fraction = 0
  for (let at = start; at < end; at++) {
    const digit = bytes[at]! - zero
    if (digit < 0) fraction = 1
    else if (number < firstDigits) {
      number = number * 10 + digit
      zeros -= fraction
    } else zeros += 1 - fraction
  }
  return number === 0 ? 0 : number * 10 ** zeros
}

/** Rejects a number beyond the range of a double, which JSON.parse would turn into Infinity. A malformed number is left to JSON.parse. */
function checkNumber(bytes: Uint8Array, start: number, end: number, record: number): void {
  if (Number(latin1.decode(bytes.subarray(start, end))) === Number.POSITIVE_INFINITY) throw badNumber(record)
}

/**
 * The index after an escape, given the index after its backslash. Only an escape can produce a NUL or half of a surrogate pair: raw control
 * characters in strings are not JSON, and half of a pair is not UTF-8.
 */
function endOfEscape(bytes: Uint8Array, start: number, record: number): number {
  if (bytes[start] !== letterU) return start + 1
  const unit = codeUnitAt(bytes, start + 1)
  if (unit === 0) throw badText('nul', record)
  if (unit < 0 || (unit & 0xf800) !== 0xd800) return start + 5
  const isPair =
    unit < 0xdc00 && bytes[start + 5] === backslash && bytes[start + 6] === letterU && codeUnitAt(bytes, start + 7) >> 10 === 0xdc00 >> 10
  if (!isPair) throw badText('surrogate', record)
  return start + 11
}

/** The value of each byte as a hexadecimal digit, or -1. */
const hexadecimal = new Int8Array(256).fill(-1)
for (let value = 0; value < 16; value++) {
  hexadecimal[value.toString(16).charCodeAt(0)] = value
  hexadecimal[value.toString(16).toUpperCase().charCodeAt(0)] = value
}

/** The code unit of four hexadecimal digits; negative if they are invalid, which JSON.parse rejects. */
function codeUnitAt(bytes: Uint8Array, start: number): number {
  if (start + 4 > bytes.length) return -1
  let unit = 0
  for (let at = start; at < start + 4; at++) {
    const digit = hexadecimal[bytes[at]!]!
    if (digit < 0) return -1
    unit = unit * 16 + digit
  }
  return unit
}
