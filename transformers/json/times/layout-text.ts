// Parses the parts of a time text: digits, names, fractions, offsets.
//
// A read function returns the index after what it read, or -1 if it did not match, and writes the value to `found`.

const zero = 0x30

/** The value read last. */
export const found = { number: 0 }

/** The digit at `at`, or -1. */
export function digitAt(text: string, at: number): number {
  const digit = text.charCodeAt(at) - zero
  return digit >= 0 && digit <= 9 ? digit : -1
}

/**
 * Reads a number of `least` to `most` digits.
 *
 * @param limit the largest allowed value
 */
export function readNumber(text: string, start: number, least: number, most: number, limit: number): number {
  let number = 0
  let at = start
  for (; at < start + most; at++) {
    const digit = digitAt(text, at)
    if (digit < 0) break
    number = number * 10 + digit
  }
  found.number = number
  return at - start < least || number > limit ? -1 : at
}

/** Reads one of the names, ignoring case; `names` are in lower case. The value found is its index. */
export function readName(text: string, start: number, names: readonly string[]): number {
  for (let at = 0; at < names.length; at++) {
    const name = names[at]!
    if (text.slice(start, start + name.length).toLowerCase() !== name) continue
    found.number = at
    return start + name.length
  }
  return -1
}

/** Reads a fraction with its dot or comma as nanoseconds; digits beyond the ninth are cut. Without one, returns the same index. */
export function readNanoseconds(text: string, start: number): number {
  found.number = 0
  const separator = text.charAt(start)
  if ((separator !== '.' && separator !== ',') || digitAt(text, start + 1) < 0) return start
  let at = start + 1
  let unit = 1e8
  for (let digit = digitAt(text, at); digit >= 0; digit = digitAt(text, ++at)) {
    found.number += digit * Math.floor(unit)
    unit /= 10
  }
  return at
}

/** Reads an offset of a form such as `07:00`, with the sign before it, as seconds east of UTC: less than a day. */
export function readOffset(text: string, start: number, form: string): number {
  const sign = text.charAt(start)
  if (sign !== '+' && sign !== '-') return -1
  let at = start + 1
  let offsetS = 0
  let unitS = 3600
  for (let place = 0; place < form.length; place += 2) {
    if (form.charAt(place) === ':') {
      if (text.charAt(at++) !== ':') return -1
      place++
    }
    at = readNumber(text, at, 2, 2, unitS === 3600 ? 23 : 59)
    if (at < 0) return -1
    offsetS += found.number * unitS
    unitS /= 60
  }
  found.number = sign === '-' ? 0 - offsetS : offsetS
  return at
}
