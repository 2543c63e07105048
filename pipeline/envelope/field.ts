// Looks up fields of a JSON payload by their path.

import { parseAhead } from '../../transformers/json/parse.ts'

type JsonRoot = Readonly<Record<string, unknown>>

/**
 * The root object of a payload; null for a payload with another root.
 *
 * @throws DecodeError if it is JSON within the limits of a payload only up to a point
 */
export function rootObject(payload: Uint8Array): JsonRoot | null {
  if (!beginsAsObject(payload)) return null
  const root = parseAhead(payload)
  return typeof root === 'object' && root !== null && !Array.isArray(root) ? (root as JsonRoot) : null
}

/** The text, number or boolean at a path as text, integers with all their digits; null if there is no such value, or an empty text. */
export function fieldText(root: JsonRoot | null, path: readonly string[]): string | null {
  let value: unknown = root
  for (const key of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, key)) return null
    value = (value as JsonRoot)[key]
  }
  if (typeof value === 'string') return value === '' ? null : value
  return typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean' ? String(value) : null
}

const openBrace = 0x7b
const byteOrderMark = [0xef, 0xbb, 0xbf]

/** Whether the first byte after white space is a brace: CBOR, packs of SenML and arrays have no fields, and are not parsed. */
function beginsAsObject(payload: Uint8Array): boolean {
  let at = byteOrderMark.every((byte, index) => payload[index] === byte) ? byteOrderMark.length : 0
  while (payload[at] === 0x20 || (payload[at]! >= 0x09 && payload[at]! <= 0x0d)) at++
  return payload[at] === openBrace
}
