// The filter of a field of a payload, as far as the store can answer it: it may let through what does not fit, and never keeps back what does.
//
// A dotted path of MongoDB looks into arrays as well, and knows no key that is empty or holds a dot. So what it lets through is looked at once
// more here.

import { numberText } from '../payload-json.ts'
import type { PayloadFilter } from '../query.ts'
import type { Filter } from './select.ts'

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/** undefined where the store cannot be asked. */
export function payloadCondition({ path, text }: PayloadFilter): Filter | undefined {
  // Foreign values of kinds that JSON has no form for are null as well.
  if (text === 'null' || !path.every(isPlainKey)) return undefined
  return { [`payload.${path.join('.')}`]: { $in: scalarsOf(text) } }
}

/**
 * As every server takes one for a key: one that begins with a dollar might be an operator, and FerretDB takes none that begins or ends with a
 * blank.
 */
function isPlainKey(key: string): boolean {
  return /^[^\s$.\0\u0085][^\s.\0\u0085]*$/u.test(key)
}

/** Everything stored that has this text. Both servers compare numbers by their value, whatever their type. */
function scalarsOf(text: string): unknown[] {
  const scalars: unknown[] = [text]
  if (text === 'true' || text === 'false') scalars.push(text === 'true')
  if (/^(0|-?[1-9]\d{0,18})$/.test(text)) {
    const exact = BigInt(text)
    if (exact >= int64Min && exact <= int64Max) scalars.push(exact)
  }
  // Beyond 2^53 a double is printed with digits of its own, which are not its exact value.
  if (/^-?\d/.test(text) && numberText(Number(text)) === text) scalars.push(Number(text))
  return scalars
}
