// Opens the server's port and closes it again, with sentences for what goes wrong on the way.

import { Server as HttpsServer } from 'node:https'
import type { ListenAddress } from './listen-address.ts'
import type { HttpServer } from './server.ts'

/** A port that cannot be opened; the message says why and what to do. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
}

/** Where the operator gives another address. */
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
    const { code } = error as NodeJS.ErrnoException
    // What is no fault of the port, a plugin's for instance, is not ours to explain.
    const reason = code === undefined ? undefined : reasonOf(code, host, port, advice)
    throw reason === undefined ? error : new ListenError(reason, { cause: error })
  }
  const address = app.server.address()
  const open = typeof address === 'object' && address !== null ? address.port : port
  return `${app.server instanceof HttpsServer ? 'https' : 'http'}://${reachable(host)}:${open}`
}

/** All addresses of this machine are no address that a client could be given. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

function reasonOf(code: string, host: string, port: number, advice: ListenAdvice): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is taken by another process: give another one with ${advice.port} (0 picks a free one)`
    case 'EACCES':
      return `port ${port} may not be opened by this user: give one above 1023 with ${advice.port}`
    case 'EADDRNOTAVAIL':
      return `this machine has no address ${host}: give one of its own with ${advice.host}`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${host} is unknown: give an address with ${advice.host}`
    default:
      return undefined
  }
}

/** Takes no new requests, and waits for those under way; what takes longer than `drainMsMax` is cut off. */
export async function closeServer(app: HttpServer, drainMsMax: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), drainMsMax)
  try {
    await app.close()
  } finally {
    clearTimeout(cut)
  }
}
