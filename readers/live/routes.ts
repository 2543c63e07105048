// The HTTP door for messages as they come: GET /channels/<channel>/messages/stream, server-sent events.
//
// The order of checks is that of a page: who asks (401), the shape of the request (400), then rights (403).

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { errorAnswers } from '../../config/http/error-schema.ts'
import { HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import {
  type Access,
  type AccessControl,
  type AccessRequest,
  AccessUnavailableError,
  channelParameter,
  exampleIds,
  noChannel,
  parseChannel,
  parseCredential,
} from '../../control-plane/client.ts'
import { type LiveMessages, LiveUnavailableError, type Place } from '../../pipeline/live/messages.ts'
import { authenticate, challenge } from '../authenticate.ts'
import type { Parameters } from '../parameters.ts'
import { checkEscapes } from '../query-text.ts'
import { questionOf } from '../question.ts'
import { eventStreamType, recordEvent, takesEvents } from './events.ts'
import type { LiveMetrics } from './metrics.ts'
import type { LiveOptions } from './options.ts'
import { liveParametersSchema } from './parameters.ts'
import { openPlaceTexts, placeCharactersMax } from './place-text.ts'
import type { StreamReader } from './rights.ts'
import { openRows } from './rows.ts'
import { openStream } from './stream.ts'
import { openStreams } from './streams.ts'

export interface LiveParts {
  /** undefined where no log is given: streams are answered 404, which says so. */
  readonly live: LiveMessages | undefined
  readonly access: AccessControl
  /** 32 bytes, the same in every process that answers the same readers, and for nothing else. */
  readonly placeKey: Uint8Array
  readonly options: LiveOptions
  readonly metrics: LiveMetrics
  readonly logger: Logger
}

/** Who asks, found out before the query is looked at. */
interface StreamHead {
  readonly request: AccessRequest
  readonly right: Access
}

const headKey = 'stream'

const exampleId = 'yjWHWPbSfmz0UnKTeXenSP2IOR22ec7afce_HwBe6Hm-6td5lM9XM0HsF7WLv36zTScRyZPB2XaxKLMY'
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
      maxLength: placeCharactersMax,
      pattern: '^[A-Za-z0-9_.-]*$',
      allowed: 'the id of the event that came last, as it was sent',
      description: 'Go on behind this event; without it the stream begins now.',
      examples: [exampleId],
    }),
  ),
})

/** The route of a live stream. Errors are thrown as HttpError, for the server that it is registered with. */
export function liveRoutes({ live, access, placeKey, options, metrics, logger }: LiveParts): FastifyPluginAsync {
  const streams = openStreams(access, options, logger)
  const placeTexts = openPlaceTexts(placeKey)
  const rowsOf = openRows()

  async function readHead(request: FastifyRequest): Promise<void> {
    // What is no id is refused by the route's schema, once it is known who asks.
    const channel = parseChannel((request.params as { channel: string }).channel) ?? noChannel
    const right = await authenticate(access, request, channel)
    const credential = parseCredential(request.headers.authorization)!
    request.setDecorator<StreamHead>(headKey, { request: { credential, channel, action: 'read' }, right })
  }

  async function stream(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const head = request.getDecorator<StreamHead>(headKey)
    const { channel } = head.request
    const publisher = head.right.allowed ? (head.right.publisher ?? undefined) : undefined
    // A stream has no page; its question needs one all the same.
    const { question, isEmpty } = questionOf({ ...(request.query as Parameters), limit: '1' }, channel, publisher, 1)
    if (!takesEvents(request.headers.accept)) throw new HttpError('not_acceptable', `give ${eventStreamType} in Accept`)
    if (!head.right.allowed) throw new HttpError('forbidden')
    const { right } = head
    if (live === undefined) {
      throw new HttpError('not_found', 'this reader is given no log to follow: its operator sets SVC_LIVE_ENABLED=true and SVC_LOG_BROKERS')
    }
    const of = `${channel} ${right.publisher ?? ''}`
    const after = placeAfter(request.headers['last-event-id'] as string | undefined, of)

    const reader: StreamReader = { request: head.request, right }
    const giveBack = streams.reserve(reader)
    try {
      const following = await live.follow(channel, after)
      const opened = openStream({
        following,
        selection: question.selection,
        isEmpty,
        placeTexts,
        of,
        rowsOf,
        queueBytes: options.queueBytes,
        heartbeatMs: options.heartbeatSeconds * 1000,
        onLost: () => metrics.lost(),
      })
      // The right may have ended since it was asked for; from here on its end is heard of.
      await streams.add(opened, reader)
      const response = reply.raw
      // Who went away meanwhile is not told.
      if (response.destroyed) opened.end('stopping')
      const over = opened.ended()
      if (over !== undefined) {
        streams.remove(opened)
        throw new HttpError(over === 'access_ended' ? 'forbidden' : 'unavailable')
      }
      response.once('close', () => {
        streams.remove(opened)
        giveBack()
        metrics.closed(opened.ended() ?? 'left')
      })
      metrics.opened()
      reply.hijack()
      response.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...streamHeaders })
      opened.start(response)
      return reply
    } catch (error) {
      giveBack()
      throw error
    }
  }

  function placeAfter(id: string | undefined, of: string): Place | undefined {
    if (id === undefined || id === '') return undefined
    const place = placeTexts.decode(id, of)
    if (place !== undefined) return place
    const detail = 'is no id of this stream: give the id of the event that came last, as it was sent, or leave it out to begin now'
    throw new HttpError('malformed_request', undefined, { faults: [{ pointer: '/header/last-event-id', detail }] })
  }

  return async app => {
    app.decorateRequest(headKey, null)
    app.setErrorHandler((error, _request, reply) => {
      const failure = streamFailure(error)
      if (failure instanceof HttpError && failure.code === 'unauthenticated') reply.header('www-authenticate', challenge)
      throw failure
    })
    // They would hold the server open, and can go on at another process.
    app.addHook('preClose', async () => streams.endAll('stopping'))
    app.get('/channels/:channel/messages/stream', {
      exposeHeadRoute: false,
      onRequest: readHead,
      preValidation: checkEscapes,
      schema: {
        tags: ['reading'],
        operationId: 'followMessages',
        summary: 'Follow the messages of a channel as they come',
        description:
          'Server-sent events, each with one record as `data`, in the form of a page. With the key of a connected thing: what this thing ' +
          'publishes. With the token of the owner: the whole channel. `Last-Event-ID` goes on behind that event. Beside records there are the ' +
          'events `lost` (records are no longer in the log) and `end` (with the reason; the connection is closed behind it).',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: channelParameter }),
        querystring: liveParametersSchema(),
        headers,
        response: {
          200: {
            description: 'Events, until one side ends it.',
            content: { [eventStreamType]: { schema: Type.String(), example: exampleEvents } },
          },
          ...errorAnswers('unauthenticated', 'forbidden', 'not_found', 'not_acceptable', 'too_many_requests'),
        },
      },
      handler: stream,
    })
  }
}

/**
 * What is sent depends on who asks, and from which page. nginx would keep events back without the last one. A connection kept for another request would hold
 * up a process that stops.
 */
const streamHeaders = {
  'content-type': eventStreamType,
  'cache-control': 'private, no-store',
  vary: 'accept, authorization, origin',
  connection: 'close',
  'x-accel-buffering': 'no',
} as const

/** The error as the table of errors has it. What is foreign here stays as it is: the server answers it. */
function streamFailure(error: unknown): unknown {
  if (error instanceof LiveUnavailableError)
    return new HttpError('unavailable', 'the log cannot be followed now: come again', { cause: error })
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the credentials cannot be checked now: ask again', { cause: error })
  }
  return error
}
