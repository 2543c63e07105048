// Client certificates as an alternative to thing keys: reads them from connections or headers, and closes connections whose certificate was revoked.

import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import {
  type AccessChange,
  type AccessControl,
  AccessUnavailableError,
  type Credential,
  certificateCredential,
  noChannel,
} from '../../control-plane/client.ts'
import { isFromTrustedProxy } from '../../http/requests/client-address.ts'
import { certificateOfConnection, certificateOfHeader } from '../../http/requests/client-certificate.ts'
import type { IngestOptions } from './options.ts'

export interface Certificates {
  /**
   * The certificate of the request's client as a credential; undefined without one, and if certificates are not accepted.
   *
   * @throws HttpError `unauthenticated` for a header that is malformed or not from a trusted proxy
   */
  credentialOf(request: FastifyRequest): Credential | undefined
  /** Call it when the credential was accepted: the connection is closed when the certificate stops being valid. */
  noteGood(request: FastifyRequest): void
  close(): void
}

/** An accepted certificate, and the connections that use it. */
interface Watched {
  readonly credential: Credential
  readonly sockets: Set<Socket>
}

/** How many certificates are rechecked in parallel. */
const requestsMax = 8

/** How a client shows its certificate. */
export interface Shown {
  readonly socket: Socket
  readonly headers?: IncomingHttpHeaders
  readonly isFromTrustedProxy?: boolean
}

/** @throws HttpError `unauthenticated` for a header that is malformed or not from a trusted proxy */
export function shownCredential(
  from: IngestOptions['clientCertificates'],
  { socket, headers = {}, isFromTrustedProxy = false }: Shown,
): Credential | undefined {
  if (from === 'none') return undefined
  const certificate = from === 'tls' ? certificateOfConnection(socket) : certificateOfHeader(headers, isFromTrustedProxy)
  return certificate && certificateCredential(certificate)
}

export function openCertificates(
  access: AccessControl,
  from: IngestOptions['clientCertificates'],
  logger: Pick<FastifyBaseLogger, 'error'>,
): Certificates {
  if (from === 'none') return { credentialOf: () => undefined, noteGood: () => undefined, close: () => undefined }
  if (from === 'header') {
    return {
      credentialOf: request => shownCredential(from, shownBy(request)),
      // Nothing to close: the connection is the proxy's.
      noteGood: () => undefined,
      close: () => undefined,
    }
  }
  const connections = watchConnections(access, logger)
  const credentials = new WeakMap<Socket, Credential>()
  return {
    credentialOf(request) {
      const { socket } = request.raw
      const known = credentials.get(socket)
      if (known !== undefined) return known
      const credential = shownCredential(from, shownBy(request))
      if (credential !== undefined) credentials.set(socket, credential)
      return credential
    },
    noteGood(request) {
      const { socket } = request.raw
      const credential = credentials.get(socket)
      if (credential === undefined || connections.has(socket)) return
      const certificate = certificateOfConnection(socket)
      if (certificate !== undefined) connections.watch(socket, credential, thingOf(certificate.subject))
    },
    close: () => connections.close(),
  }
}

function shownBy(request: FastifyRequest): Shown {
  return { socket: request.raw.socket, headers: request.headers, isFromTrustedProxy: isFromTrustedProxy(request) }
}

/** The subject of the platform's certificates is just the thing's id. */
const thingOf = (subject: string): string => subject.replace(/^CN=/, '')

/**
 * Closes open connections whose certificate is no longer valid. Each request is checked separately; this is for connections that are idle or in the middle
 * of a body. A certificate is rechecked after each change of its thing, and all certificates are when changes were missed: each once, however many
 * connections use it.
 */
function watchConnections(access: AccessControl, logger: Pick<FastifyBaseLogger, 'error'>) {
  const watchedSockets = new WeakSet<Socket>()
  /** By thing, and then by certificate. */
  const byThing = new Map<string, Map<string, Watched>>()
  const doubted = new Set<Watched>()
  let underWay = 0

  function onChange(change: AccessChange): void {
    const concerned = change.kind === 'unheard' ? [...byThing.values()] : change.kind === 'thing' ? [byThing.get(change.thing)] : []
    for (const certificates of concerned) for (const watched of certificates?.values() ?? []) doubted.add(watched)
    work()
  }
  const stop = access.onChange(onChange)

  function work(): void {
    for (const watched of doubted) {
      if (underWay >= requestsMax) return
      doubted.delete(watched)
      void look(watched)
    }
  }

  /** Never rejects: without an answer the connections are closed as well. */
  async function look({ credential, sockets }: Watched): Promise<void> {
    underWay++
    let isGood = false
    try {
      const answer = await access.authorize({ credential, channel: noChannel, action: 'publish' })
      isGood = answer.allowed || answer.reason === 'forbidden'
    } catch (error) {
      if (!(error instanceof AccessUnavailableError)) logger.error({ err: error }, 'cannot check the certificate of a connection')
    }
    if (!isGood) for (const socket of sockets) socket.destroy()
    underWay--
    work()
  }

  return {
    has: (socket: Socket) => watchedSockets.has(socket),
    watch(socket: Socket, credential: Credential, thing: string): void {
      if (socket.destroyed) return
      watchedSockets.add(socket)
      const certificates = byThing.get(thing) ?? new Map<string, Watched>()
      byThing.set(thing, certificates)
      const watched = certificates.get(credential.secret) ?? { credential, sockets: new Set() }
      certificates.set(credential.secret, watched)
      watched.sockets.add(socket)
      // A change since the request was checked may have been missed.
      doubted.add(watched)
      work()
      socket.once('close', () => {
        watched.sockets.delete(socket)
        if (watched.sockets.size > 0) return
        doubted.delete(watched)
        if (certificates.get(credential.secret) === watched) certificates.delete(credential.secret)
        if (certificates.size === 0 && byThing.get(thing) === certificates) byThing.delete(thing)
      })
    },
    close: stop,
  }
}
