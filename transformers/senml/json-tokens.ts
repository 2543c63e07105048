// Reads the tokens of plain JSON from bytes: ASCII strings without escapes, numbers, white space (RFC 8259).
//
// A read function returns the index after what it read, or -1 if that is not plain, and writes the value to `found`:
// so a token allocates nothing, and the index stays in a register.

const utf8 = new TextDecoder('utf-8', { fatal: true })

export const quote = 0x22
export const comma = 0x2c
export const colon = 0x3a
export const openBracket = 0x5b
const backslash = 0x5c
export const closeBracket = 0x5d
export const openBrace = 0x7b
export const closeBrace = 0x7d
const minus = 0x2d
const plus = 0x2b
const dot = 0x2e
const zero = 0x30
const nine = 0x39
const space = 0x20

/** The powers of ten that a double holds exactly: a product or quotient of one with an exact integer rounds once (Clinger 1990). */
const powersOfTen = Float64Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`))

/**
 * Cache of texts by a hash of their bytes: names and units repeat, and a cached one needs no new string.
 * One text per slot, the newest, and only short ones: at most about 6 MB per thread, whatever devices send. A new string costs more than its decoding:
 * it is hashed again where rows are grouped, and survives garbage collections with its batch.
 */
const knownTexts: string[] = Array.from({ length: 65_536 }, () => '')
const knownTextBytesMax = 64

/** The value read last. */
export const found = { number: Number.NaN, text: '' }

/** The byte at `at`, or 0 beyond the end, which is never valid here. Reading beyond an array's end even once makes all later reads slow. */
export function byteAt(bytes: Uint8Array, at: number): number {
  return at < bytes.length ? bytes[at]! : 0
}

/** Reads a string, starting after its opening quote. */
export function readText(bytes: Uint8Array, start: number): number {
  let at = start
  let hash = 0
  let code = byteAt(bytes, at)
  while (code !== quote) {
    if (code < space || code >= 0x80 || code === backslash) return -1
    hash = (Math.imul(hash, 31) + code) | 0
    code = byteAt(bytes, ++at)
  }
  if (at - start > knownTextBytesMax) {
    found.text = utf8.decode(bytes.subarray(start, at))
    return at + 1
  }
  const slot = (hash ^ (hash >>> 13)) & (knownTexts.length - 1)
  let text = knownTexts[slot]!
  if (!isTextAt(text, bytes, start, at)) {
    text = utf8.decode(bytes.subarray(start, at))
    knownTexts[slot] = text
  }
  found.text = text
  return at + 1
}

function isTextAt(text: string, bytes: Uint8Array, start: number, end: number): boolean {
  if (text.length !== end - start) return false
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) !== bytes[start + at]) return false
  return true
}

/** Reads a number by the grammar of RFC 8259 §6, as the same double that JSON.parse returns. */
export function readNumber(bytes: Uint8Array, start: number): number {
  let at = start
  let code = byteAt(bytes, at)
  if (code === minus) code = byteAt(bytes, ++at)
  let mantissa = 0
  const integerAt = at
  if (code === zero) {
    code = byteAt(bytes, ++at)
  } else {
    while (code >= zero && code <= nine) {
      mantissa = mantissa * 10 + (code - zero)
      code = byteAt(bytes, ++at)
    }
    if (at === integerAt) return -1
  }
  let exponent = 0
  if (code === dot) {
    const fractionAt = at + 1
    code = byteAt(bytes, ++at)
    while (code >= zero && code <= nine) {
      mantissa = mantissa * 10 + (code - zero)
      code = byteAt(bytes, ++at)
    }
    if (at === fractionAt) return -1
    exponent = fractionAt - at
  }
  if (code === 0x65 || code === 0x45) {
    code = byteAt(bytes, ++at)
    const negative = code === minus
    if (negative || code === plus) code = byteAt(bytes, ++at)
    const exponentAt = at
    let given = 0
    while (code >= zero && code <= nine) {
      given = given * 10 + (code - zero)
      code = byteAt(bytes, ++at)
    }
    if (at === exponentAt) return -1
    exponent += negative ? -given : given
  }
  let number: number
  if (mantissa > Number.MAX_SAFE_INTEGER || exponent < -22 || exponent > 22) {
    number = Number(utf8.decode(bytes.subarray(start, at)))
    if (!Number.isFinite(number)) return -1
  } else {
    number = exponent < 0 ? mantissa / powersOfTen[-exponent]! : mantissa * powersOfTen[exponent]!
    if (bytes[start] === minus) number = -number
  }
  found.number = number
  return at
}

/** The index of the first byte from `start` on that is not white space. */
export function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start
  let code = byteAt(bytes, at)
  while (code === space || code === 0x0a || code === 0x0d || code === 0x09) code = byteAt(bytes, ++at)
  return at
}
