// How the numbers at one key of the documents were written: a time may have more digits than the double that JSON.parse makes of it.

const quote = '"'.charCodeAt(0)
const comma = ','.charCodeAt(0)
const backslash = '\\'.charCodeAt(0)
/** Brackets and braces differ by this bit alone. */
const lowerBit = 0x20
const openBrace = '{'.charCodeAt(0)
const closeBrace = '}'.charCodeAt(0)

const utf8 = new TextDecoder('utf-8')

const colonBehindKey = /[ \t\r\n]*:[ \t\r\n]*/y
const number = /-?\d[\d.eE+-]*/y

/** How the number at a key of a document was written, by the document's ordinal. */
export type ExactNumbers = (key: string, record: number) => string | undefined

/** Looks through a payload, which JSON.parse has taken, once for each key that is asked for. */
export function openExactNumbers(payload: Uint8Array): ExactNumbers {
  const byKey = new Map<string, ReadonlyMap<number, string>>()
  return (key, record) => {
    let texts = byKey.get(key)
    if (texts === undefined) byKey.set(key, (texts = numberTexts(payload, key)))
    return texts.get(record)
  }
}

/**
 * The texts of the numbers at a key of the root object, or of each object of the root array, by the document's ordinal. Of a key given
 * twice with numbers, the last counts.
 */
function numberTexts(payload: Uint8Array, key: string): ReadonlyMap<number, string> {
  const text = utf8.decode(payload)
  const texts = new Map<number, string>()
  const rootIsArray = text.trimStart().startsWith('[')
  const documentDepth = rootIsArray ? 2 : 1
  let depth = 0
  let record = 0
  let at = 0
  while (at < text.length) {
    const unit = text.charCodeAt(at++)
    if (unit === quote) {
      const start = at
      at = endOfText(text, at)
      if (depth !== documentDepth || !isKey(text, start, at - 1, key)) continue
      colonBehindKey.lastIndex = at
      // A text that no colon follows is a value.
      if (!colonBehindKey.test(text)) continue
      number.lastIndex = colonBehindKey.lastIndex
      if (number.test(text)) texts.set(record, text.slice(colonBehindKey.lastIndex, number.lastIndex))
    } else if (unit === comma) {
      if (depth === 1 && rootIsArray) record++
    } else if ((unit | lowerBit) === openBrace) {
      depth++
    } else if ((unit | lowerBit) === closeBrace) {
      depth--
    }
  }
  return texts
}

/** The place behind the quote that ends a text. */
function endOfText(text: string, start: number): number {
  let at = start
  while (text.charCodeAt(at) !== quote) at += text.charCodeAt(at) === backslash ? 2 : 1
  return at + 1
}

function isKey(text: string, start: number, end: number, key: string): boolean {
  if (end - start === key.length) return text.startsWith(key, start) && !key.includes('\\')
  // With an escape it is longer than what it says, by up to five characters for each.
  const isLonger = end - start > key.length && end - start <= 6 * key.length
  return isLonger && JSON.parse(text.slice(start - 1, end + 1)) === key
}
