// Parses JSON exactly: keys with escapes are read correctly, and integers beyond 2^53 keep their digits.
//
// JSON.parse may confuse keys with escapes: V8 from at least 12.8 to 14.6, once it has seen the key `\\`, reads the key `\n` as
// that one. So one device could rename the keys of others. It also returns a double for every number; it can call a function with the text
// of each, but that takes twice as long as this parser. So JSON.parse decides whether a text is JSON, and a text with such keys or integers
// is parsed again here.

const space = 0x20
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
/** The bit that capital letters do not have. */
const lowerBit = 0x20
const openBrace = 0x7b
/** Difference of the codes of an opening bracket or brace and the closing one. */
const toClosing = 2
const letterE = 0x65
const letterF = 0x66
const letterN = 0x6e
const letterT = 0x74

/** Converts an integer beyond 2^53; `nearest` is its nearest double. */
export type IntegerReader = (digits: string, nearest: number) => number | bigint

/** The text being parsed, and the index of the next character. */
let text = ''
let at = 0

/**
 * Like JSON.parse, but reads keys with escapes correctly.
 *
 * @throws SyntaxError if the text is not JSON
 */
export function parseExactKeys(json: string): unknown {
  const value: unknown = JSON.parse(json)
  return hasEscapedKey(json) ? readExactJson(json, nearestDouble) : value
}

function nearestDouble(_digits: string, nearest: number): number {
  return nearest
}

/**
 * Whether a text has a key with an escape, which only `readExactJson` reads correctly.
 *
 * @param json text that JSON.parse has accepted
 */
export function hasEscapedKey(json: string): boolean {
  let place = json.indexOf('\\')
  while (place >= 0) {
    // A backslash occurs in strings only: skip to the end of this one.
    for (let code = backslash; code !== quote; code = json.charCodeAt(place)) place += code === backslash ? 2 : 1
    place++
    while (json.charCodeAt(place) <= space) place++
    if (json.charCodeAt(place) === colon) return true
    place = json.indexOf('\\', place)
  }
  return false
}

/**
 * Parses a text of any nesting depth. Of duplicate keys the last one counts; `__proto__` is an ordinary key.
 *
 * @param json text that JSON.parse has accepted
 * @param readInteger converts integers beyond 2^53; by default to a bigint
 */
export function readExactJson(json: string, readInteger: IntegerReader = BigInt): unknown {
  text = json
  at = 0
  try {
    return readValue(readInteger)
  } finally {
    text = ''
  }
}

/** The container being read: an object with its current key or, without one, an array with the index of its first element. */
interface Container {
  readonly object: Record<string, unknown> | undefined
  key: string
  readonly start: number
  readonly around: Container | undefined
}

/**
 * Not recursive, because a text may be nested deeper than the stack. Elements of unfinished arrays share one array, inner after
 * outer: an own array per level would allocate space for seventeen elements for a single one.
 */
function readValue(readInteger: IntegerReader): unknown {
  const elements: unknown[] = []
  let end = 0
  let container: Container | undefined
  for (;;) {
    const code = next()
    let value: unknown
    if (code === openBrace || code === openBracket) {
      at++
      if (next() !== code + toClosing) {
        container =
          code === openBrace
            ? { object: {}, key: readKey(), start: 0, around: container }
            : { object: undefined, key: '', start: end, around: container }
        continue
      }
      at++
      value = code === openBrace ? {} : []
    } else {
      value = readScalar(code, readInteger)
    }
    for (;;) {
      if (container === undefined) return value
      if (container.object === undefined) elements[end++] = value
      else define(container.object, container.key, value)
      const follower = next()
      at++
      if (follower === comma) break
      if (container.object === undefined) {
        value = elements.slice(container.start, end)
        end = container.start
      } else {
        value = container.object
      }
      container = container.around
    }
    if (container.object !== undefined) container.key = readKey()
  }
}

/** The next character that is not white space. */
function next(): number {
  while (text.charCodeAt(at) <= space) at++
  return text.charCodeAt(at)
}

/** Sets the key. An assignment to `__proto__` would change the object's prototype. */
export function define(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })
  else object[key] = value
}

function readScalar(code: number, readInteger: IntegerReader): unknown {
  switch (code) {
    case quote:
      return readText()
    case letterT:
      at += 4
      return true
    case letterF:
      at += 5
      return false
    case letterN:
      at += 4
      return null
    default:
      return readNumber(readInteger)
  }
}

/** Reads a key and the colon after it. */
function readKey(): string {
  next()
  const key = readText()
  next()
  at++
  return key
}

function readText(): string {
  const start = ++at
  let escaped = false
  for (let code = text.charCodeAt(at); code !== quote; code = text.charCodeAt(++at)) {
    if (code !== backslash) continue
    escaped = true
    at++
  }
  const end = at++
  return escaped ? (JSON.parse(text.slice(start - 1, at)) as string) : text.slice(start, end)
}

function readNumber(readInteger: IntegerReader): number | bigint {
  const start = at
  let whole = true
  for (let code = text.charCodeAt(at); ; code = text.charCodeAt(++at)) {
    if (code >= zero && code <= nine) continue
    if (code === dot || (code | lowerBit) === letterE) whole = false
    else if (code !== minus && code !== plus) break
  }
  const digits = text.slice(start, at)
  const number = Number(digits)
  return whole && !Number.isSafeInteger(number) ? readInteger(digits, number) : number
}
