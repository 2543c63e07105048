// The canonical form of a JSON payload: the same text for every store, whatever order and notation the store keeps.

import { hasEscapedKey, readExactJson } from './exact-json.ts'

/** A JSON value; integers that a double cannot represent are bigints. */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json }

const longDigits = /\d{16}/
/** Nineteen digits and a sign. */
const int64CharactersMax = 20
export const int64Min = -(2n ** 63n)
export const int64Max = 2n ** 63n - 1n

/**
 * Keys are sorted by code unit at every depth, without white space. Numbers are printed as in JavaScript, but integers within int64 keep all
 * their digits. Of duplicate keys the last one counts.
 *
 * @param text valid JSON
 */
export function canonicalPayload(text: string): string {
  return printJson(parsePayload(text))
}

/** Parses a payload; integers within int64 stay exact, even if a double would round them. */
export function parsePayload(text: string): Json {
  const value: unknown = JSON.parse(text)
  // A double is exact for every integer of 15 digits, so only longer ones can lose digits.
  return (longDigits.test(text) || hasEscapedKey(text) ? readExactJson(text, int64OrDouble) : value) as Json
}

/** As JavaScript prints it. What JSON has no number for comes from a foreign writer only, and is null. */
export function numberText(value: number): string {
  return Number.isFinite(value) ? String(value) : 'null'
}

/** The double that is printed as this text; undefined if there is none. */
export function doubleOf(text: string): number | undefined {
  const number = Number(text)
  return Number.isFinite(number) && String(number) === text ? number : undefined
}

/** The int64 that is printed as this text, with every digit; undefined if there is none. */
export function int64Of(text: string): bigint | undefined {
  if (!/^(0|-?[1-9]\d{0,18})$/.test(text)) return undefined
  const exact = BigInt(text)
  return exact >= int64Min && exact <= int64Max ? exact : undefined
}

function int64OrDouble(digits: string, nearest: number): number | bigint {
  // Parsing a BigInt takes quadratic time.
  if (digits.length > int64CharactersMax) return nearest
  const exact = BigInt(digits)
  return exact >= int64Min && exact <= int64Max ? exact : nearest
}

/** Prints a value in the canonical form. */
export function printJson(value: Json): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'number') return numberText(value)
  if (typeof value === 'bigint') return value >= int64Min && value <= int64Max ? String(value) : numberText(Number(value))
  if (value === null || typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return `[${value.map(printJson).join(',')}]`
  // Not through an object, which would print keys that look like an index first.
  let text = '{'
  for (const key of Object.keys(value).sort()) {
    text += `${text.length > 1 ? ',' : ''}${JSON.stringify(key)}:${printJson(value[key]!)}`
  }
  return `${text}}`
}
