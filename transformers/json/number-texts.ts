// Finds the text of the numbers at one key of the documents: a time may have more digits than the double from JSON.parse.

const quote = '"'.charCodeAt(0)
const comma = ','.charCodeAt(0)
const backslash = '\\'.charCodeAt(0)
/** Brackets and braces differ only in this bit. */
const lowerBit = 0x20
const openBrace = '{'.charCodeAt(0)
const closeBrace = '}'.charCodeAt(0)

const utf8 = new TextDecoder('utf-8')

const colonBehindKey = /[ \t\r\n]*:[ \t\r\n]*/y
const number = /-?\d[\d.eE+-]*/y

/** The text of the number at a key of a document, by the document's ordinal. */
export type ExactNumbers = (key: string, record: number) => string | undefined

/** Scans a payload, which JSON.parse has accepted, once for each requested key. */
export function openExactNumbers(payload: Uint8Array): ExactNumbers {
  const byKey = new Map<string, ReadonlyMap<number, string>>()
  return (key, record) => {
    let texts = byKey.get(key)
    if (texts === undefined) byKey.set(key, (texts = numberTexts(payload, key)))
    return texts.get(record)
  }
}

/**
 * The texts of the numbers at a key of the root object, or of each object of the root array, by the document's ordinal. Of duplicate keys
 * with numbers the last one counts.
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
      // A string without a colon after it is a value.
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

/** The index after the closing quote of a string. */
function endOfText(text: string, start: number): number {
  let at = start
  while (text.charCodeAt(at) !== quote) at += text.charCodeAt(at) === backslash ? 2 : 1
  return at + 1
}

function isKey(text: string, start: number, end: number, key: string): boolean {
  if (end - start === key.length) return text.startsWith(key, start) && !key.includes('\\')
  // Each escape makes the text longer than the key by up to five characters.
  const isLonger = end - start > key.length && end - start <= 6 * key.length
  return isLonger && JSON.parse(text.slice(start - 1, end + 1)) === key
}
