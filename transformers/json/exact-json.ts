// Reads JSON exactly as it is written: integers beyond 2^53 become bigints, and a key with an escape in it is that key.
//
// JSON.parse gives a double for every number; it can call a function with the text of each, which takes twice as long as this. And it
// may take a key with an escape for another: V8 from 12.8 to 14.6 at least, once it has seen the key `\\`, reads the key `\n` as that one.
// One device could so rename the keys of others. So JSON.parse says whether a text is JSON, and where a text has such integers or keys,
// this reads what is in it.

const space = 0x20
const quote = 0x22
const plus = 0x2b
const comma = 0x2c
const minus = 0x2d
const dot = 0x2e
const zero = 0x30
const nine = 0x39
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
/** Capital letters lack it. */
const lowerBit = 0x20
const openBrace = 0x7b
const closeBrace = 0x7d
const letterE = 0x65
const letterF = 0x66
const letterN = 0x6e
const letterT = 0x74

/** The text that is read, and the place of the character that is next. */
let text = ''
let at = 0

/**
 * The value of a text. Of a key given twice, the last counts; `__proto__` is a key like any other.
 *
 * @param json what JSON.parse has taken, and nested no deeper than a few hundred levels
 */
export function readExactJson(json: string): unknown {
  text = json
  at = 0
  try {
    return readValue()
  } finally {
    text = ''
  }
}

/** The next character that is no blank. */
function next(): number {
  while (text.charCodeAt(at) <= space) at++
  return text.charCodeAt(at)
}

function readValue(): unknown {
  switch (next()) {
    case openBrace:
      return readObject()
    case openBracket:
      return readArray()
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
      return readNumber()
  }
}

function readObject(): Record<string, unknown> {
  const object: Record<string, unknown> = {}
  at++
  while (next() !== closeBrace) {
    if (text.charCodeAt(at) === comma) {
      at++
      next()
    }
    const key = readText()
    next()
    at++
    const value = readValue()
    // An assignment to it would change what the object is.
    if (key === '__proto__') Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })
    else object[key] = value
  }
  at++
  return object
}

function readArray(): unknown[] {
  const array: unknown[] = []
  at++
  while (next() !== closeBracket) {
    if (text.charCodeAt(at) === comma) at++
    array.push(readValue())
  }
  at++
  return array
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

function readNumber(): number | bigint {
  const start = at
  let whole = true
  for (let code = text.charCodeAt(at); ; code = text.charCodeAt(++at)) {
    if (code >= zero && code <= nine) continue
    if (code === dot || (code | lowerBit) === letterE) whole = false
    else if (code !== minus && code !== plus) break
  }
  const digits = text.slice(start, at)
  const number = Number(digits)
  return whole && !Number.isSafeInteger(number) ? BigInt(digits) : number
}
