// From the bytes of a payload to its values, with every digit of its integers.

import { hasEscapedKey, readExactJson } from './exact-json.ts'
import { notJson, notUtf8 } from './faults.ts'
import { Care, survey } from './survey.ts'

/** Drops a leading byte-order mark, as JSON parsers may (RFC 8259 §8.1). */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * The value of a payload; an integer beyond 2^53 is a bigint. Of a key given twice, the last counts; `__proto__` is a key like any other.
 *
 * @param care what `survey` said of it
 * @throws DecodeError `utf-8`, `json-syntax`
 */
export function parsePayload(payload: Uint8Array, care: number): unknown {
  const text = decodeText(payload)
  try {
    const value = plainValue(text, care)
    return value === undefined ? readExactJson(text) : value
  } catch (cause) {
    throw notJson(cause)
  }
}

/**
 * What JSON.parse gives, or undefined where it is not what is written. A function of its own: what it gives is then held by nobody while
 * it is read again, so that both are never in memory at once.
 */
function plainValue(text: string, care: number): unknown {
  const value: unknown = JSON.parse(text)
  return (care & Care.longIntegers) !== 0 || hasEscapedKey(text) ? undefined : value
}

/**
 * The value of any JSON, within the caps of a payload; see `parsePayload`.
 *
 * @throws DecodeError those of `survey` and `parsePayload`
 */
export function parseJson(payload: Uint8Array): unknown {
  return parsePayload(payload, survey(payload))
}

function decodeText(payload: Uint8Array): string {
  try {
    return utf8.decode(payload)
  } catch (cause) {
    throw notUtf8(cause)
  }
}
