// Checks that a text of a request is not too large and can be stored, also where it does not come in a body; and converts date-times.

import { type Fault, HttpError } from '../../http/errors.ts'
import { unstorable } from '../../http/requests/json-body.ts'

/** The fault in a text, or undefined: characters that no store keeps, or more bytes than allowed. */
export function textFault(text: string, bytesMax: number): string | undefined {
  const problem = unstorable(text)
  if (problem !== undefined) return problem
  const bytes = Buffer.byteLength(text)
  return bytes > bytesMax ? `has ${bytes} bytes in UTF-8: give at most ${bytesMax}` : undefined
}

/** @throws HttpError `malformed_request` when there is a fault */
export function refuseFaults(faults: readonly Fault[]): void {
  if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults })
}

const [yearMin, yearMax] = [1970, 9999]

/**
 * Converts a date-time of a request (RFC 3339) to a form that the database accepts: it rejects offsets of a day and years of five digits.
 *
 * @param text of the format `date-time`
 * @param pointer its place in the request
 * @returns the same time in UTC, to the microsecond
 * @throws HttpError `malformed_request` outside the years from 1970 to 9999
 */
export function toUtc(text: string, pointer: string): string {
  // A leap second becomes the second before it, because Date has no leap seconds.
  const date = new Date(text.replace(/(?<=^.{17})60/, '59'))
  const year = date.getUTCFullYear()
  if (!(year >= yearMin && year <= yearMax)) {
    const detail = `is not a time from the years ${yearMin} to ${yearMax} in UTC: give one such as 2026-01-31T12:00:00Z`
    refuseFaults([{ pointer, detail }])
  }
  // Offsets are whole minutes, so the fraction is the same in UTC.
  const fraction = /\.(\d{1,6})/.exec(text)?.[1] ?? '0'
  return `${date.toISOString().slice(0, 19)}.${fraction}Z`
}
