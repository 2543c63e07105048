// Answers input that is not HTTP, or too slow or too large, and refused WebSockets: there is no response object, so the answer is written to the socket.

import { randomUUID } from 'node:crypto'
import { maxHeaderSize, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { errorBody } from '../error-answer.ts'
import type { HttpError } from '../errors.ts'

/** Error of Node.js's parser (llhttp) or its timeouts. `reason` is a fixed text of the parser. */
export interface ConnectionError extends Error {
  readonly code?: string
  readonly reason?: string
}

/** How long a client has to take the answer, and those before it. */
const lastMsMax = 2_000

const tooLate = { code: 'request_timeout', detail: 'send the whole request without a pause' } as const
const tooLarge = {
  code: 'headers_too_large',
  detail: `the path and the headers are limited to ${maxHeaderSize} bytes together: send fewer or shorter ones`,
} as const

/**
 * Handler of the server's `clientError`: writes an error in the usual format, and closes the connection.
 *
 * @param headers of every answer
 */
export function refuseConnection(error: ConnectionError, socket: Socket, headers: Readonly<Record<string, string>>): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  // Before the handshake nothing can be sent: the pending answer would keep the connection open even after the client has left.
  if (error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT') {
    socket.destroy()
    return
  }
  if (isAnswered(socket)) {
    socket.destroySoon()
    return
  }
  writeError(socket, headers, faultOf(error))
}

/** Writes an error in the usual format to a socket for which there is no response object, and closes it. */
export function writeError(
  socket: Socket,
  headers: Readonly<Record<string, string>>,
  { code, detail }: Pick<HttpError, 'code' | 'detail'>,
): void {
  const id = randomUUID()
  const body = errorBody(code, id, detail)
  const text = JSON.stringify(body)
  const all = {
    ...headers,
    'content-type': 'application/json; charset=utf-8',
    'x-request-id': id,
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  if (socket.writable) socket.write(`HTTP/1.1 ${body.status} ${body.error}\r\n${lines.join('')}\r\n${text}`)
  socket.destroySoon()
  // It is no longer among those that the server ends.
  const deadline = setTimeout(() => socket.destroy(), lastMsMax)
  socket.once('close', () => clearTimeout(deadline))
}

/**
 * True if an answer is already being sent, which a second one would corrupt: the parser reports some faults after it passed the
 * request to its route. The response is internal to Node.js and missing in its types; Node.js itself uses it for the same check.
 */
function isAnswered(socket: Socket): boolean {
  // oxlint-disable-next-line eslint/no-underscore-dangle -- the name is Node.js's
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage?.headersSent === true
}

function faultOf({ code, reason }: ConnectionError): Pick<HttpError, 'code' | 'detail'> {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return tooLate
  if (code === 'HPE_HEADER_OVERFLOW') return tooLarge
  const why = reason === undefined ? '' : ` (${reason})`
  return {
    code: 'malformed_request',
    detail: `this is not a valid HTTP/1.1 request${why}: send one as RFC 9112 specifies, without TLS or HTTP/2`,
  }
}
