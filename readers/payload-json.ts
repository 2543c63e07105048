// The canonical form of a JSON payload: the same text on every store, whatever order and spelling the store keeps.

type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json }

const longDigits = /\d{16}/
const integer = /^-?\d+$/
const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

/**
 * Keys sorted by code unit at every depth, no blanks; numbers as JavaScript prints them, but integers within int64 keep all
 * their digits. A key that is there twice counts once, the last.
 *
 * @param text valid JSON
 */
export function canonicalPayload(text: string): string {
  // A double holds every integer of 15 digits, so only a longer run can lose some.
  return print(
    longDigits.test(text) ? (JSON.parse(text, keepInteger as Parameters<typeof JSON.parse>[1]) as Json) : (JSON.parse(text) as Json),
  )
}

/** As JavaScript prints it. What JSON has no number for comes from a foreign writer only, and is null. */
export function numberText(value: number): string {
  return Number.isFinite(value) ? String(value) : 'null'
}

const keepInteger: Reviver = (_key, value, { source }) => {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || source === undefined || !integer.test(source)) return value
  // 19 digits and a sign; BigInt of a text is quadratic in its length.
  if (source.length > 20) return value
  const exact = BigInt(source)
  return exact >= int64Min && exact <= int64Max ? exact : value
}

function print(value: Json): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'number') return numberText(value)
  if (value === null || typeof value === 'boolean' || typeof value === 'bigint') return String(value)
  if (Array.isArray(value)) return `[${value.map(print).join(',')}]`
  // Not through an object: one would print keys that look like an index first.
  let text = '{'
  for (const key of Object.keys(value).sort()) {
    text += `${text.length > 1 ? ',' : ''}${JSON.stringify(key)}:${print(value[key]!)}`
  }
  return `${text}}`
}
