// WebSockets on the port of the API: passes on requests for one, by the rules that hold for other requests too.

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { Logger } from '../config/logger.ts'
import { HttpError } from './errors.ts'
import { addressOfPeer, type ClientAddresses } from './requests/client-address.ts'
import { writeError } from './requests/refused-connection.ts'

/** A request for a WebSocket. The socket belongs to who takes it. */
export interface WebSocketRequest {
  readonly request: IncomingMessage
  readonly socket: Socket
  /** What arrived behind the request. */
  readonly head: Buffer
  /** Of the client; empty if the connection was closed before. */
  readonly address: string
  readonly isFromTrustedProxy: boolean
}

/** @throws HttpError if it is refused */
export type TakeWebSocket = (request: WebSocketRequest) => void

export interface WebSockets {
  take(path: string, take: TakeWebSocket): void
  /** Whether its path takes WebSockets. Another request is answered as if it asked for none. */
  isWanted(request: IncomingMessage): boolean
  /** Node.js's event `upgrade`. */
  readonly onUpgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
}

interface WebSocketsParts {
  readonly hostFault: (request: IncomingMessage) => HttpError | undefined
  readonly allowedOrigins: readonly string[]
  readonly addressOf: ClientAddresses
  readonly isTrustedProxy: (address: string) => boolean
  readonly logger: Pick<Logger, 'error'>
  /** Of every answer. */
  readonly headers: Readonly<Record<string, string>>
}

/** The server decorator with its WebSockets. */
export const webSocketsKey = 'webSockets'

/** Requests for a WebSocket at this path are passed to `take`. */
export function takeWebSockets(app: Pick<FastifyInstance, 'getDecorator'>, path: string, take: TakeWebSocket): void {
  app.getDecorator<WebSockets>(webSocketsKey).take(path, take)
}

export function openWebSockets({ hostFault, allowedOrigins, addressOf, isTrustedProxy, headers, logger }: WebSocketsParts): WebSockets {
  const takers = new Map<string, TakeWebSocket>()
  const takerOf = ({ url = '' }: IncomingMessage): TakeWebSocket | undefined => takers.get(url.split('?', 1)[0]!)
  return {
    take: (path, take) => void takers.set(path, take),
    isWanted: request =>
      request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket' && takerOf(request) !== undefined,
    onUpgrade(request, duplex, head) {
      const socket = duplex as Socket
      // Node.js no longer listens.
      socket.on('error', () => socket.destroy())
      try {
        const fault = hostFault(request) ?? originFault(request, allowedOrigins)
        if (fault !== undefined) throw fault
        const isFromTrustedProxy = isTrustedProxy(addressOfPeer(request))
        takerOf(request)!({ request, socket, head, address: addressOf(request), isFromTrustedProxy })
      } catch (error) {
        if (!(error instanceof HttpError)) logger.error({ err: error }, 'request for a WebSocket failed')
        writeError(socket, headers, error instanceof HttpError ? error : new HttpError('internal'))
      }
    },
  }
}

/** Browsers let pages of any origin open a WebSocket, and would show it the certificate of their user. Other clients send no origin (RFC 6455 §10.2). */
function originFault({ headers: { origin, host } }: IncomingMessage, allowed: readonly string[]): HttpError | undefined {
  if (origin === undefined || allowed.includes('*') || allowed.includes(origin)) return undefined
  if (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()) return undefined
  return new HttpError('forbidden', 'pages of this origin may not connect: name it in http.allowed_origins (SVC_HTTP_ALLOWED_ORIGINS)')
}
