// The JSON values whose text is the one that is asked for: a string always, and a number, a truth value or null where the text is theirs.

import { numberText } from '../payload-json.ts'

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/** As JSON texts. Numbers are compared by their value in jsonb, and stored as JavaScript prints them or with every digit. */
export function scalarCandidates(text: string): string[] {
  const candidates = [JSON.stringify(text)]
  if (text === 'true' || text === 'false' || text === 'null') candidates.push(text)
  else if (isNumberText(text)) candidates.push(text)
  return candidates
}

/** A number as answers print it. */
function isNumberText(text: string): boolean {
  if (/^-?(0|[1-9]\d{0,18})$/.test(text)) {
    const exact = BigInt(text)
    return exact >= int64Min && exact <= int64Max && text !== '-0'
  }
  return /^-?\d/.test(text) && numberText(Number(text)) === text
}
