// The HTTP routes for stored messages, the same for every store: GET /channels/<channel>/messages, GET /messages for several channels, and
// GET /channels/<channel>/formats.
//
// Errors take precedence in this order: credentials (401), the format of the request (400), then access (403).

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { eachAtOnce } from '../config/each-at-once.ts'
import {
  type Access,
  type AccessControl,
  AccessUnavailableError,
  noChannel,
  parseStoredChannel,
  storedChannelParameter,
} from '../control-plane/client.ts'
import { type ErrorCode, HttpError } from '../http/errors.ts'
import { errorAnswers } from '../http/openapi/error-schema.ts'
import { takesGzip } from '../http/requests/accept.ts'
import { openFairSlots } from '../http/requests/fair-slots.ts'
import { isAmong } from '../http/requests/if-none-match.ts'
import { formatsSchema, pageAnswer } from './answers/answer-schema.ts'
import { formOf } from './answers/content-negotiation.ts'
import { openEtags } from './answers/etag.ts'
import type { RecordKeys } from './answers/record-keys.ts'
import { authenticate, challenge } from './authenticate.ts'
import { channelsAtOnceMax } from './channels/merge.ts'
import { openCursors } from './cursor.ts'
import { closeSlowClient, sendExport } from './export.ts'
import { formatsAnswer } from './formats.ts'
import type { ReaderOptions } from './options.ts'
import { answerBuckets, answerRows, emptyParts, exportPages, type PageParts } from './paging.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from './reader.ts'
import { channelsQuerySchema, daysUsual, formatsQuerySchema, type QueryString, querySchema } from './request/query-schema.ts'
import { checkEscapes, dottedSubtopic } from './request/query-text.ts'
import { requestOf } from './request.ts'
import { type Serialization, type Serialized, serializePage, serializeText } from './serialize.ts'
import { openSingleFlight } from './single-flight.ts'
import { withinTimeLimit } from './time-limit.ts'

/** The components for the routes. */
export interface ReaderParts {
  readonly reader: Reader
  readonly access: AccessControl
  /** 32 bytes, for cursors and ETags: the same in every process that answers the same readers. */
  readonly key: Uint8Array
  readonly options: ReaderOptions
  /** How many queries the store runs at once; more would wait in its driver, the first come first. */
  readonly queriesAtOnce: number
  /** Keys of records; default: capitals. */
  readonly keys?: RecordKeys
}

/** The authenticated caller, known before the query is validated. */
interface ReadHead {
  /** Of several the first. */
  readonly channel: string
  readonly right: Access
  /** Time of the access check, on a monotonic clock. */
  readonly askedMs: number
  /** Aborts when the client disconnects, even during authentication. */
  readonly signal: AbortSignal
}

const headKey = 'read'

/** An answer that takes many queries: over several channels, or of all documents. Each query has the limit of the store as well. */
const manyQueriesMsMax = 60_000

/** Each may have 100,000 buckets in memory for so long. */
const mergedAggregationsMax = 4

/** If the answer took longer, access is checked again before it is sent. */
const rightMsMax = 1000

/** A longer body does not fit into a connection's buffers at once, so it waits in this process for the client. */
const sentAtOnceBytesMax = 64 * 1024

const pageHeaders = Type.Object({
  'if-none-match': Type.Optional(
    Type.String({
      description: 'An earlier `ETag`: an unchanged page gets 304.',
      examples: ['"bjQLnP-zepicpUTmu3gKLk-tYcVqA2mZr9EwXs0HdfI"'],
    }),
  ),
})

/** The routes of a reader. Errors are thrown as HttpError, for the server that they are registered with. */
export function readerRoutes({ reader, access, key, options, queriesAtOnce, keys }: ReaderParts): FastifyPluginAsync {
  const pageParts: Omit<PageParts, 'reader'> = { cursors: openCursors(key), countMax: options.countMax }
  const etagOf = openEtags(key)
  const slowClientMsMax = options.idleSeconds * 1000
  const singleFlight = openSingleFlight<Serialized>()
  /** Requests, until their response ends: each takes memory. */
  const queries = openFairSlots({ max: options.queriesMax, what: 'queries' })
  const exports = openFairSlots({ max: options.exportsMax, what: 'exports' })
  const running = openFairSlots({ max: queriesAtOnce, what: 'queries that run at once' })
  const mergedAggregations = openFairSlots({ max: mergedAggregationsMax, what: 'aggregations of several channels or of a field at once' })

  /** The same reader, whose queries take turns with those of other accounts. */
  function inTurn(account: string): Omit<Reader, 'check' | 'close'> {
    const run = <Answer>(signal: AbortSignal, ask: (signal: AbortSignal) => Promise<Answer>): Promise<Answer> =>
      running.run(account, signal, ask)
    return {
      read: (query, signal) => run(signal, within => reader.read(query, within)),
      count: (filter, max, signal) => run(signal, within => reader.count(filter, max, within)),
      latest: (query, signal) => run(signal, within => reader.latest(query, within)),
      aggregate: (query, signal) => run(signal, within => reader.aggregate(query, within)),
      formats: (query, signal) => run(signal, within => reader.formats(query, within)),
    }
  }

  async function readHead(request: FastifyRequest): Promise<void> {
    const { signal } = request
    const askedMs = performance.now()
    // An invalid id is rejected by the route's schema, after authentication.
    const [channel = noChannel] = channelsOf(request)
    const right = await authenticate(access, request, channel)
    request.setDecorator<ReadHead>(headKey, { channel, right, askedMs, signal })
  }

  async function read(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { right, askedMs, signal: client } = request.getDecorator<ReadHead>(headKey)
    const channels = channelsOf(request)
    // Access is checked after the format of the request, which does not depend on it.
    const publisher = right.allowed ? (right.publisher ?? undefined) : undefined
    const { request: readRequest, isEmpty } = requestOf(request.query as QueryString, channels, publisher, options.limitMax, keys)
    const form = formOf(request.headers.accept)
    if (form === undefined) throw new HttpError('not_acceptable', 'give application/json, application/x-ndjson or text/csv in Accept')
    if (!right.allowed) throw new HttpError('forbidden')
    const { owner } = right
    const signal = queries.hold(owner, reply.raw, client)
    const parts = isEmpty ? emptyParts(pageParts) : { ...pageParts, reader: inTurn(owner) }

    const isAllowed = (): Promise<boolean> => mayRead(request, channels, right)
    if (channels.length > 1 && !(await isAllowed())) throw new HttpError('forbidden')
    if (readRequest.kind === 'export') {
      const isHead = request.method === 'HEAD'
      const exporting = isHead ? signal : exports.hold(owner, reply.raw, signal)
      const pages = exportPages(parts, readRequest, exporting)
      return await sendExport(reply, { request: readRequest, form, pages, isAllowed, signal: exporting, slowClientMsMax })
    }
    const isCoded = takesGzip(request.headers['accept-encoding'])
    const url = dottedSubtopic(request.url)
    const serialization: Serialization = { request: readRequest, form, isCoded, url, etagOf }
    // Everything that a response depends on: without a publisher the caller reads the whole channel. And the account, whose turn the query takes.
    const shared = `${owner} ${form} ${isCoded} ${url} ${publisher ?? ''}`
    const page = await singleFlight.ask(shared, sharedSignal => answer(owner, parts, serialization, sharedSignal), signal)
    if (performance.now() - askedMs > rightMsMax && !(await isAllowed())) throw new HttpError('forbidden')
    return send(reply, page)
  }

  async function answer(owner: string, parts: PageParts, serialization: Serialization, signal: AbortSignal): Promise<Serialized> {
    const { request } = serialization
    const isAggregation = request.kind === 'aggregate'
    const ask = (within: AbortSignal): Promise<Serialized> => answerPage(parts, serialization, within)
    if (request.channels.length === 1 && !(isAggregation && request.field !== undefined)) return await ask(signal)
    const limits = { timeoutMs: manyQueriesMsMax, expired: tookTooMany }
    return await withinTimeLimit(signal, limits, ({ signal: within }) =>
      isAggregation ? mergedAggregations.run(owner, within, ask) : ask(within),
    )
  }

  async function readFormats(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { channel, right, askedMs, signal: client } = request.getDecorator<ReadHead>(headKey)
    if (formOf(request.headers.accept, ['json']) === undefined) throw new HttpError('not_acceptable', 'give application/json in Accept')
    if (!right.allowed) throw new HttpError('forbidden')
    const signal = queries.hold(right.owner, reply.raw, client)
    const { days = daysUsual } = request.query as Static<typeof formatsQuerySchema>
    const text = await formatsAnswer(inTurn(right.owner), channel, right.publisher ?? undefined, days, signal)
    if (performance.now() - askedMs > rightMsMax && !(await mayRead(request, [channel], right))) throw new HttpError('forbidden')
    return send(reply, await serializeText('json', text, takesGzip(request.headers['accept-encoding'])))
  }

  function send(reply: FastifyReply, { headers, body }: Serialized): FastifyReply {
    const { etag } = headers
    if (etag !== undefined && isAmong(reply.request.headers['if-none-match'], etag)) {
      const { 'content-type': _type, 'content-encoding': _coding, ...kept } = headers
      return reply.code(304).headers(kept).send()
    }
    if (body.length > sentAtOnceBytesMax) closeSlowClient(reply.raw, slowClientMsMax)
    return reply.headers(headers).send(body)
  }

  /** Checks access to all channels, now; the key may belong to another thing by now. */
  async function mayRead(
    request: FastifyRequest,
    channels: readonly string[],
    { publisher }: Access & { allowed: true },
  ): Promise<boolean> {
    let isAllowed = true
    await eachAtOnce(channels, channelsAtOnceMax, async channel => {
      if (!isAllowed) return
      const now = await authenticate(access, request, channel)
      if (!now.allowed || now.publisher !== publisher) isAllowed = false
    })
    return isAllowed
  }

  return async app => {
    app.decorateRequest(headKey, null)
    app.setErrorHandler((error, request, reply) => {
      // The client has disconnected: no response is needed, and the aborted query is not a failure of the store.
      if (request.signal.aborted) return void reply.hijack()
      const failure = readFailure(error)
      if (failure instanceof HttpError && failure.code === 'unauthenticated') reply.header('www-authenticate', challenge)
      throw failure
    })
    app.get('/channels/:channel/messages', {
      onRequest: readHead,
      preValidation: checkEscapes,
      schema: {
        tags: ['reading'],
        operationId: 'readMessages',
        summary: 'Read the messages of a channel',
        description:
          'With the key of a connected thing: only messages of this thing. With the token of the owner: the whole channel; a channel without an owner, whose id another producer chose, can be read by administrators. The newest come first. ' +
          'A page has `limit` messages, or fewer if they are large: `next_cursor` and `Link` lead to the next page. ' +
          'As JSON, NDJSON or CSV, by `Accept`. A parameter `payload.<path>=<text>` selects JSON documents whose scalar at this dotted path has this text.',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: storedChannelParameter }),
        querystring: querySchema(options.limitMax, options.offsetMax),
        headers: pageHeaders,
        response: pageResponses,
      },
      handler: (request, reply) => read(request, reply).catch(throwStoreFailure),
    })
    app.get('/messages', {
      onRequest: readHead,
      preValidation: checkEscapes,
      schema: {
        tags: ['reading'],
        operationId: 'readMessagesOfChannels',
        summary: 'Read the messages of several channels',
        description:
          'Like the messages of a channel, of up to 100 channels at once: in one order, with one cursor. The caller must have the right to read each of them; ' +
          'otherwise the answer is 403, which does not say which one it is. `latest=true` returns the newest of each series in each channel. ' +
          'The store gets at least one query for each channel, and a page that takes longer than a minute is a 422.',
        security: [{ thing: [] }, { user: [] }],
        querystring: channelsQuerySchema(options.limitMax, options.offsetMax),
        headers: pageHeaders,
        response: pageResponses,
      },
      handler: (request, reply) => read(request, reply).catch(throwStoreFailure),
    })
    app.get('/channels/:channel/formats', {
      onRequest: readHead,
      preValidation: checkEscapes,
      schema: {
        tags: ['reading'],
        operationId: 'listFormats',
        summary: 'List the formats and subtopics of a channel',
        description:
          'The formats with messages in the last days, and their subtopics: values for the parameters `format` and `subtopic` of a page. ' +
          'With the key of a connected thing: only messages of this thing. With the token of the owner: the whole channel; a channel without an owner, whose id another producer chose, can be read by administrators. The 10,000 newest messages ' +
          'of each format are examined, and at most 100 formats with 100 subtopics each are listed.',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: storedChannelParameter }),
        querystring: formatsQuerySchema,
        response: { 200: formatsSchema, ...errorAnswers(...failures) },
      },
      handler: (request, reply) => readFormats(request, reply).catch(throwStoreFailure),
    })
  }
}

const failures: readonly ErrorCode[] = ['unauthenticated', 'forbidden', 'not_acceptable', 'query_too_large', 'too_many_requests']
const pageResponses = {
  200: pageAnswer,
  304: Type.Null({ description: 'The page has not changed (`If-None-Match`).' }),
  ...errorAnswers(...failures),
}

/** The channels of a request, each once, sorted and as rows have them. Before the request is validated, those whose ids are valid. */
function channelsOf({ params, query }: FastifyRequest): string[] {
  const { channel = [] } = { ...(query as object), ...(params as object) } as { channel?: string | string[] }
  return [...new Set([channel].flat().flatMap(text => parseStoredChannel(text) ?? []))].sort()
}

const tookTooMany = (cause: unknown): QueryTooLargeError =>
  new QueryTooLargeError(
    `the answer took longer than ${manyQueriesMsMax / 1000} s: give fewer channels, or narrow it with name, publisher, from or to`,
    { cause },
  )

async function answerPage(parts: PageParts, serialization: Serialization, signal: AbortSignal): Promise<Serialized> {
  const { request } = serialization
  const page =
    request.kind === 'aggregate'
      ? { buckets: await answerBuckets(parts.reader, request, signal) }
      : { rows: await answerRows(parts, request, signal) }
  return await serializePage(page, serialization, signal)
}

/** Errors that are handled separately, and errors that indicate a bug here, which are not failures of the store. */
const known = [
  HttpError,
  QueryTooLargeError,
  StoreUnavailableError,
  AccessUnavailableError,
  TypeError,
  RangeError,
  ReferenceError,
  SyntaxError,
] as const

/** Any other error of a store, such as a changed password, means that it is unavailable. */
function throwStoreFailure(error: unknown): never {
  if (known.some(kind => error instanceof kind)) throw error
  throw new StoreUnavailableError(error instanceof Error ? error.message : String(error), { cause: error })
}

/** The HttpError for a known error. Unknown errors are returned unchanged, and the server answers them. */
function readFailure(error: unknown): unknown {
  if (error instanceof QueryTooLargeError) return new HttpError('query_too_large', error.message, { cause: error })
  if (error instanceof StoreUnavailableError) {
    return new HttpError('unavailable', 'the store is unavailable: retry', { cause: error })
  }
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the credentials cannot be checked now: retry', { cause: error })
  }
  return error
}
