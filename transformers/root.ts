// Looks at the root of a JSON payload, without parsing it, for what the payload is.

import { byteAt, closeBrace, colon, comma, openBrace, openBracket, quote, skipSpace } from './senml/json-tokens.ts'
import { labelAt } from './senml/plain-json.ts'
import { Label } from './senml/record.ts'

const backslash = 0x5c
/** Brackets differ from braces only in this bit. */
const braceBit = openBrace ^ openBracket

/** Whether the root is an object. A byte-order mark is skipped, as by the decoders. */
export function hasObjectRoot(bytes: Uint8Array): boolean {
  // The first byte of nearly every pack.
  if (byteAt(bytes, 0) === openBracket) return false
  return byteAt(bytes, rootAt(bytes)) === openBrace
}

/**
 * Whether the root is an array whose first element looks like a SenML record: an object with a text `n` or `bn`, or with no other keys than labels of
 * SenML. A key that is written with escapes is no label. Reads no further than the first element, and does not check that it is JSON.
 */
export function hasSenmlRoot(bytes: Uint8Array): boolean {
  let at = rootAt(bytes)
  if (byteAt(bytes, at) !== openBracket) return false
  at = skipSpace(bytes, at + 1)
  if (byteAt(bytes, at) !== openBrace) return false
  let hasOnlyLabels = true
  do {
    at = skipSpace(bytes, at + 1)
    if (byteAt(bytes, at) !== quote) return false
    const label = labelAt(bytes, at + 1)
    at = skipSpace(bytes, endOfText(bytes, at))
    if (byteAt(bytes, at) !== colon) return false
    at = skipSpace(bytes, at + 1)
    if ((label & (Label.n | Label.bn)) !== 0 && byteAt(bytes, at) === quote) return true
    if (label === 0) hasOnlyLabels = false
    at = endOfValue(bytes, at)
  } while (byteAt(bytes, at) === comma)
  return hasOnlyLabels && byteAt(bytes, at) === closeBrace
}

/**
 * The bytes of a member of the root, the last of that name, as they are written.
 *
 * @param bytes JSON whose root is an object
 * @param name without characters that need an escape: a key that is written with escapes is another one
 */
export function memberOf(bytes: Uint8Array, name: string): Uint8Array | undefined {
  const key = Buffer.from(JSON.stringify(name))
  let member: Uint8Array | undefined
  let at = skipSpace(bytes, rootAt(bytes) + 1)
  while (byteAt(bytes, at) === quote) {
    const keyEnd = endOfText(bytes, at)
    const start = skipSpace(bytes, skipSpace(bytes, keyEnd) + 1)
    const end = endOfValue(bytes, start)
    if (key.equals(bytes.subarray(at, keyEnd))) member = bytes.subarray(start, end)
    at = skipSpace(bytes, end + 1)
  }
  return member
}

function rootAt(bytes: Uint8Array): number {
  const hasMark = byteAt(bytes, 0) === 0xef && byteAt(bytes, 1) === 0xbb && byteAt(bytes, 2) === 0xbf
  return skipSpace(bytes, hasMark ? 3 : 0)
}

/** The index after a text, given that of its opening quote. */
function endOfText(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1
  return at + 1
}

/** The index of the comma or the closing bracket after a value. */
function endOfValue(bytes: Uint8Array, start: number): number {
  let depth = 0
  let at = start
  while (at < bytes.length) {
    const byte = bytes[at]!
    if (byte === quote) {
      at = endOfText(bytes, at)
      continue
    }
    if (depth === 0 && (byte === comma || (byte | braceBit) === closeBrace)) break
    if ((byte | braceBit) === openBrace) depth++
    else if ((byte | braceBit) === closeBrace) depth--
    at++
  }
  return at
}
