// The HTTP route for publishing: POST /channels/<channel>/messages[/<subtopic…>]. It answers when the message is in the log.
//
// Errors take precedence in this order: credentials (401), the format of the request (400, 413, 415; with `Prefer: handling=strict`, and for a thing whose
// owner has bounds, also that of the payload), rights (403). Key and rights are checked before the body is read, so that unknown clients cannot make the
// platform read one; a thing without quota gets 429 then, too.

import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { type AccessControl, isApiKey, noChannel, parseChannel, parseCredential } from '../../control-plane/client.ts'
import { detailOf } from '../../http/error-answer.ts'
import { errors, HttpError } from '../../http/errors.ts'
import { clientAddressOf } from '../../http/requests/client-address.ts'
import { codingOf, decompress } from '../../http/requests/compressed-body.ts'
import { type Certificates, openCertificates } from './certificates.ts'
import { mediaTypeOf, mediaTypes } from './content-type.ts'
import { publishFailure, refusalCode } from './failure.ts'
import { linesType, readLines } from './lines.ts'
import type { IngestOptions } from './options.ts'
import { type Head, openPublisher, type Publication, type Publisher, type PublisherParts, senderOf } from './publisher.ts'
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

const config = { takesCompressed: true }
const contentTypes = [...mediaTypes, linesType] as const
const publishKey = 'publish'
/** The thing whose key or certificate was sent, also if it may not publish there; or the API key that may. */
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
    request.setDecorator<Head | null>(publishKey, publish)
  }

  async function publish(request: FastifyRequest, reply: FastifyReply): Promise<{ id: string } | { ids: string[] }> {
    const createdUs = receiptUs()
    const body = request.body as Buffer
    const { prefer } = request.headers
    const isStrict = prefer !== undefined && isStrictHandling(String(prefer))
    if (isStrict) reply.header('preference-applied', 'handling=strict')
    const head = request.getDecorator<Head>(publishKey)
    const { contentType } = head
    if (contentType !== linesType) {
      const { id } = await publisher.publish({ ...head, contentType, protocol: 'http', createdUs, payload: body, isStrict })
      return { id }
    }
    const published = await publisher.publishAll(head, publications(body, head, { createdUs, isStrict }))
    return { ids: published.map(({ id }) => id) }
  }

  /** @throws HttpError as `readLines` */
  function* publications(body: Buffer, head: Head, rest: Pick<Publication, 'createdUs' | 'isStrict'>): Generator<Publication, void> {
    for (const line of readLines(body, { ...options, path: head.subtopic })) yield { ...head, ...rest, protocol: 'http', ...line }
  }

  return async app => {
    const certificates = openCertificates(access, options.clientCertificates, app.log)
    app.addHook('onClose', async () => certificates.close())
    const onRequest = (request: FastifyRequest): Promise<void> => readHead(certificates, request)
    app.decorateRequest(publishKey, null)
    app.decorateRequest(thingKey, null)
    app.removeAllContentTypeParsers()
    const linesBytesMax = app.initialConfig.bodyLimit!
    const tooLarge = `the payload is larger than ${options.payloadBytesMax} bytes: split it into several messages`
    const tooManyBytes = `the body is larger than ${linesBytesMax} bytes: send fewer messages in one request`
    takeBodies(app, [...mediaTypes], options.payloadBytesMax, tooLarge)
    takeBodies(app, [linesType], linesBytesMax, tooManyBytes)
    app.setErrorHandler((error, request, reply) => {
      const isLines = request.getDecorator<Head | null>(publishKey)?.contentType === linesType
      const failure = isBodyTooLarge(error)
        ? new HttpError('too_large', isLines ? tooManyBytes : tooLarge, { cause: error })
        : publishFailure(error)
      if (failure instanceof HttpError && failure.code === 'unauthenticated')
        reply.header('www-authenticate', 'Thing realm="sluice", Bearer realm="sluice"')
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

/** Bodies of these types as bytes, decompressed. @param tooLarge the sentence for a larger one */
function takeBodies(app: FastifyInstance, types: string[], bytesMax: number, tooLarge: string): void {
  app.addContentTypeParser<Buffer>(types, { parseAs: 'buffer', bodyLimit: bytesMax }, (request, bytes, done) => {
    const coding = codingOf(request.headers)
    if (coding !== undefined && coding !== 'unsupported') return decompress(bytes, coding, bytesMax, tooLarge)
    done(null, bytes)
    return undefined
  })
}

const isBodyTooLarge = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'FST_ERR_CTP_BODY_TOO_LARGE'

const unknownKey = 'unknown thing key: use the key returned when the thing was created'
const unknown = {
  Thing: unknownKey,
  ThingId: unknownKey,
  Certificate: 'this certificate is revoked, has expired, or was not issued by this platform: get another one with POST /certs',
  Bearer: 'this API key is invalid, has expired or was revoked: issue another one with POST /keys',
}

/**
 * @returns the thing of the key or certificate, or the API key, if the access control says it, whether it may publish on the channel, and its owner if they have bounds
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
  // Messages have a publisher that stays: a thing, or an API key, and no token of a day.
  if (credential === undefined || (credential.scheme === 'Bearer' && !isApiKey(credential.secret))) {
    const detail = 'send the key of a thing ("Authorization: Thing <key>") or an API key that may publish ("Authorization: Bearer <key>")'
    throw new HttpError('unauthenticated', detail)
  }
  const answer = await access.authorize({ credential, channel, action: 'publish', address: clientAddressOf(request) })
  if (authorization === undefined && (answer.allowed || answer.reason === 'forbidden')) certificates.noteGood(request)
  const { publisher, boundedOwner } = senderOf(answer, credential, unknown[credential.scheme])
  const thing = answer.allowed || answer.reason === 'forbidden' ? answer.publisher : undefined
  return { thing: thing ?? undefined, mayPublish: publisher !== null, boundedOwner }
}

function readContentType(request: FastifyRequest): Head['contentType'] {
  const contentType = mediaTypeOf(request.headers['content-type'], contentTypes)
  if (contentType === undefined) {
    throw new HttpError('unsupported_media_type', `send the Content-Type ${contentTypes.join(', ')}, in UTF-8`)
  }
  return contentType
}
