// The HTTP door for what is stored: GET /channels/<channel>/messages and GET /channels/<channel>/formats, the same on every store.
//
// The order of checks: who asks (401), the shape of the request (400), then rights (403).

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { errorAnswers } from '../config/http/error-schema.ts'
import { type ErrorCode, HttpError } from '../config/http/errors.ts'
import {
  type Access,
  type AccessControl,
  AccessUnavailableError,
  channelParameter,
  noChannel,
  parseChannel,
} from '../control-plane/client.ts'
import { formatsSchema, pageAnswer } from './answer-schema.ts'
import { type Printed, type Printing, printAnswer, printText, sendPrinted } from './answers.ts'
import { authenticate, challenge } from './authenticate.ts'
import { takesGzip } from './content-coding.ts'
import type { Cursors } from './cursor.ts'
import { sendExport } from './exports.ts'
import { formatsAnswer } from './formats.ts'
import { formOf } from './media-type.ts'
import type { ReaderOptions } from './options.ts'
import { answerBuckets, answerRows, exportPages, ofNothing, type PageParts } from './pages.ts'
import { daysUsual, formatsParameters, type Parameters, parametersSchema } from './parameters.ts'
import { openPrintedPages, type PrintedPages } from './printed-pages.ts'
import { checkEscapes, dottedSubtopic } from './query-text.ts'
import { questionOf } from './question.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from './reader.ts'
import type { RecordKeys } from './record-keys.ts'
import { openRoom } from './room.ts'
import { openSharing } from './sharing.ts'

export interface ReaderParts {
  readonly reader: Reader
  readonly access: AccessControl
  readonly cursors: Cursors
  readonly options: ReaderOptions
  /** Of records; capitals where it is left out. */
  readonly keys?: RecordKeys
}

/** Who asks, found out before the query is looked at. */
interface ReadHead {
  readonly channel: string
  readonly right: Access
  /** When it was asked for, of a clock that does not go back. */
  readonly askedMs: number
  /** Aborts when the client goes away, be it while it is found out who asks. */
  readonly signal: AbortSignal
}

const headKey = 'read'

/** What took longer to find is given only to who may still read it. */
const rightMsMax = 1000

/** The routes of a reader. Errors are thrown as HttpError, for the server that they are registered with. */
export function readerRoutes({ reader, access, cursors, options, keys }: ReaderParts): FastifyPluginAsync {
  const stored: PageParts = { reader, cursors, countMax: options.countMax }
  const idleMsMax = options.idleSeconds * 1000
  const sharing = openSharing<Printed>()
  const printedPages = openPrintedPages()
  const queries = openRoom({
    max: options.queriesMax,
    eachMax: options.queriesEachMax,
    what: 'queries',
    whose: 'of one user and their things',
    advice: 'wait for one of them',
  })
  const room = openRoom({ max: options.exportsMax, eachMax: options.exportsEachMax, what: 'exports' })

  async function readHead(request: FastifyRequest): Promise<void> {
    const { signal } = request
    const askedMs = performance.now()
    // What is no id is refused by the route's schema, once it is known who asks.
    const channel = parseChannel((request.params as { channel: string }).channel) ?? noChannel
    const right = await authenticate(access, request, channel)
    request.setDecorator<ReadHead>(headKey, { channel, right, askedMs, signal })
  }

  async function read(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { channel, right, askedMs, signal } = request.getDecorator<ReadHead>(headKey)
    // Whom alone the asker may read is known after their rights; the shape of the question is not theirs.
    const publisher = right.allowed ? (right.publisher ?? undefined) : undefined
    const { question, isEmpty } = questionOf(request.query as Parameters, channel, publisher, options.limitMax, keys)
    const form = formOf(request.headers.accept)
    if (form === undefined) throw new HttpError('not_acceptable', 'give application/json, application/x-ndjson or text/csv in Accept')
    if (!right.allowed) throw new HttpError('forbidden')
    queries.hold(right.owner, reply.raw)
    const parts = isEmpty ? ofNothing(stored) : stored

    const isAllowed = (): Promise<boolean> => mayStill(request, channel, right)
    if (question.kind === 'export') {
      const pages = exportPages(parts, question, signal)
      return await sendExport(reply, { question, form, pages, isAllowed, signal, room, asker: right.publisher ?? right.owner, idleMsMax })
    }
    const isCoded = takesGzip(request.headers['accept-encoding'])
    const url = dottedSubtopic(request.url)
    const printing: Printing = { question, form, isCoded, url }
    // Everything that an answer depends on: who may read more than one thing's messages asks for the whole channel, whoever it is.
    const key = `${form} ${isCoded} ${url} ${publisher ?? ''}`
    const printed = await sharing.ask(key, ofAll => answer(parts, printing, key, printedPages, ofAll), signal)
    if (performance.now() - askedMs > rightMsMax && !(await isAllowed())) throw new HttpError('forbidden')
    return sendPrinted(reply, printed, idleMsMax)
  }

  async function readFormats(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { channel, right, askedMs, signal } = request.getDecorator<ReadHead>(headKey)
    if (formOf(request.headers.accept, ['json']) === undefined) throw new HttpError('not_acceptable', 'give application/json in Accept')
    if (!right.allowed) throw new HttpError('forbidden')
    queries.hold(right.owner, reply.raw)
    const { days = daysUsual } = request.query as Static<typeof formatsParameters>
    const text = await formatsAnswer(reader, channel, right.publisher ?? undefined, days, signal)
    if (performance.now() - askedMs > rightMsMax && !(await mayStill(request, channel, right))) throw new HttpError('forbidden')
    return sendPrinted(reply, await printText('json', text, takesGzip(request.headers['accept-encoding'])), idleMsMax)
  }

  /** A key may have gone to another thing meanwhile. */
  async function mayStill(request: FastifyRequest, channel: string, { publisher }: Access & { allowed: true }): Promise<boolean> {
    const now = await authenticate(access, request, channel)
    return now.allowed && now.publisher === publisher
  }

  return async app => {
    app.decorateRequest(headKey, null)
    app.setErrorHandler((error, request, reply) => {
      // Nobody is there to be answered, and what ended with the client is no failure of the store.
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
          'With the key of a connected thing: what this thing published. With the token of the owner: the whole channel. The newest come first. ' +
          'A page has as many messages as `limit` says, or fewer where they are large: `next_cursor` and `Link` say where it goes on. ' +
          'As JSON, NDJSON or CSV, by `Accept`. Any parameter `payload.<path>=<text>` asks for JSON documents whose scalar at this dotted path has this text.',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: channelParameter }),
        querystring: parametersSchema(options.limitMax, options.offsetMax),
        response: {
          200: pageAnswer,
          ...errorAnswers(...failures),
        },
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
          'Which formats have messages of the last days, and by which subtopics they came: what the parameters `format` and `subtopic` of a page take. ' +
          'With the key of a connected thing: of what this thing published. With the token of the owner: of the whole channel. The 10,000 newest messages ' +
          'of each format are looked at, and 100 formats with 100 subtopics each are listed at most.',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: channelParameter }),
        querystring: formatsParameters,
        response: { 200: formatsSchema, ...errorAnswers(...failures) },
      },
      handler: (request, reply) => readFormats(request, reply).catch(throwStoreFailure),
    })
  }
}

const failures: readonly ErrorCode[] = ['unauthenticated', 'forbidden', 'not_acceptable', 'query_too_large', 'too_many_requests']

async function answer(
  { reader, ...parts }: PageParts,
  printing: Printing,
  key: string,
  printedPages: PrintedPages,
  signal: AbortSignal,
): Promise<Printed> {
  const { question } = printing
  if (question.kind === 'aggregate') return await printAnswer({ buckets: await answerBuckets(reader, question, signal) }, printing, signal)
  const rows = await answerRows({ reader, ...parts }, question, signal)
  const before = printedPages.find(key, rows)
  if (before !== undefined) return before
  const printed = await printAnswer({ rows }, printing, signal)
  printedPages.keep(key, rows, printed)
  return printed
}

/** What has a meaning here, and mistakes of ours, which are no matter of the store. */
const told = [
  HttpError,
  QueryTooLargeError,
  StoreUnavailableError,
  AccessUnavailableError,
  TypeError,
  RangeError,
  ReferenceError,
  SyntaxError,
] as const

/** Whatever else a store throws while it is asked, such as a password that has changed, says that it cannot answer now. */
function throwStoreFailure(error: unknown): never {
  if (told.some(kind => error instanceof kind)) throw error
  throw new StoreUnavailableError(error instanceof Error ? error.message : String(error), { cause: error })
}

/** The error as the table of errors has it. What is foreign here stays as it is: the server answers it. */
function readFailure(error: unknown): unknown {
  if (error instanceof QueryTooLargeError) return new HttpError('query_too_large', error.message, { cause: error })
  if (error instanceof StoreUnavailableError) {
    return new HttpError('unavailable', 'the store cannot answer now: ask again', { cause: error })
  }
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the credentials cannot be checked now: ask again', { cause: error })
  }
  return error
}
