// The numbers of SenML CBOR (RFC 8428 §6): integers, floats of three widths, and decimal fractions.

import { badDecimal, notFinite, wrongItem } from './faults.ts'
import { digitsOfHead, head, integerOfHead, Major, readHead } from './head.ts'
import { bytes, view } from './input.ts'

/** The number read last, and the index after it. */
export const found = { number: Number.NaN, next: 0 }

/** The powers of ten that a double holds exactly: a product or quotient of one with an exact integer rounds once (Clinger 1990). */
const powersOfTen = Float64Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`))

/**
 * Reads the number at `at` into `found`, in any encoding.
 *
 * @param label the bit of its label, for the error
 * @throws DecodeError if there is no number, or it is not finite
 */
export function readNumber(at: number, label: number, record: number): void {
  found.next = readHead(at, record)
  if (head.major <= Major.negative) found.number = integerOfHead()
  else if (head.major === Major.tag) readDecimal(found.next, record)
  else if (head.major === Major.other && head.info > 24) found.number = floatAt(at)
  else throw wrongItem(label, 'a number', bytes[at]!, record)
  if (!Number.isFinite(found.number)) throw notFinite(label, record)
}

/** The float at `at`, whose head was read last. */
function floatAt(at: number): number {
  if (head.info === 27) return view.getFloat64(at + 1)
  return head.info === 26 ? view.getFloat32(at + 1) : halfAt(at + 1)
}

function halfAt(at: number): number {
  const bits = view.getUint16(at)
  const sign = bits < 0x8000 ? 1 : -1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (fraction + 1024) * 2 ** (exponent - 25))
}

/**
 * Reads the content of a decimal fraction, which starts after its tag, into `found`: mantissa × 10 ^ exponent as the nearest
 * double (RFC 8949 §3.4.4). If it cannot be computed exactly, the engine parses it as decimal text, whose time does not depend on the exponent.
 */
export function readDecimal(at: number, record: number): void {
  let next = readHead(at, record)
  if (head.major !== Major.array || head.argument !== 2) throw badDecimal(record)
  next = readHead(next, record)
  if (head.major > Major.negative) throw badDecimal(record)
  const exponent = integerOfHead()
  next = readHead(next, record)
  if (head.major > Major.negative) throw badDecimal(record)
  const mantissa = integerOfHead()
  found.next = next
  if (exponent >= -22 && exponent <= 22 && Number.isSafeInteger(mantissa)) {
    found.number = exponent < 0 ? mantissa / powersOfTen[-exponent]! : mantissa * powersOfTen[exponent]!
  } else {
    found.number = Number(`${digitsOfHead()}e${exponent}`)
  }
}
