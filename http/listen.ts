// Opens and closes the server's port, with clear errors if that fails.

import { Server as HttpsServer } from 'node:https'
import type { Server } from 'node:net'
import type { ListenAddress } from './listen-address.ts'
import type { HttpServer } from './server.ts'

/** The port cannot be opened; the message says why and what to do. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
}

/** The options with which the operator sets another address. */
export interface ListenAdvice {
  readonly host: string
  readonly port: string
}

/**
 * @returns the address as a client writes it: `http://127.0.0.1:8080`
 * @throws ListenError
 */
export async function listen(
  app: HttpServer,
  { host, port }: ListenAddress,
  advice: ListenAdvice = { host: '--host', port: '--port' },
): Promise<string> {
  try {
    await app.listen({ host, port })
  } catch (error) {
    throw listenFailure(error, { host, port }, advice)
  }
  return `${app.server instanceof HttpsServer ? 'https' : 'http'}://${reachableAddress(app.server, { host, port })}`
}

/** The ListenError for why a port cannot be opened. Other errors, for example of a plugin, are returned unchanged. */
export function listenFailure(error: unknown, { host, port }: ListenAddress, advice: ListenAdvice): unknown {
  const { code } = error as NodeJS.ErrnoException
  const reason = code === undefined ? undefined : reasonOf(code, host, port, advice)
  return reason === undefined ? error : new ListenError(reason, { cause: error })
}

/** Host and port of a listening server, as a client writes them: `127.0.0.1:8080`. */
export function reachableAddress(server: Server, { host, port }: ListenAddress): string {
  const address = server.address()
  return `${reachable(host)}:${typeof address === 'object' && address !== null ? address.port : port}`
}

/** Replaces the wildcard address, which a client cannot connect to. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

function reasonOf(code: string, host: string, port: number, advice: ListenAdvice): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is in use by another process: set another one with ${advice.port} (port 0 picks a free one)`
    case 'EACCES':
      return `port ${port} needs privileges that this user does not have: set a port above 1023 with ${advice.port}`
    case 'EADDRNOTAVAIL':
      return `this machine has no address ${host}: set one of its addresses with ${advice.host}`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host name ${host} cannot be resolved: set an address with ${advice.host}`
    default:
      return undefined
  }
}

/** Accepts no new requests and waits for running ones; after `drainMsMax` the remaining connections are closed. */
export async function closeServer(app: HttpServer, drainMsMax: number): Promise<void> {
  const deadline = setTimeout(() => app.server.closeAllConnections(), drainMsMax)
  try {
    await app.close()
  } finally {
    clearTimeout(deadline)
  }
}
