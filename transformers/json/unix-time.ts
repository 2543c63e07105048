// Unix times: numbers since 1970 in seconds, ms, µs or ns, read from their decimal text, so that not one digit is lost.

import type { Instant } from './instant.ts'

/** Nanoseconds in one unit, as a power of ten. */
export const unixUnits = { unix: 9, unix_ms: 6, unix_us: 3, unix_ns: 0 } as const
export type UnixFormat = keyof typeof unixUnits

const dot = 0x2e
const comma = 0x2c
const zero = 0x30
const capitalE = 0x45
const letterE = 0x65

const timeText = /^[+-]?\d+(?:[.,]\d+)?$/

/** Whether a string is a Unix time: digits, with a fraction behind a dot or comma. */
export function isUnixTime(text: string): boolean {
  return timeText.test(text)
}

/** Beyond any number of digits that a payload can have, and far below 2^53, above which counting by one stands still. */
const exponentMax = 2 ** 30

/** Leaves the instant of a whole number in `instant`; see `readDecimal` for the others. */
export function readWhole(number: number, unit: number, instant: Instant): void {
  if (unit >= 3) {
    instant.us = 0 + number * (unit === 9 ? 1e6 : unit === 6 ? 1e3 : 1)
    instant.restNs = 0
    return
  }
  instant.us = 0 + Math.floor(number / 1000)
  instant.restNs = number - instant.us * 1000
}

/**
 * Leaves the instant of a decimal number in `instant`: digits beyond the nanosecond are cut. An instant beyond ±2^53 µs becomes infinite.
 *
 * @param text a number of JSON, or one for which `isUnixTime` holds
 */
export function readDecimal(text: string, unit: number, instant: Instant): void {
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
  /** How many digits, from the first one on, are whole microseconds; zeros follow the last digit, and stand before the first one. */
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
  // Below 1970 the rest counts up from the microsecond before.
  const borrowed = negative && restNs > 0
  instant.us = negative ? 0 - us - (borrowed ? 1 : 0) : us
  instant.restNs = borrowed ? 1000 - restNs : restNs
}

/** A digit by its place among those of a number, of which `whole` stand before the point. */
function digitAt(text: string, start: number, whole: number, place: number): number {
  return text.charCodeAt(start + place + (place < whole ? 0 : 1)) - zero
}
