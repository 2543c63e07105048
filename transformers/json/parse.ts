// From the bytes of a payload to its values, with every digit of its integers.

import { readExactJson } from './exact-json.ts'
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
    const value: unknown = JSON.parse(text)
    return (care & (Care.longIntegers | Care.escapedKeys)) === 0 ? value : readExactJson(text)
  } catch (cause) {
    throw notJson(cause)
  }
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
