// How large a text of a request may be, and that it can be stored: also where it comes another way than in a body.

import { type Fault, HttpError } from '../config/http/errors.ts'
import { unstorable } from '../config/http/json-body.ts'

/** What is wrong with a text, or undefined: characters that no store keeps, or more bytes than allowed. */
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
