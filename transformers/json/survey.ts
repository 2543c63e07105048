// Looks over the bytes of a JSON payload before anything is made of them: how deep, how many, and what in it needs care.
//
// One pass that takes for granted that the bytes are JSON: where they are not, JSON.parse says so later. What it lets through, JSON.parse
// takes without deep recursion and without more memory than a small multiple of the payload.

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
/** Brackets and letters differ from braces and small letters by this bit alone. */
const lowerBit = 0x20
const openBrace = 0x7b
const closeBrace = 0x7d

/** A double of so many digits is printed with the digits that it was written with. */
const exactDigits = 15

/** A number below 10 to this power is within a double. */
const finiteMagnitude = 308

/** Numbers below are within a double though the last of their digits is not right, and the others are read once more, exactly. */
const surelyFinite = 1.79e308
/** A number of 15 digits at the most, with another one behind it. */
const firstDigits = 1e14

const latin1 = new TextDecoder('latin1')

/**
 * What a payload has that JSON.parse does not give as it is written, as bits: numbers of 16 or more digits, counted across the decimal
 * point, which a double may not hold.
 */
export const Care = { longFractions: 1, longIntegers: 2 } as const

/**
 * Says with the bits of Care what there is.
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
  // Loops within loops, as branches that go the same way for many bytes are the cheap ones.
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

/** A number by its first digits, without its sign: not exactly, and too large where its exponent is negative. */
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

/** Refuses a number beyond a double, which JSON.parse would make Infinity. What is no number is left to JSON.parse. */
function checkNumber(bytes: Uint8Array, start: number, end: number, record: number): void {
  if (Number(latin1.decode(bytes.subarray(start, end))) === Number.POSITIVE_INFINITY) throw badNumber(record)
}

/**
 * The place behind an escape, from behind its backslash. Only an escape can bring in a NUL or half of a surrogate pair: a control
 * character in a text is no JSON, and half of a pair no UTF-8.
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

/** What each byte is as a hexadecimal digit, or -1. */
const hexadecimal = new Int8Array(256).fill(-1)
for (let value = 0; value < 16; value++) {
  hexadecimal[value.toString(16).charCodeAt(0)] = value
  hexadecimal[value.toString(16).toUpperCase().charCodeAt(0)] = value
}

/** The code unit of four hexadecimal digits; negative where they are none, which JSON.parse refuses. */
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
