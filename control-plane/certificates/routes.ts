// Certificates of things: issuing, reading, renewing and revoking them, and the CRL (SPEC §4).

import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { HttpError } from '../../http/errors.ts'
import { hasBareAuthorization, omitsCertificates } from '../../http/older-clients.ts'
import { isAmong } from '../../http/requests/if-none-match.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { type ThingId, toThingId, type UserId } from '../ids.ts'
import { unstored } from '../requests/answers.ts'
import type { Things } from '../things/store.ts'
import type { CertificatesOptions } from './options.ts'
import { recordOf } from './record.ts'
import { keyLike, readKey, readTtl } from './request.ts'
import { crlSchema, crlTypes, issueSchema, listSchema, renewSchema, revokeAllSchema, revokeSchema, viewSchema } from './schema.ts'
import type { Certificate, Certificates } from './store.ts'

interface Parts {
  readonly certificates: Certificates
  readonly things: Pick<Things, 'ownerOf' | 'exists'>
  readonly options: Pick<CertificatesOptions, 'mode' | 'ttlHours' | 'ttlHoursMax'>
  readonly authentication: Authentication
  readonly authorization: Authorization
}

/** Bytes: more than any request with a CSR has. */
const bodyLimit = 32_768

export function certificateRoutes(app: HttpServer, { certificates, things, options, authentication, authorization }: Parts): void {
  const onRequest = authentication.required
  const formsOf = openCrlForms()

  /** @throws HttpError the refusal unless the caller owns the thing */
  async function demandOwned(caller: UserId, thing: ThingId): Promise<void> {
    if ((await things.ownerOf(thing)) !== caller) throw await authorization.refusal(caller, () => things.exists(thing))
  }

  /** Finds a certificate. @throws HttpError the refusal unless the caller owns its thing */
  async function owned(caller: UserId, serial: string): Promise<Certificate> {
    const found = await certificates.find(serial.toLowerCase())
    if (found !== undefined && (await things.ownerOf(found.thing)) === caller) return found
    throw await authorization.refusal(caller, async () => found !== undefined)
  }

  /** @throws HttpError `conflict` in mode `development` */
  function demandPki(): void {
    if (options.mode === 'development')
      throw new HttpError('conflict', 'the mode development only issues certificates: to renew or revoke them set certificates.mode to pki')
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
    const csrKey = csr === undefined ? undefined : await readKey({ csr })
    const ttlSeconds = readTtl(request.body, options)
    const previous = await owned(callerOf(request), request.params.serial)
    const renewal = { thing: previous.thing, key: csrKey ?? keyLike(previous.certificate), ttlSeconds }
    const issued = await certificates.renew(changerOf(request), previous, renewal, revokesPrevious)
    return reply
      .code(successOf(request))
      .headers(unstored)
      .send({ ...recordOf(issued), previous_serial: previous.serial, previous_revoked: revokesPrevious })
  })

  app.get('/certs/crl', { schema: crlSchema }, async (request, reply) => {
    demandPki()
    const forms = formsOf(await certificates.crl())
    const form = prefersPem(request.headers.accept) ? 'pem' : 'der'
    const { bytes, etag } = forms[form]
    reply.headers({ etag, 'cache-control': 'no-cache', vary: 'Accept' })
    if (isAmong(request.headers['if-none-match'], etag)) return reply.code(304).send()
    return reply.type(crlTypes[form]).send(bytes)
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
    const lower = serial?.toLowerCase()
    await certificates.revoke(changerOf(request), thing, lower)
    const revokedAt = await certificates.revokedAt(thing, lower)
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

  app.delete('/certs/:thing', { schema: revokeAllSchema, onRequest }, async (request, reply) => {
    const revoked = await revoke(request, toThingId(request.params.thing))
    return omitsCertificates(request) ? reply.code(204).send() : reply.send(revoked)
  })
}

/** Older clients, which send their token without a scheme, accept only 200. */
const successOf = (request: FastifyRequest): 200 | 201 => (hasBareAuthorization(request) ? 200 : 201)

function answerOf({ thing, certificate, serial, expiresAt, revokedAt }: Certificate) {
  const revoked = revokedAt === undefined ? {} : { revocation_time: revokedAt }
  return { thing_id: thing, cert: certificate, cert_serial: serial, expiration: expiresAt, ...revoked }
}

/** True if Accept names PEM or plain text, and not DER. Clients that accept anything get DER. */
function prefersPem(accept = ''): boolean {
  return /\b(x-pem-file|text\/plain)\b/.test(accept) && !accept.includes(crlTypes.der)
}

interface CrlForm {
  readonly bytes: Buffer
  /** Strong (RFC 9110 §8.8.1). */
  readonly etag: string
}

interface CrlForms {
  readonly der: CrlForm
  /** RFC 7468 §6. */
  readonly pem: CrlForm
}

/** @returns a function from DER to both forms; for the same bytes as before it returns the same forms, because a CRL may have megabytes */
export function openCrlForms(): (der: Buffer) => CrlForms {
  let last: CrlForms | undefined
  return der => (last = last?.der.bytes.equals(der) === true ? last : crlFormsOf(der))
}

function crlFormsOf(der: Buffer): CrlForms {
  const digest = hash('sha256', der, 'base64url')
  let pem: CrlForm | undefined
  return {
    der: { bytes: der, etag: `"${digest}"` },
    // Few ask for it.
    get pem() {
      return (pem ??= { bytes: pemOf(der), etag: `"${digest}.pem"` })
    },
  }
}

function pemOf(der: Buffer): Buffer {
  return Buffer.from(`-----BEGIN X509 CRL-----\n${der.toString('base64').replace(/.{1,64}/g, '$&\n')}-----END X509 CRL-----\n`)
}
