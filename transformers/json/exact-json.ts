// Reads JSON exactly as it is written: a key with an escape in it is that key, and integers beyond 2^53 keep their digits.
//
// JSON.parse may take a key with an escape for another: V8 from 12.8 to 14.6 at least, once it has seen the key `\\`, reads the key `\n` as
// that one. So one device could rename the keys of others. And it gives a double for every number; it can call a function with the text
// of each, which takes twice as long as this. So JSON.parse says whether a text is JSON, and where a text has such keys or integers, this
// reads what is in it.

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
/** Capital letters lack it. */
const lowerBit = 0x20
const openBrace = 0x7b
/** From an opening bracket or brace to the closing one. */
const toClosing = 2
const letterE = 0x65
const letterF = 0x66
const letterN = 0x6e
const letterT = 0x74

/** What becomes of an integer beyond 2^53, of which `nearest` is the double. */
export type IntegerReader = (digits: string, nearest: number) => number | bigint

/** The text that is read, and the place of the character that is next. */
let text = ''
let at = 0

/**
 * As JSON.parse, but a key with an escape in it is that key.
 *
 * @throws SyntaxError for what is not JSON
 */
export function parseExactKeys(json: string): unknown {
  const value: unknown = JSON.parse(json)
  return hasEscapedKey(json) ? readExactJson(json, nearestDouble) : value
}

function nearestDouble(_digits: string, nearest: number): number {
  return nearest
}

/**
 * Whether a text has a key with an escape in it, which only `readExactJson` reads right.
 *
 * @param json what JSON.parse has taken
 */
export function hasEscapedKey(json: string): boolean {
  let place = json.indexOf('\\')
  while (place >= 0) {
    // Backslashes stand in texts only: to the end of this one.
    for (let code = backslash; code !== quote; code = json.charCodeAt(place)) place += code === backslash ? 2 : 1
    place++
    while (json.charCodeAt(place) <= space) place++
    if (json.charCodeAt(place) === colon) return true
    place = json.indexOf('\\', place)
  }
  return false
}

/**
 * The value of a text, nested as deep as may be. Of a key given twice, the last counts; `__proto__` is a key like any other.
 *
 * @param json what JSON.parse has taken
 * @param readInteger for integers beyond 2^53; by default a bigint of all their digits
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

/** What is being read: an object with the key that is next, or, without, an array with the place of its first element. */
interface Container {
  readonly object: Record<string, unknown> | undefined
  key: string
  readonly start: number
  readonly around: Container | undefined
}

/**
 * Without calling itself, as a text may be nested deeper than the stack. The elements of an array that is not yet ended stand behind those
 * of the arrays around it: pushed onto one of its own, a single one would take room for seventeen.
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

/** The next character that is no blank. */
function next(): number {
  while (text.charCodeAt(at) <= space) at++
  return text.charCodeAt(at)
}

function define(object: Record<string, unknown>, key: string, value: unknown): void {
  // An assignment to it would change what the object is.
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

/** A key, and the colon behind it. */
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
