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
  close(): void
}

interface Connection {
  readonly socket: Socket
  readonly credential: Credential
}

/** At the same time, beside what requests ask. */
const questionsMax = 8

export function openCertificates(
  access: AccessControl,
  from: IngestOptions['clientCertificates'],
  logger: Pick<FastifyBaseLogger, 'error'>,
): Certificates {
  if (from === 'none') return { credentialOf: () => undefined, close: () => undefined }
  if (from === 'header') {
    return {
      credentialOf(request) {
        const certificate = certificateOfHeader(request)
        return certificate && certificateCredential(certificate)
      },
      close: () => undefined,
    }
  }
  const connections = watchConnections(access, logger)
  return {
    credentialOf(request) {
      const { socket } = request.raw
      const known = connections.find(socket)
      if (known !== undefined) return known
      const certificate = certificateOfConnection(request)
      if (certificate === undefined) return undefined
      const credential = certificateCredential(certificate)
      connections.watch({ socket, credential }, thingOf(certificate.subject))
      return credential
    },
    close: () => connections.close(),
  }
}

/** The platform's certificates name the thing and nothing else. */
const thingOf = (subject: string): string => subject.replace(/^CN=/, '')

/**
 * Ends open connections whose certificate is good no more. Each request asks by itself; this is for who holds a connection open, or is in the middle
 * of a body. A connection is asked about when a change of its thing is told, and each of them when changes were missed.
 */
function watchConnections(access: AccessControl, logger: Pick<FastifyBaseLogger, 'error'>) {
  const credentials = new WeakMap<Socket, Credential>()
  const byThing = new Map<string, Set<Connection>>()
  const doubted = new Set<Connection>()
  let underWay = 0

  function onChange(change: AccessChange): void {
    const concerned = change.kind === 'unheard' ? [...byThing.values()] : change.kind === 'thing' ? [byThing.get(change.thing) ?? []] : []
    for (const connections of concerned) for (const connection of connections) doubted.add(connection)
    work()
  }
  const stop = access.onChange(onChange)

  function work(): void {
    for (const connection of doubted) {
      if (underWay >= questionsMax) return
      doubted.delete(connection)
      void look(connection)
    }
  }

  /** Never rejects: what cannot be known ends the connection, too. */
  async function look({ socket, credential }: Connection): Promise<void> {
    underWay++
    try {
      const answer = await access.authorize({ credential, channel: noChannel, action: 'publish' })
      if (!answer.allowed && answer.reason !== 'forbidden') socket.destroy()
    } catch (error) {
      if (!(error instanceof AccessUnavailableError)) logger.error({ err: error }, 'the certificate of a connection cannot be looked at')
      socket.destroy()
    }
    underWay--
    work()
  }

  return {
    find: (socket: Socket) => credentials.get(socket),
    watch(connection: Connection, thing: string): void {
      const { socket, credential } = connection
      if (socket.destroyed) return
      credentials.set(socket, credential)
      const connections = byThing.get(thing) ?? new Set()
      byThing.set(thing, connections.add(connection))
      socket.once('close', () => {
        doubted.delete(connection)
        connections.delete(connection)
        if (connections.size === 0) byThing.delete(thing)
      })
    },
    close: stop,
  }
}
