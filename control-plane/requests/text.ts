// Checks that a text of a request is not too large and can be stored, also where it does not come in a body; and converts date-times.

import { type Fault, HttpError } from '../../http/errors.ts'
import { unstorable } from '../../http/requests/json-body.ts'
import { parseRfc3339 } from '../../transformers/json/times/rfc3339.ts'

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
 * Converts a date-time (RFC 3339) to a form that the database accepts: it rejects offsets of a day and years of five digits.
 *
 * @param pointer its place in the request
 * @returns the same time in UTC, to the microsecond
 * @throws HttpError `malformed_request` for another text, and outside the years from 1970 to 9999
 */
export function toUtc(text: string, pointer: string): string {
  const time = parseRfc3339(text)
  const date = new Date((time?.seconds ?? Number.NaN) * 1000)
  const year = date.getUTCFullYear()
  if (time !== undefined && year >= yearMin && year <= yearMax)
    return `${date.toISOString().slice(0, 19)}.${String(Math.floor(time.nanoseconds / 1000)).padStart(6, '0')}Z`
  const detail = `is not a time from the years ${yearMin} to ${yearMax} in UTC: give one such as 2026-01-31T12:00:00Z`
  throw new HttpError('malformed_request', undefined, { faults: [{ pointer, detail }] })
}
