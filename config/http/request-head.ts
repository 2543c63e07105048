// What a request's head may ask of every route: HTTP/1, a host, no expectation, and no coding of the body.

import type { IncomingMessage } from 'node:http'
import { HttpError } from './errors.ts'

/**
 * True for a request that Node.js would answer itself, without a body, unless the server listens to `checkExpectation`: it
 * expects something else than 100-continue (RFC 9110 §10.1.1; HTTP/1.0 has no expectations).
 */
function isUnmet({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1' && !/(?:^|\W)100-continue(?:$|\W)/i.test(headers.expect)
}

/** What is wrong with the head of a request, whatever route it is for; undefined for nearly all. */
export function headFault(request: IncomingMessage): HttpError | undefined {
  const { host, 'transfer-encoding': transferEncoding } = request.headers
  // The parser takes a first line without a version (HTTP/0.9) and one with 2.0, and Node.js closes the connection behind either.
  if (request.httpVersion !== '1.1' && request.httpVersion !== '1.0') {
    return new HttpError('malformed_request', `HTTP/${request.httpVersion} is not spoken here: end the first line with HTTP/1.1`)
  }
  if (host === undefined && request.httpVersion === '1.1') {
    return new HttpError('malformed_request', 'the header host is missing: send it, as HTTP/1.1 demands (RFC 9112 §3.2)')
  }
  if (isUnmet(request)) {
    return new HttpError(
      'malformed_request',
      'the header expect asks for what is not known here: leave it out, or send expect: 100-continue',
    )
  }
  // The parser takes every list that ends in `chunked`, and gives the bytes as they came (RFC 9112 §6.1).
  if (transferEncoding !== undefined && transferEncoding.trim().toLowerCase() !== 'chunked') {
    return new HttpError('malformed_request', 'a transfer-encoding other than chunked is not taken: send the body without it')
  }
  return undefined
}

/** A body whose coding nobody here undoes: its bytes would be taken for what they are not, and stored compressed. */
export function encodedBodyFault({ headers }: IncomingMessage): HttpError | undefined {
  const encoding = headers['content-encoding']
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return undefined
  // Some clients send the header with every request, also with one that has no body.
  if (headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0') return undefined
  return new HttpError('unsupported_media_type', 'a compressed body is not taken: send it without Content-Encoding')
}
