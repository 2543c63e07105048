// The HTTP door for messages: POST /channels/<channel>/messages[/<subtopic…>], answered when the log has the message.
//
// The order of checks: who asks (401), the shape of the request (400, 413, 415; with `Prefer: handling=strict` that of the payload, too), then rights (403). Key and rights are asked for
// before the body is read, so nobody unknown makes the platform read one; a thing that may publish and has no quota left is answered 429 then, too.

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { clientAddressOf } from '../../config/http/client-address.ts'
import { HttpError } from '../../config/http/errors.ts'
import { type AccessControl, limitedError, noChannel, parseChannel, parseCredential } from '../../control-plane/client.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { Decoder } from '../decode.ts'
import type { Log } from '../log.ts'
import { type Certificates, openCertificates } from './certificates.ts'
import { type MediaType, mediaTypeOf, mediaTypes } from './content-type.ts'
import { publishFailure, refusalCode } from './failure.ts'
import type { IngestMetrics } from './metrics.ts'
import type { IngestOptions } from './options.ts'
import { openQuotas, type Quotas } from './quotas.ts'
import { openReceiptClock } from './receipt-clock.ts'
import { publishSchema, publishUnderSchema } from './schema.ts'
import { checkDecodable, isStrict, openDefaultDecoder } from './strict-handling.ts'
import { subtopicOf } from './subtopic.ts'

export interface IngestParts {
  readonly log: Log
  /** The first part of a message's id: the number under which the store knows the log, or the topic's name where no store is at hand. */
  readonly logLabel: () => string
  readonly access: AccessControl
  readonly metrics: IngestMetrics
  readonly options: IngestOptions
  /** What strict handling decodes with; by default as a writer with default options does. */
  readonly decoder?: Decoder
  /** By default those of the options. */
  readonly quotas?: Quotas | undefined
}

/** What is known of a publish before its body is read. */
interface Publish {
  readonly channel: string
  readonly subtopic: string
  readonly contentType: MediaType
  /** null: the thing is not connected to the channel, which is told after the shape of the body was checked. */
  readonly publisher: string | null
}

const publishKey = 'publish'

/** The routes of ingest. Errors are thrown as HttpError, for the server that they are registered with. */
export function ingestRoutes({
  log,
  logLabel,
  access,
  metrics,
  options,
  decoder = openDefaultDecoder(options.payloadBytesMax),
  quotas = openQuotas(options),
}: IngestParts): FastifyPluginAsync {
  const receiptUs = openReceiptClock()

  /** @throws HttpError, SubtopicError, AccessUnavailableError */
  async function readHead(certificates: Certificates, request: FastifyRequest): Promise<void> {
    const { channel: channelText, '*': path = '' } = request.params as { channel: string; '*'?: string }
    // What is no id is refused by the route's schema, once it is known who asks.
    const channel = parseChannel(channelText) ?? noChannel
    const publisher = await authenticate(access, certificates, request, channel)
    const contentType = readContentType(request)
    const subtopic = subtopicOf(path)
    if (contentType === 'application/json') checkFormat(subtopic)
    // Only looked at: what is wrong with the body is not known yet, and a message that is refused for it must not be counted.
    if (publisher !== null) quotas?.check(channel, publisher)
    request.setDecorator<Publish>(publishKey, { channel, subtopic, contentType, publisher })
  }

  async function publish(request: FastifyRequest, reply: FastifyReply): Promise<{ id: string }> {
    const createdUs = receiptUs()
    const payload = request.body as Buffer
    if (payload.length === 0) {
      throw new HttpError('malformed_request', 'the body is empty: send a SenML pack or a JSON document')
    }
    const { channel, subtopic, contentType, publisher } = request.getDecorator<Publish>(publishKey)
    const message = { channel, subtopic, publisher: publisher ?? '', protocol: 'http', contentType, createdUs, createdRestNs: 0, payload }
    const { prefer } = request.headers
    if (prefer !== undefined && isStrict(String(prefer))) {
      reply.header('preference-applied', 'handling=strict')
      checkDecodable(decoder, message)
    }
    if (publisher === null) throw new HttpError('forbidden')
    quotas?.take(channel, publisher)
    try {
      const [position] = await log.append([message])
      metrics.accepted(payload.length)
      return { id: `${logLabel()}-${position!.partition}-${position!.offset}` }
    } catch (error) {
      quotas?.giveBack(channel, publisher)
      throw error
    }
  }

  return async app => {
    const certificates = openCertificates(access, options.clientCertificates, app.log)
    app.addHook('onClose', async () => certificates.close())
    const onRequest = (request: FastifyRequest): Promise<void> => readHead(certificates, request)
    app.decorateRequest(publishKey, null)
    app.removeAllContentTypeParsers()
    app.addContentTypeParser<Buffer>(
      [...mediaTypes],
      { parseAs: 'buffer', bodyLimit: options.payloadBytesMax },
      (_request, bytes, done) => {
        done(null, bytes)
      },
    )
    app.setErrorHandler((error, _request, reply) => {
      const failure = publishFailure(error, options.payloadBytesMax)
      if (failure instanceof HttpError && failure.code === 'unauthenticated') reply.header('www-authenticate', 'Thing realm="sluice"')
      metrics.refused(refusalCode(failure))
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
  Certificate: 'this certificate is revoked, has expired, or is not of this platform: get another one with POST /certs',
}

/**
 * @returns the thing whose key or certificate was shown; null where it may not publish on the channel
 * @throws HttpError `unauthenticated`; `too_many_requests` for an unknown key that was shown too often
 * @throws AccessUnavailableError
 */
async function authenticate(
  access: AccessControl,
  certificates: Certificates,
  request: FastifyRequest,
  channel: string,
): Promise<string | null> {
  const { authorization } = request.headers
  const credential = authorization === undefined ? certificates.credentialOf(request) : parseCredential(authorization)
  if (credential === undefined || credential.scheme === 'Bearer') {
    throw new HttpError('unauthenticated', 'publish with the key of a thing, in the header "Authorization: Thing <key>"')
  }
  const answer = await access.authorize({ credential, channel, action: 'publish', address: clientAddressOf(request) })
  if (authorization === undefined && (answer.allowed || answer.reason === 'forbidden')) certificates.noteGood(request)
  if (answer.allowed) return answer.publisher
  if (answer.reason === 'limited') throw limitedError(answer, credential.scheme)
  if (answer.reason === 'unauthenticated') throw new HttpError('unauthenticated', unknown[credential.scheme])
  return null
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
      'a JSON document needs a subtopic, whose last part names its format: publish to /channels/<channel>/messages/<format>, or send SenML as application/senml+json',
    )
  }
  if (subtopic === senmlFormat || subtopic.endsWith(`.${senmlFormat}`)) {
    throw malformedSubtopic('a JSON subtopic cannot end in "messages", under which SenML is stored: give its last part another name')
  }
}

function malformedSubtopic(detail: string): HttpError {
  return new HttpError('malformed_request', detail, { faults: [{ pointer: '/path/subtopic', detail }] })
}
