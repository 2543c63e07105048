// Unix times: seconds, ms, µs or ns since 1970, parsed from their decimal text so that no digit is lost.

import type { Timestamp } from './timestamp.ts'

/** Nanoseconds in one unit, as a power of ten. */
export const unixUnits = { unix: 9, unix_ms: 6, unix_us: 3, unix_ns: 0 } as const
export type UnixFormat = keyof typeof unixUnits

const dot = 0x2e
const comma = 0x2c
const zero = 0x30
const capitalE = 0x45
const letterE = 0x65

const timeText = /^[+-]?\d+(?:[.,]\d+)?$/

/** Whether a string is a Unix time: digits, optionally with a fraction after a dot or comma. */
export function isUnixTime(text: string): boolean {
  return timeText.test(text)
}

/** More than the digits that fit in a payload, and far below 2^53, above which adding one has no effect. */
const exponentMax = 2 ** 30

/** Writes the instant of a whole number to `timestamp`; see `readDecimal` for fractions. */
export function readWhole(number: number, unit: number, timestamp: Timestamp): void {
  if (unit >= 3) {
    timestamp.us = 0 + number * (unit === 9 ? 1e6 : unit === 6 ? 1e3 : 1)
    timestamp.restNs = 0
    return
  }
  timestamp.us = 0 + Math.floor(number / 1000)
  timestamp.restNs = number - timestamp.us * 1000
}

/**
 * Writes the instant of a decimal number to `timestamp`; digits beyond the nanosecond are cut. An instant beyond ±2^53 µs becomes infinite.
 *
 * @param text a JSON number, or a text for which `isUnixTime` is true
 */
export function readDecimal(text: string, unit: number, timestamp: Timestamp): void {
  const negative = text.startsWith('-')
  const start = negative || text.startsWith('+') ? 1 : 0
  let point = -1
  let end = start
  for (; end < text.length; end++) {
    const character = text.charCodeAt(end)
    if (character === dot || character === comma) point = end
    else if (character === letterE || character === capitalE) break
  }
  const whole = (point < 0 ? end : point) - start
  const digits = end - start - (point < 0 ? 0 : 1)
  const exponent = end < text.length ? Math.min(Math.max(Number(text.slice(end + 1)), -exponentMax), exponentMax) : 0
  /** How many of the leading digits are whole microseconds; digits before the first and after the last are zeros. */
  const usDigits = whole + exponent + unit - 3

  let us = 0
  for (let place = 0; place < usDigits && us <= Number.MAX_SAFE_INTEGER && (place < digits || us > 0); place++) {
    us = us * 10 + (place < digits ? digitAt(text, start, whole, place) : 0)
  }
  if (us > Number.MAX_SAFE_INTEGER) us = Number.POSITIVE_INFINITY
  let restNs = 0
  for (let place = usDigits; place < usDigits + 3; place++) {
    restNs = restNs * 10 + (place >= 0 && place < digits ? digitAt(text, start, whole, place) : 0)
  }
  // Before 1970 the rest counts up from the previous microsecond.
  const borrowed = negative && restNs > 0
  timestamp.us = negative ? 0 - us - (borrowed ? 1 : 0) : us
  timestamp.restNs = borrowed ? 1000 - restNs : restNs
}

/** A digit by its index among those of a number, `whole` of which are before the point. */
function digitAt(text: string, start: number, whole: number, place: number): number {
  return text.charCodeAt(start + place + (place < whole ? 0 : 1)) - zero
}
