// The HTTP route for live messages: GET /channels/<channel>/messages/stream, with server-sent events.
//
// Errors take precedence as for a page: credentials (401), the format of the request (400), then access (403).

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { type TSchema, Type } from 'typebox'
import type { Logger } from '../../config/logger.ts'
import {
  type Access,
  type AccessControl,
  type AccessRequest,
  AccessUnavailableError,
  exampleIds,
  noChannel,
  parseCredential,
  parseStoredChannel,
  storedChannelParameter,
} from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import { type EndReason, eventStreamHeaders, eventStreamType, eventsAnswer } from '../../http/event-stream.ts'
import { errorAnswers } from '../../http/openapi/error-schema.ts'
import { type LiveMessages, LiveUnavailableError, oncePerMessage, type StreamOffset } from '../../pipeline/live/messages.ts'
import type { StreamReader } from '../../pipeline/live/rights.ts'
import { takesType } from '../answers/content-negotiation.ts'
import { authenticate, challenge } from '../authenticate.ts'
import { type QueryString, querySchema } from '../request/query-schema.ts'
import { checkEscapes } from '../request/query-text.ts'
import { requestOf } from '../request.ts'
import { eventIdCharactersMax, openEventIds } from './event-ids.ts'
import { recordEvent } from './events.ts'
import type { LiveOptions } from './options.ts'
import { rowsOf } from './rows.ts'
import { openStream, type Stream } from './stream.ts'
import { openStreams } from './streams.ts'

/** The components for live streams. */
export interface LiveParts {
  /** undefined without a log: the route then answers 404. */
  readonly live: LiveMessages | undefined
  readonly access: AccessControl
  /** 32 bytes, the same in every process that serves the same clients, and used for nothing else. */
  readonly eventIdKey: Uint8Array
  readonly options: LiveOptions
  readonly metrics: LiveMetrics
  readonly logger: Logger
}

/** The authenticated caller, known before the query is validated. */
interface StreamHead {
  readonly request: AccessRequest
  readonly right: Access
}

const headKey = 'stream'

const exampleId = '03ANw5iQlQvhxkJY8NAl8XZYExkDuSxkQxDWdBPrcig6WISFLa5ZyU8To-o'
const exampleRecord = {
  Channel: exampleIds.channel,
  Subtopic: 'house.attic',
  Publisher: exampleIds.thing,
  Protocol: 'http',
  Name: 'temperature',
  Unit: 'Cel',
  Time: 1_793_491_199.25,
  Value: 21.5,
}
const exampleEvents = recordEvent(exampleId, JSON.stringify(exampleRecord))

const headers = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({
      maxLength: eventIdCharactersMax,
      pattern: '^[A-Za-z0-9_.-]*$',
      allowed: 'the id of the last event, as received',
      description: 'Continue after this event; without it the stream starts now.',
      examples: [exampleId],
    }),
  ),
})

/** The route of a live stream. Errors are thrown as HttpError, for the server that it is registered with. */
export function liveRoutes({ live, access, eventIdKey, options, metrics, logger }: LiveParts): FastifyPluginAsync {
  const streams = openStreams(access, options, logger)
  const eventIds = openEventIds(eventIdKey)
  const rowsOfMessage = oncePerMessage(rowsOf)

  async function readHead(request: FastifyRequest): Promise<void> {
    // An invalid id is rejected by the route's schema, after authentication.
    const channel = parseStoredChannel((request.params as { channel: string }).channel) ?? noChannel
    const right = await authenticate(access, request, channel)
    const credential = parseCredential(request.headers.authorization)!
    request.setDecorator<StreamHead>(headKey, { request: { credential, channel, action: 'read' }, right })
  }

  async function stream(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const head = request.getDecorator<StreamHead>(headKey)
    const { channel } = head.request
    const publisher = head.right.allowed ? (head.right.publisher ?? undefined) : undefined
    // A stream has no pages, but its request needs a limit.
    const { request: readRequest, isEmpty } = requestOf({ ...(request.query as QueryString), limit: '1' }, [channel], publisher, 1)
    if (!takesType(request.headers.accept, eventStreamType)) throw new HttpError('not_acceptable', `give ${eventStreamType} in Accept`)
    if (!head.right.allowed) throw new HttpError('forbidden')
    const { right } = head
    if (live === undefined) {
      throw new HttpError(
        'not_found',
        'live streams are not enabled on this reader: its operator can set SVC_LIVE_ENABLED=true and SVC_LOG_BROKERS',
      )
    }
    const of = `${channel} ${right.publisher ?? ''}`
    const after = streamOffsetOf(request.headers['last-event-id'] as string | undefined, of)

    const reader: StreamReader = { request: head.request, right }
    let opened: Stream | undefined
    let isDisplaced = false
    const giveBack = streams.reserve(reader, () => {
      isDisplaced = true
      opened?.end('displaced')
    })
    try {
      const following = await live.follow(channel, after)
      opened = openStream({
        following,
        filter: readRequest.filter,
        isEmpty,
        eventIds,
        of,
        rowsOf: rowsOfMessage,
        queueBytes: options.queueBytes,
        heartbeatMs: options.heartbeatSeconds * 1000,
        onLost: () => metrics.lost(),
      })
      if (isDisplaced) opened.end('displaced')
      await begin(reply, opened, reader, giveBack)
      return reply
    } catch (error) {
      giveBack()
      throw error
    }
  }

  /** @throws HttpError if the stream has ended before it could begin */
  async function begin(reply: FastifyReply, stream: Stream, reader: StreamReader, giveBack: () => void): Promise<void> {
    // The access may have been revoked since it was checked; from here on revocations are noticed.
    await streams.add(stream, reader)
    const response = reply.raw
    // The client has disconnected in the meantime.
    if (response.destroyed) stream.end('stopping')
    const over = stream.ended()
    if (over !== undefined) {
      streams.remove(stream)
      throw new HttpError(over === 'access_ended' ? 'forbidden' : 'unavailable')
    }
    response.once('close', () => {
      streams.remove(stream)
      giveBack()
      metrics.closed(stream.ended() ?? 'left')
    })
    metrics.opened()
    reply.hijack()
    response.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...eventStreamHeaders })
    stream.start(response)
  }

  function streamOffsetOf(id: string | undefined, of: string): StreamOffset | undefined {
    if (id === undefined || id === '') return undefined
    const streamOffset = eventIds.decode(id, of)
    if (streamOffset !== undefined) return streamOffset
    const detail = 'is not an id of this stream: send the id of the last event as it was received, or omit the header to start now'
    throw new HttpError('malformed_request', undefined, { faults: [{ pointer: '/header/last-event-id', detail }] })
  }

  return async app => {
    app.decorateRequest(headKey, null)
    app.setErrorHandler((error, _request, reply) => {
      const failure = streamFailure(error)
      if (failure instanceof HttpError && failure.code === 'unauthenticated') reply.header('www-authenticate', challenge)
      throw failure
    })
    // Open streams would keep the server from closing, and clients can continue at another process.
    app.addHook('preClose', async () => streams.endAll('stopping'))
    app.get('/channels/:channel/messages/stream', {
      exposeHeadRoute: false,
      onRequest: readHead,
      preValidation: checkEscapes,
      schema: {
        tags: ['reading'],
        operationId: 'followMessages',
        summary: 'Follow new messages of a channel',
        description:
          'Server-sent events, each with one record as `data`, in the same form as in a page. With the key of a connected thing: only messages of ' +
          'this thing. With the token of the owner: the whole channel; a channel without an owner, whose id another producer chose, can be read by administrators. `Last-Event-ID` continues after that event. In addition to records there are ' +
          'the events `lost` (records are no longer in the log) and `end` (with the reason; the connection is closed after it).',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: storedChannelParameter }),
        querystring: liveQuerySchema(),
        headers,
        response: {
          200: eventsAnswer(exampleEvents),
          ...errorAnswers('unauthenticated', 'forbidden', 'not_found', 'not_acceptable', 'too_many_requests'),
        },
      },
      handler: stream,
    })
  }
}

/** The HttpError for a known error. Unknown errors are returned unchanged, and the server answers them. */
function streamFailure(error: unknown): unknown {
  if (error instanceof LiveUnavailableError) return new HttpError('unavailable', 'the log is unavailable: retry', { cause: error })
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the credentials cannot be checked now: retry', { cause: error })
  }
  return error
}

const filters = ['format', 'subtopic', 'publisher', 'protocol', 'name', 'unit', 'v', 'comparator', 'vb', 'vs', 'vd'] as const

/** The query string of a stream: the filters of a page, with the same semantics. */
function liveQuerySchema() {
  const page = querySchema(1, 0) as unknown as Record<'properties' | 'patternProperties', Record<string, TSchema>>
  return Type.Object(Object.fromEntries(filters.map(name => [name, page.properties[name]!])), {
    additionalProperties: false,
    patternProperties: page.patternProperties,
  })
}

/** Metrics of live streams. */
export interface LiveMetrics {
  opened(): void
  /** @param reason `left`: the client disconnected */
  closed(reason: EndReason | 'left'): void
  /** Called when records of a stream are no longer in the log. */
  lost(): void
}
