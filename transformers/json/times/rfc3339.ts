// Reads the date-times of RFC 3339 §5.6, wherever one is given: in time fields, envelopes, queries, requests and commands.

import { daysInMonth, daysOf } from './calendar.ts'
import { found, readNanoseconds, readNumber, readOffset } from './layout-text.ts'
import type { Timestamp } from './timestamp.ts'

const dayS = 86_400

/** Since 1970, the nanoseconds from 0 to 999,999,999. */
interface UnixTime {
  readonly seconds: number
  readonly nanoseconds: number
}

/**
 * Digits beyond the nanosecond are cut off. A leap second is 23:59:60 UTC on the last day of a month; Unix time does not count it, so it becomes the
 * first second of the next day. Which months had one is not known here.
 *
 * @returns undefined for any other text
 */
export function parseRfc3339(text: string): UnixTime | undefined {
  const year = numberAt(text, 0, 4, 9999)
  const month = numberAt(text, 5, 2, 12)
  const day = numberAt(text, 8, 2, 31)
  const hour = numberAt(text, 11, 2, 23)
  const minute = numberAt(text, 14, 2, 59)
  const second = numberAt(text, 17, 2, 60)
  // NaN if one of them is.
  if (!(year + hour + minute + second >= 0) || !(month > 0) || !(day > 0) || day > daysInMonth(year, month)) return undefined
  if (!isSeparated(text)) return undefined
  const fractionEnd = text.charAt(19) === '.' ? readNanoseconds(text, 19) : 19
  const nanoseconds = fractionEnd === 19 ? 0 : found.number
  const offsetS = offsetAt(text, fractionEnd)
  if (Number.isNaN(offsetS)) return undefined
  const seconds = daysOf(year, month, day) * dayS + hour * 3600 + minute * 60 + second - offsetS
  if (second === 60 && !beginsMonth(seconds, year, month)) return undefined
  return { seconds, nanoseconds }
}

/** NaN unless there are this many digits, of at most this number. */
function numberAt(text: string, at: number, digits: number, most: number): number {
  return readNumber(text, at, digits, digits, most) < 0 ? Number.NaN : found.number
}

/** Whether the separators of date and time are there. §5.6 leaves it to applications to take a space for the T. */
function isSeparated(text: string): boolean {
  const between = text.charAt(10)
  if (between !== 'T' && between !== 't' && between !== ' ') return false
  return text.charAt(4) === '-' && text.charAt(7) === '-' && text.charAt(13) === ':' && text.charAt(16) === ':'
}

/** The offset that ends the text, in seconds east of UTC; NaN if there is none. */
function offsetAt(text: string, at: number): number {
  const end = text.charAt(at)
  if ((end === 'Z' || end === 'z') && at + 1 === text.length) return 0
  return readOffset(text, at, '07:00') === text.length ? found.number : Number.NaN
}

/** Writes the instant to `timestamp`; returns false, with nothing written, if the text is not RFC 3339. */
export function readRfc3339(text: string, timestamp: Timestamp): boolean {
  const time = parseRfc3339(text)
  if (time === undefined) return false
  timestamp.us = time.seconds * 1e6 + Math.floor(time.nanoseconds / 1000)
  timestamp.restNs = time.nanoseconds % 1000
  return true
}

/** Whether an instant begins a month of UTC: the one that is named with another offset, or the next. */
function beginsMonth(seconds: number, year: number, month: number): boolean {
  const next = month === 12 ? daysOf(year + 1, 1, 1) : daysOf(year, month + 1, 1)
  return seconds === daysOf(year, month, 1) * dayS || seconds === next * dayS
}
