// Date-times of requests (RFC 3339) in the form that the database accepts: it rejects offsets of a day and years of five digits.

import { refuseFaults } from './text.ts'

const [yearMin, yearMax] = [1970, 9999]

/**
 * @param text of the format `date-time`
 * @param pointer where it stands
 * @returns the same instant in UTC, to the microsecond
 * @throws HttpError `malformed_request` outside the years from 1970 to 9999
 */
export function toUtc(text: string, pointer: string): string {
  // A leap second becomes the second before it: Date has none.
  const instant = new Date(text.replace(/(?<=^.{17})60/, '59'))
  const year = instant.getUTCFullYear()
  if (!(year >= yearMin && year <= yearMax)) {
    const detail = `is not a time from the years ${yearMin} to ${yearMax} in UTC: give one such as 2026-01-31T12:00:00Z`
    refuseFaults([{ pointer, detail }])
  }
  // An offset is of whole minutes, so that the fraction is the same in UTC.
  const fraction = /\.(\d{1,6})/.exec(text)?.[1] ?? '0'
  return `${instant.toISOString().slice(0, 19)}.${fraction}Z`
}
