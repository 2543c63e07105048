// Writes JSON text, with all digits of integers beyond 2^53.

import type { JsonValue } from '../record-batch.ts'

/** Node.js has `JSON.rawJSON`, but TypeScript's library types do not yet. */
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown }

/**
 * The text of a value, without white space, with keys in order.
 *
 * @throws RangeError if the value is nested several thousand levels deep, or its text is longer than the maximum string
 */
export function jsonText(value: JsonValue): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // Such integers are rare and a replacer slows everything down, so it is first tried without one.
    if (!(error instanceof TypeError)) throw error
    return JSON.stringify(value, (_key, part: unknown) => (typeof part === 'bigint' ? rawJSON(String(part)) : part))
  }
}
