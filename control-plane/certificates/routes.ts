// Certificates of things: issuing, reading, renewing and revoking them, and the CRL (SPEC §4).

import type { FastifyRequest } from 'fastify'
import { HttpError } from '../../config/http/errors.ts'
import { hasBareAuthorization } from '../../config/http/older-clients.ts'
import type { HttpServer } from '../../config/http/server.ts'
import { type Authentication, callerOf, changerOf } from '../authentication.ts'
import type { Authorization } from '../authorization.ts'
import { type ThingId, toThingId, type UserId } from '../ids.ts'
import { unstored } from '../things/routes.ts'
import type { Things } from '../things/store.ts'
import type { CertificatesOptions } from './options.ts'
import { recordOf } from './record.ts'
import { keyLike, readKey, readTtl } from './request.ts'
import { crlSchema, crlTypes, issueSchema, listSchema, renewSchema, revokeAllSchema, revokeSchema, viewSchema } from './schema.ts'
import type { Certificate, Certificates } from './store.ts'

interface Parts {
  readonly certificates: Certificates
  readonly things: Pick<Things, 'ownerOf' | 'exists'>
  readonly options: CertificatesOptions
  readonly authentication: Authentication
  readonly authorization: Authorization
}

/** Longer than any request with a CSR. */
const bodyLimit = 32_768

export function certificateRoutes(app: HttpServer, { certificates, things, options, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  /** @throws HttpError the refusal for who does not own the thing */
  async function demandOwned(caller: UserId, thing: ThingId): Promise<void> {
    if ((await things.ownerOf(thing)) !== caller) throw await authorization.refusal(caller, () => things.exists(thing))
  }

  /** A certificate of a thing that the caller owns. @throws HttpError the refusal for everybody else */
  async function owned(caller: UserId, serial: string): Promise<Certificate> {
    const found = await certificates.find(serial.toLowerCase())
    if (found !== undefined && (await things.ownerOf(found.thing)) === caller) return found
    throw await authorization.refusal(caller, async () => found !== undefined)
  }

  /** @throws HttpError `conflict` where certificates are issued and nothing else */
  function demandPki(): void {
    if (options.mode === 'development')
      throw new HttpError(
        'conflict',
        'certificates are issued in mode development, where none is renewed or revoked: set certificates.mode to pki',
      )
  }

  app.post('/certs', { schema: issueSchema, bodyLimit, onRequest }, async (request, reply) => {
    const key = await readKey(request.body)
    const ttlSeconds = readTtl(request.body, options)
    const thing = toThingId(request.body.thing_id)
    await demandOwned(callerOf(request), thing)
    const issued = await certificates.issue(changerOf(request), { thing, key, ttlSeconds })
    return reply.code(successOf(request)).headers(unstored).send(recordOf(issued))
  })

  app.post('/certs/:serial/renew', { schema: renewSchema, bodyLimit, onRequest }, async (request, reply) => {
    demandPki()
    const { csr, revoke_previous: revokesPrevious } = request.body
    const given = csr === undefined ? undefined : await readKey({ csr })
    const ttlSeconds = readTtl(request.body, options)
    const previous = await owned(callerOf(request), request.params.serial)
    const renewal = { thing: previous.thing, key: given ?? keyLike(previous.certificate), ttlSeconds }
    const issued = await certificates.renew(changerOf(request), previous, renewal, revokesPrevious)
    return reply
      .code(successOf(request))
      .headers(unstored)
      .send({ ...recordOf(issued), previous_serial: previous.serial, previous_revoked: revokesPrevious })
  })

  app.get('/certs/crl', { schema: crlSchema }, async (request, reply) => {
    demandPki()
    const crl = await certificates.crl()
    const pem = prefersPem(request.headers.accept)
    reply.headers({ 'cache-control': 'no-cache', vary: 'Accept' }).type(pem ? crlTypes.pem : crlTypes.der)
    return reply.send(pem ? pemOf(crl) : crl)
  })

  app.get('/certs/:serial', { schema: viewSchema, onRequest }, async (request, reply) =>
    reply.send(answerOf(await owned(callerOf(request), request.params.serial))),
  )

  app.get('/serials/:thing', { schema: listSchema, onRequest }, async (request, reply) => {
    const thing = toThingId(request.params.thing)
    await demandOwned(callerOf(request), thing)
    const { offset, limit } = request.query
    const { total, items } = await certificates.list(thing, { offset, limit })
    return reply.send({ total, offset, limit, certs: items.map(answerOf) })
  })

  async function revoke(request: FastifyRequest, thing: ThingId, serial?: string) {
    demandPki()
    await demandOwned(callerOf(request), thing)
    const revokedAt = await certificates.revoke(changerOf(request), thing, serial?.toLowerCase())
    if (revokedAt === undefined)
      throw new HttpError(
        'not_found',
        `the thing has no certificate ${serial === undefined ? '' : 'with this serial '}that is valid or revoked`,
      )
    return { revocation_time: revokedAt, RevocationTime: revokedAt }
  }

  app.delete('/certs/revoke', { schema: revokeSchema, bodyLimit, onRequest }, async (request, reply) =>
    reply.send(await revoke(request, toThingId(request.body.thing_id), request.body.serial)),
  )

  app.delete('/certs/:thing', { schema: revokeAllSchema, onRequest }, async (request, reply) =>
    reply.send(await revoke(request, toThingId(request.params.thing))),
  )
}

/** Older clients send their token bare, and take nothing but 200. */
const successOf = (request: FastifyRequest): 200 | 201 => (hasBareAuthorization(request) ? 200 : 201)

function answerOf({ thing, certificate, serial, expiresAt, revokedAt }: Certificate) {
  const revoked = revokedAt === undefined ? {} : { revocation_time: revokedAt }
  return { thing_id: thing, cert: certificate, cert_serial: serial, expiration: expiresAt, ...revoked }
}

/** True where PEM or plain text is named and DER is not: a client that takes anything gets DER. */
function prefersPem(accept = ''): boolean {
  return /\b(x-pem-file|text\/plain)\b/.test(accept) && !accept.includes(crlTypes.der)
}

/** RFC 7468 §6. */
function pemOf(crl: Buffer): string {
  return `-----BEGIN X509 CRL-----\n${crl.toString('base64').replace(/.{1,64}/g, '$&\n')}-----END X509 CRL-----\n`
}
