// The HTTP route for publishing: POST /channels/<channel>/messages[/<subtopic…>]. It answers when the message is in the log.
//
// Errors take precedence in this order: credentials (401), the format of the request (400, 413, 415; with `Prefer: handling=strict`, and for a thing whose
// owner has bounds, also that of the payload), rights (403). Key and rights are checked before the body is read, so that unknown clients cannot make the
// platform read one; a thing without quota gets 429 then, too.

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { type AccessControl, limitedError, noChannel, parseChannel, parseCredential } from '../../control-plane/client.ts'
import { detailOf } from '../../http/error-answer.ts'
import { errors, HttpError } from '../../http/errors.ts'
import { clientAddressOf } from '../../http/requests/client-address.ts'
import { codingOf, decompress } from '../../http/requests/compressed-body.ts'
import { type Certificates, openCertificates } from './certificates.ts'
import { type MediaType, mediaTypeOf, mediaTypes } from './content-type.ts'
import { publishFailure, refusalCode } from './failure.ts'
import type { IngestOptions } from './options.ts'
import { openPublisher, type Publisher, type PublisherParts, type Sender } from './publisher.ts'
import { openReceiptClock } from './receipt-clock.ts'
import { publishSchema, publishUnderSchema } from './schema.ts'
import { isStrict as isStrictHandling } from './strict-handling.ts'
import { subtopicOf } from './subtopic.ts'

export interface IngestParts extends PublisherParts {
  readonly access: AccessControl
  readonly options: IngestOptions
  /** By default one of these parts; other protocols of the process share it. */
  readonly publisher?: Publisher
}

/** Facts about a publish that are known before its body is read. */
interface Publish extends Sender {
  readonly channel: string
  readonly subtopic: string
  readonly contentType: MediaType
}

const config = { takesCompressed: true }
const publishKey = 'publish'
/** The thing whose key or certificate was sent, also if it may not publish there. */
const thingKey = 'publishingThing'

/** The routes of ingest. Errors are thrown as HttpError, for the server that they are registered with. */
export function ingestRoutes(parts: IngestParts): FastifyPluginAsync {
  const { access, metrics, options, arrivals, publisher = openPublisher(parts) } = parts
  const receiptUs = openReceiptClock()

  /** @throws HttpError, SubtopicError, AccessUnavailableError */
  async function readHead(certificates: Certificates, request: FastifyRequest): Promise<void> {
    const { channel: channelText, '*': path = '' } = request.params as { channel: string; '*'?: string }
    // An invalid id is rejected by the route's schema, after authentication.
    const channel = parseChannel(channelText) ?? noChannel
    const { thing, mayPublish, boundedOwner } = await authenticate(access, certificates, request, channel)
    request.setDecorator<string | null>(thingKey, thing ?? null)
    const contentType = readContentType(request)
    const publish = { channel, subtopic: subtopicOf(path), contentType, publisher: mayPublish ? thing! : null, boundedOwner }
    publisher.check(publish)
    request.setDecorator<Publish>(publishKey, publish)
  }

  async function publish(request: FastifyRequest, reply: FastifyReply): Promise<{ id: string }> {
    const createdUs = receiptUs()
    const payload = request.body as Buffer
    const { prefer } = request.headers
    const isStrict = prefer !== undefined && isStrictHandling(String(prefer))
    if (isStrict) reply.header('preference-applied', 'handling=strict')
    const { id } = await publisher.publish({ ...request.getDecorator<Publish>(publishKey), protocol: 'http', createdUs, payload, isStrict })
    return { id }
  }

  return async app => {
    const certificates = openCertificates(access, options.clientCertificates, app.log)
    app.addHook('onClose', async () => certificates.close())
    const onRequest = (request: FastifyRequest): Promise<void> => readHead(certificates, request)
    app.decorateRequest(publishKey, null)
    app.decorateRequest(thingKey, null)
    app.removeAllContentTypeParsers()
    app.addContentTypeParser<Buffer>([...mediaTypes], { parseAs: 'buffer', bodyLimit: options.payloadBytesMax }, (request, bytes, done) => {
      const coding = codingOf(request.headers)
      if (coding !== undefined && coding !== null) return decompress(bytes, coding, options.payloadBytesMax)
      done(null, bytes)
      return undefined
    })
    app.setErrorHandler((error, request, reply) => {
      const failure = publishFailure(error, options.payloadBytesMax)
      if (failure instanceof HttpError && failure.code === 'unauthenticated') reply.header('www-authenticate', 'Thing realm="sluice"')
      const code = refusalCode(failure)
      metrics.refused(code)
      const thing = request.getDecorator<string | null>(thingKey)
      if (thing !== null) {
        const message = (failure instanceof HttpError ? detailOf(failure) : undefined) ?? errors[code].title
        arrivals?.refused(thing, (request.params as { channel: string }).channel, code, message)
      }
      throw failure
    })
    app.post('/channels/:channel/messages', {
      onRequest,
      config,
      schema: publishSchema,
      handler: async (request, reply) => reply.code(202).send(await publish(request, reply)),
    })
    app.post('/channels/:channel/messages/*', {
      onRequest,
      config,
      schema: publishUnderSchema,
      handler: async (request, reply) => reply.code(202).send(await publish(request, reply)),
    })
  }
}

const unknown = {
  Thing: 'unknown thing key: use the key returned when the thing was created',
  Certificate: 'this certificate is revoked, has expired, or was not issued by this platform: get another one with POST /certs',
}

/**
 * @returns the thing of the key or certificate, if the access control says it, whether it may publish on the channel, and its owner if they have bounds
 * @throws HttpError `unauthenticated`; `too_many_requests` for an unknown key that was used too often
 * @throws AccessUnavailableError
 */
async function authenticate(
  access: AccessControl,
  certificates: Certificates,
  request: FastifyRequest,
  channel: string,
): Promise<{ thing: string | undefined; mayPublish: boolean; boundedOwner?: string | undefined }> {
  const { authorization } = request.headers
  const credential = authorization === undefined ? certificates.credentialOf(request) : parseCredential(authorization)
  if (credential === undefined || credential.scheme === 'Bearer') {
    throw new HttpError('unauthenticated', 'send the key of a thing in the header "Authorization: Thing <key>"')
  }
  const answer = await access.authorize({ credential, channel, action: 'publish', address: clientAddressOf(request) })
  if (authorization === undefined && (answer.allowed || answer.reason === 'forbidden')) certificates.noteGood(request)
  if (answer.allowed) {
    const boundedOwner = answer.isBounded === true ? answer.owner : undefined
    return { thing: answer.publisher ?? undefined, mayPublish: answer.publisher !== null, boundedOwner }
  }
  if (answer.reason === 'limited') throw limitedError(answer, credential.scheme)
  if (answer.reason === 'unauthenticated')
    throw new HttpError('unauthenticated', unknown[credential.scheme === 'Certificate' ? 'Certificate' : 'Thing'])
  return { thing: answer.publisher, mayPublish: false }
}

function readContentType(request: FastifyRequest): MediaType {
  const contentType = mediaTypeOf(request.headers['content-type'])
  if (contentType === undefined) {
    throw new HttpError('unsupported_media_type', `send the Content-Type ${mediaTypes.join(', ')}, in UTF-8`)
  }
  return contentType
}
