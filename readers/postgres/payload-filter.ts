// The JSON values whose text is the one that is asked for: a string always, and a number, a truth value or null where the text is theirs.

import { numberText } from '../payload-json.ts'

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/**
 * As JSON texts. Numbers are compared by their value in jsonb, and stored as JavaScript prints them or with every digit. Those beyond int64
 * that have the text are left to `wholeNumbersOf`.
 */
export function scalarCandidates(text: string): string[] {
  const candidates = [JSON.stringify(text)]
  if (text === 'true' || text === 'false' || text === 'null') candidates.push(text)
  else if (isInt64(text) || (isDouble(text) && Math.abs(Number(text)) < 2 ** 63)) candidates.push(text)
  return candidates
}

/**
 * The least and the greatest whole number beyond int64 whose text this is; undefined where there is none. jsonb keeps every digit of them, and
 * answers show the nearest double.
 */
export function wholeNumbersOf(text: string): readonly [least: string, greatest: string] | undefined {
  if (isInt64(text) || !isDouble(text)) return undefined
  const double = Number(text)
  if (Math.abs(double) < 2 ** 63) return undefined
  const [least, greatest] = roundedTo(BigInt(Math.abs(double)))
  if (double > 0) return [String(least > int64Max ? least : int64Max + 1n), String(greatest)]
  return [String(-greatest), String(-least < int64Min ? -least : int64Min - 1n)]
}

/** The whole numbers whose nearest double is this one, at least 2^63: of two that are as near, the even one is (IEEE 754 §4.3.1). */
function roundedTo(double: bigint): readonly [least: bigint, greatest: bigint] {
  const exponent = BigInt(double.toString(2).length - 1)
  const halfUp = 1n << (exponent - 53n)
  // Below a power of two doubles lie twice as close.
  const halfDown = double === 1n << exponent ? halfUp / 2n : halfUp
  const odd = (double >> (exponent - 52n)) & 1n
  return [double - halfDown + odd, double + halfUp - odd]
}

/** With every digit, as answers print it. */
function isInt64(text: string): boolean {
  if (!/^(0|-?[1-9]\d{0,18})$/.test(text)) return false
  const exact = BigInt(text)
  return exact >= int64Min && exact <= int64Max
}

/** As JavaScript prints it. */
function isDouble(text: string): boolean {
  return /^-?\d/.test(text) && numberText(Number(text)) === text
}
