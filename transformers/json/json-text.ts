// JSON text of a value that may hold integers beyond 2^53: every digit of them stands in it.

import type { JsonValue } from '../record-batch.ts'

/** Node has `JSON.rawJSON`, the library's types do not yet. */
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown }

/**
 * The text of a value, without blanks, keys in their order.
 *
 * @throws RangeError where the value is nested some thousand levels deep, or its text is longer than a string can be
 */
export function jsonText(value: JsonValue): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // Integers of that size are rare: a replacer makes everything slower, so it is tried without one first.
    if (!(error instanceof TypeError)) throw error
    return JSON.stringify(value, (_key, part: unknown) => (typeof part === 'bigint' ? rawJSON(String(part)) : part))
  }
}
