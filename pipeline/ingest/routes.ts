// The HTTP route for publishing: POST /channels/<channel>/messages[/<subtopic…>]. It answers when the message is in the log.
//
// Errors take precedence in this order: credentials (401), the format of the request (400, 413, 415; with `Prefer: handling=strict`, and for a thing whose
// owner has bounds, also that of the payload), rights (403). Key and rights are checked before the body is read, so that unknown clients cannot make the
// platform read one; a thing without quota gets 429 then, too.

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../../config/logger.ts'
import { type AccessControl, limitedError, noChannel, parseChannel, parseCredential } from '../../control-plane/client.ts'
import { detailOf } from '../../http/error-answer.ts'
import { errors, HttpError } from '../../http/errors.ts'
import { clientAddressOf } from '../../http/requests/client-address.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { hasObjectRoot } from '../../transformers/root.ts'
import type { Log } from '../log.ts'
import type { Decoder } from '../writer/decode.ts'
import type { ArrivalListener } from './arrivals.ts'
import { type Certificates, openCertificates } from './certificates.ts'
import { type MediaType, mediaTypeOf, mediaTypes } from './content-type.ts'
import { publishFailure, refusalCode } from './failure.ts'
import type { IngestMetrics } from './metrics.ts'
import type { IngestOptions } from './options.ts'
import { type OwnerBounds, openOwnerBounds } from './owner-bounds.ts'
import { openQuotas, type Quotas } from './quotas.ts'
import { openReceiptClock } from './receipt-clock.ts'
import { publishSchema, publishUnderSchema } from './schema.ts'
import { checkDecodable, isStrict, openDefaultDecoder } from './strict-handling.ts'
import { subtopicOf } from './subtopic.ts'

export interface IngestParts {
  readonly log: Log
  /** The first part of a message id: the log's number in the store, or the topic's name if there is no store in this process. */
  readonly logLabel: () => string
  readonly access: AccessControl
  readonly metrics: IngestMetrics
  readonly options: IngestOptions
  /** Decoder for strict handling; by default that of a writer with default options. */
  readonly decoder?: Decoder
  /** By default those of the options. */
  readonly quotas?: Quotas | undefined
  /** For things whose owner has bounds. */
  readonly bounds?: OwnerBounds | undefined
  readonly arrivals?: ArrivalListener
  /** For what bounds say. */
  readonly logger?: Pick<Logger, 'warn'>
}

/** Facts about a publish that are known before its body is read. */
interface Publish {
  readonly channel: string
  readonly subtopic: string
  readonly contentType: MediaType
  /** null: the thing is not connected to the channel; that is answered after the body's format was checked. */
  readonly publisher: string | null
  /** The owner of the thing, if they registered themselves and have bounds. */
  readonly boundedOwner: string | undefined
}

const publishKey = 'publish'
/** The thing whose key or certificate was sent, also if it may not publish there. */
const thingKey = 'publishingThing'

/** The routes of ingest. Errors are thrown as HttpError, for the server that they are registered with. */
export function ingestRoutes({
  log,
  logLabel,
  access,
  metrics,
  options,
  decoder = openDefaultDecoder(options.payloadBytesMax),
  quotas = openQuotas(options),
  logger,
  bounds = openOwnerBounds(logger),
  arrivals,
}: IngestParts): FastifyPluginAsync {
  const receiptUs = openReceiptClock()

  /** @throws HttpError, SubtopicError, AccessUnavailableError */
  async function readHead(certificates: Certificates, request: FastifyRequest): Promise<void> {
    const { channel: channelText, '*': path = '' } = request.params as { channel: string; '*'?: string }
    // An invalid id is rejected by the route's schema, after authentication.
    const channel = parseChannel(channelText) ?? noChannel
    const { thing, mayPublish, boundedOwner } = await authenticate(access, certificates, request, channel)
    request.setDecorator<string | null>(thingKey, thing ?? null)
    const publisher = mayPublish ? thing! : null
    const contentType = readContentType(request)
    const subtopic = subtopicOf(path)
    if (contentType === 'application/json') checkFormat(subtopic)
    // Not counted yet: the body may still be invalid, and a rejected message must not count.
    if (publisher !== null) quotas?.check(channel, publisher)
    if (boundedOwner !== undefined) bounds.check(boundedOwner)
    request.setDecorator<Publish>(publishKey, { channel, subtopic, contentType, publisher, boundedOwner })
  }

  async function publish(request: FastifyRequest, reply: FastifyReply): Promise<{ id: string }> {
    const createdUs = receiptUs()
    const payload = request.body as Buffer
    if (payload.length === 0) {
      throw new HttpError('malformed_request', 'the body is empty: send a SenML pack or a JSON document')
    }
    const { channel, subtopic, contentType, publisher, boundedOwner } = request.getDecorator<Publish>(publishKey)
    // A writer reads an object as JSON, also if it is labelled as SenML.
    if (contentType === 'application/senml+json' && hasObjectRoot(payload)) checkFormat(subtopic)
    const message = { channel, subtopic, publisher: publisher ?? '', protocol: 'http', contentType, createdUs, createdRestNs: 0, payload }
    const { prefer } = request.headers
    const prefersStrict = prefer !== undefined && isStrict(String(prefer))
    if (prefersStrict) reply.header('preference-applied', 'handling=strict')
    // Of a bounded owner too: dead letters stay, so those of one user could fill their file, and then the writer waits.
    const decoded = prefersStrict || boundedOwner !== undefined ? checkDecodable(decoder, message) : undefined
    if (publisher === null) throw new HttpError('forbidden')
    quotas?.take(channel, publisher)
    let giveBackBytes: (() => void) | undefined
    try {
      if (boundedOwner !== undefined) giveBackBytes = bounds.take(boundedOwner, payload.length, decoded!)
      const [position] = await log.append([message])
      metrics.accepted(payload.length)
      const id = `${logLabel()}-${position!.partition}-${position!.offset}`
      arrivals?.accepted(publisher, channel, id, position!)
      return { id }
    } catch (error) {
      quotas?.giveBack(channel, publisher)
      giveBackBytes?.()
      throw error
    }
  }

  return async app => {
    const certificates = openCertificates(access, options.clientCertificates, app.log)
    app.addHook('onClose', async () => certificates.close())
    const onRequest = (request: FastifyRequest): Promise<void> => readHead(certificates, request)
    app.decorateRequest(publishKey, null)
    app.decorateRequest(thingKey, null)
    app.removeAllContentTypeParsers()
    app.addContentTypeParser<Buffer>(
      [...mediaTypes],
      { parseAs: 'buffer', bodyLimit: options.payloadBytesMax },
      (_request, bytes, done) => {
        done(null, bytes)
      },
    )
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
      schema: publishSchema,
      handler: async (request, reply) => reply.code(202).send(await publish(request, reply)),
    })
    app.post('/channels/:channel/messages/*', {
      onRequest,
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
  if (answer.reason === 'unauthenticated') throw new HttpError('unauthenticated', unknown[credential.scheme])
  return { thing: answer.publisher, mayPublish: false }
}

function readContentType(request: FastifyRequest): MediaType {
  const contentType = mediaTypeOf(request.headers['content-type'])
  if (contentType === undefined) {
    throw new HttpError('unsupported_media_type', `send the Content-Type ${mediaTypes.join(', ')}, in UTF-8`)
  }
  return contentType
}

/** The last part of the subtopic names the format of a JSON message; SenML is stored under `messages`. */
function checkFormat(subtopic: string): void {
  if (subtopic === '') {
    throw malformedSubtopic(
      'a JSON document needs a subtopic, whose last part is its format: publish to /channels/<channel>/messages/<format>, or send SenML, an array of records, as application/senml+json',
    )
  }
  if (subtopic === senmlFormat || subtopic.endsWith(`.${senmlFormat}`)) {
    throw malformedSubtopic('a JSON subtopic cannot end in "messages", which is reserved for SenML: choose another last part')
  }
}

function malformedSubtopic(detail: string): HttpError {
  return new HttpError('malformed_request', detail, { faults: [{ pointer: '/path/subtopic', detail }] })
}
