// Certificates in place of the key of a thing: where they are shown, and the end of connections whose certificate was revoked.

import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { certificateOfConnection, certificateOfHeader } from '../../config/http/client-certificate.ts'
import {
  type AccessChange,
  type AccessControl,
  AccessUnavailableError,
  type Credential,
  certificateCredential,
  noChannel,
} from '../../control-plane/client.ts'
import type { IngestOptions } from './options.ts'

export interface Certificates {
  /**
   * The certificate of the request's client as a credential; undefined where none was shown, or none is taken.
   *
   * @throws HttpError `unauthenticated` for a header that is not to be believed
   */
  credentialOf(request: FastifyRequest): Credential | undefined
  /** Once that credential was good: from now on the connection ends with it. */
  noteGood(request: FastifyRequest): void
  close(): void
}

/** A certificate that was good, and the connections that showed it. */
interface Watched {
  readonly credential: Credential
  readonly sockets: Set<Socket>
}

/** At the same time, beside what requests ask. */
const questionsMax = 8

export function openCertificates(
  access: AccessControl,
  from: IngestOptions['clientCertificates'],
  logger: Pick<FastifyBaseLogger, 'error'>,
): Certificates {
  if (from === 'none') return { credentialOf: () => undefined, noteGood: () => undefined, close: () => undefined }
  if (from === 'header') {
    return {
      credentialOf(request) {
        const certificate = certificateOfHeader(request)
        return certificate && certificateCredential(certificate)
      },
      // The connection is the proxy's.
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
      const certificate = certificateOfConnection(request)
      if (certificate === undefined) return undefined
      const credential = certificateCredential(certificate)
      credentials.set(socket, credential)
      return credential
    },
    noteGood(request) {
      const { socket } = request.raw
      const credential = credentials.get(socket)
      if (credential === undefined || connections.has(socket)) return
      const certificate = certificateOfConnection(request)
      if (certificate !== undefined) connections.watch(socket, credential, thingOf(certificate.subject))
    },
    close: () => connections.close(),
  }
}

/** The platform's certificates name the thing and nothing else. */
const thingOf = (subject: string): string => subject.replace(/^CN=/, '')

/**
 * Ends open connections whose certificate is good no more. Each request asks by itself; this is for a connection that is held open, or in the middle
 * of a body. A certificate is checked again at each change of its thing, and all of them when changes were missed: once, however many
 * connections showed it.
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
      if (underWay >= questionsMax) return
      doubted.delete(watched)
      void look(watched)
    }
  }

  /** Never rejects: what cannot be known ends the connections, too. */
  async function look({ credential, sockets }: Watched): Promise<void> {
    underWay++
    let isGood = false
    try {
      const answer = await access.authorize({ credential, channel: noChannel, action: 'publish' })
      isGood = answer.allowed || answer.reason === 'forbidden'
    } catch (error) {
      if (!(error instanceof AccessUnavailableError)) logger.error({ err: error }, 'the certificate of a connection cannot be looked at')
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
      // A change that was told since the request asked was not for it.
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
