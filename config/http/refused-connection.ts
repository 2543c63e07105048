// Answers what is no HTTP, or too slow or large for it: there is no request, so the answer is written by hand.

import { randomUUID } from 'node:crypto'
import { maxHeaderSize, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { errorBody } from './error-answer.ts'
import type { ErrorCode } from './errors.ts'

/** What the parser of Node.js (llhttp) and its timeouts report. `reason` is the parser's own fixed text. */
export interface ConnectionError extends Error {
  readonly code?: string
  readonly reason?: string
}

const codes: Readonly<Record<string, ErrorCode>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
}

const firstLine = 'the first line is not as HTTP/1.1 has it'
const chunks = 'the body is not in chunks as transfer-encoding: chunked has them'

const details: Readonly<Record<string, string>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'send the whole request without a pause',
  HPE_HEADER_OVERFLOW: `the path and the headers may have at most ${maxHeaderSize} bytes together: send fewer or shorter ones`,
  HPE_INVALID_URL: 'the path is not a valid URL path: escape special characters of the path as %XX',
  HPE_INVALID_CONSTANT: `${firstLine}: escape spaces of the path as %20, and end the line with HTTP/1.1`,
  HPE_INVALID_VERSION: `${firstLine}: end it with HTTP/1.1, a carriage return and a line feed`,
  HPE_PAUSED_H2_UPGRADE: 'this port does not take HTTP/2 without TLS: send HTTP/1.1',
  HPE_INVALID_METHOD: 'the first line begins with no method: send one such as GET or POST in capitals, and plain HTTP rather than TLS',
  HPE_INVALID_CONTENT_LENGTH: 'the header content-length is no number of bytes: send the length of the body in digits',
  HPE_UNEXPECTED_CONTENT_LENGTH: 'the header content-length is there twice, or beside transfer-encoding: send one of them, once',
  HPE_INVALID_TRANSFER_ENCODING:
    'the header transfer-encoding is not chunked alone, or stands beside content-length: send transfer-encoding: chunked or content-length',
  HPE_INVALID_HEADER_TOKEN:
    'a header has a character that is not allowed there: send names of letters, digits and -, and values without control characters',
  HPE_INVALID_CHUNK_SIZE: `${chunks}: send the size of each chunk in hexadecimal digits before it`,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: `${chunks}: send them without extensions`,
  HPE_CLOSED_CONNECTION: 'there is more after a request with connection: close: send the next request on a new connection',
  HPE_INVALID_EOF_STATE: 'the connection ended before the request did: send the whole request',
}

/** The server's `clientError`: writes an error in the shape of all others, and ends the connection. */
export function refuseConnection(error: ConnectionError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  if (isAnswered(socket)) {
    socket.destroySoon()
    return
  }
  const id = randomUUID()
  const known = error.code ?? ''
  const body = errorBody(codes[known] ?? 'malformed_request', id, details[known] ?? unknownDetail(error))
  const text = JSON.stringify(body)
  if (socket.writable) {
    socket.write(
      `HTTP/1.1 ${body.status} ${body.error}\r\ncontent-type: application/json; charset=utf-8\r\nx-request-id: ${id}\r\n` +
        `content-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
    )
  }
  socket.destroySoon()
}

/**
 * True where an answer is on its way already, which a second one would corrupt: of some faults the parser tells after it gave the
 * request to its route. The response is Node.js's own, which the types do not show, and what Node.js itself goes by here.
 */
function isAnswered(socket: Socket): boolean {
  // oxlint-disable-next-line eslint/no-underscore-dangle -- the name is Node.js's
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage?.headersSent === true
}

function unknownDetail({ reason }: ConnectionError): string {
  return `this is no request of HTTP/1.1${reason === undefined ? '' : ` (${reason})`}: send one as RFC 9112 has it`
}
