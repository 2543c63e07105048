// Parses the bytes of a payload, keeping all digits of integers.

import { hasEscapedKey, readExactJson } from './exact-json.ts'
import { notJson, notUtf8 } from './faults.ts'
import { Care, survey } from './survey.ts'

/** Drops a leading byte-order mark, as JSON parsers may (RFC 8259 §8.1). */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a payload; an integer beyond 2^53 becomes a bigint. Of duplicate keys the last one counts; `__proto__` is an ordinary key.
 *
 * @param care the result of `survey`
 * @throws DecodeError `utf-8`, `json-syntax`
 */
export function parsePayload(payload: Uint8Array, care: number): unknown {
  if (ahead?.payload === payload) {
    const { root } = ahead
    ahead = undefined
    return root
  }
  const text = decodeText(payload)
  try {
    const value = plainValue(text, care)
    return value === undefined ? readExactJson(text) : value
  } catch (cause) {
    throw notJson(cause)
  }
}

/**
 * The result of JSON.parse, or undefined if it would not be exact. A separate function, so that the discarded result is not referenced while
 * the text is parsed again: both are never in memory at once.
 */
function plainValue(text: string, care: number): unknown {
  const value: unknown = JSON.parse(text)
  return (care & Care.longIntegers) !== 0 || hasEscapedKey(text) ? undefined : value
}

let ahead: { readonly payload: Uint8Array; readonly root: unknown } | undefined

/**
 * `parseJson` for a payload that is looked at before it is decoded, for the fields of its envelope. The decoder gets the same root, so the caller must
 * not change it. Parsing takes most of a decoder's time.
 *
 * @throws DecodeError as `parseJson`
 */
export function parseAhead(payload: Uint8Array): unknown {
  ahead = undefined
  const root = parseJson(payload)
  ahead = { payload, root }
  return root
}

/**
 * Parses any JSON within the limits of a payload; see `parsePayload`.
 *
 * @throws DecodeError as `survey` and `parsePayload`
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
