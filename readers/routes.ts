// The HTTP door for what is stored: GET /channels/<channel>/messages, the same on every store.
//
// The order of checks: who asks (401), the shape of the request (400), then rights (403).

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { errorAnswers } from '../config/http/error-schema.ts'
import { HttpError } from '../config/http/errors.ts'
import {
  type Access,
  type AccessControl,
  AccessUnavailableError,
  channelParameter,
  noChannel,
  parseChannel,
} from '../control-plane/client.ts'
import { pageAnswer } from './answer-schema.ts'
import { sendAnswer, sendExport } from './answers.ts'
import { authenticate, challenge } from './authenticate.ts'
import type { Cursors } from './cursor.ts'
import { formOf } from './media-type.ts'
import type { ReaderOptions } from './options.ts'
import { answerBuckets, answerRows, exportPages, ofNothing, type PageParts } from './pages.ts'
import { type Parameters, parametersSchema } from './parameters.ts'
import { escapeFaults } from './query-text.ts'
import { questionOf } from './question.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from './reader.ts'

export interface ReaderParts {
  readonly reader: Reader
  readonly access: AccessControl
  readonly cursors: Cursors
  readonly options: ReaderOptions
}

/** Who asks, found out before the query is looked at. */
interface ReadHead {
  readonly channel: string
  readonly right: Access
  /** Aborts when the client goes away, be it while it is found out who asks. */
  readonly signal: AbortSignal
}

const headKey = 'read'

/** The routes of a reader. Errors are thrown as HttpError, for the server that they are registered with. */
export function readerRoutes({ reader, access, cursors, options }: ReaderParts): FastifyPluginAsync {
  const stored: PageParts = { reader, cursors, countMax: options.countMax }

  async function readHead(request: FastifyRequest): Promise<void> {
    const { signal } = request
    // What is no id is refused by the route's schema, once it is known who asks.
    const channel = parseChannel((request.params as { channel: string }).channel) ?? noChannel
    const right = await authenticate(access, request.headers.authorization, channel)
    request.setDecorator<ReadHead>(headKey, { channel, right, signal })
  }

  async function checkEscapes(request: FastifyRequest): Promise<void> {
    const faults = escapeFaults(request.url)
    if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults })
  }

  async function read(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { channel, right, signal } = request.getDecorator<ReadHead>(headKey)
    // Whom alone the asker may read is known after their rights; the shape of the question is not theirs.
    const publisher = right.allowed ? (right.publisher ?? undefined) : undefined
    const { question, isEmpty } = questionOf(request.query as Parameters, channel, publisher, options.limitMax)
    const form = formOf(request.headers.accept)
    if (form === undefined) throw new HttpError('not_acceptable', 'give application/json, application/x-ndjson or text/csv in Accept')
    if (!right.allowed) throw new HttpError('forbidden')
    const parts = isEmpty ? ofNothing(stored) : stored
    if (question.kind === 'export') {
      const isAllowed = async (): Promise<boolean> => (await authenticate(access, request.headers.authorization, channel)).allowed
      return await sendExport(reply, { question, form, pages: whileAllowed(exportPages(parts, question, signal), isAllowed) })
    }
    if (question.kind === 'aggregate') {
      return await sendAnswer(reply, { question, form, buckets: await answerBuckets(parts.reader, question, signal) })
    }
    return await sendAnswer(reply, { question, form, rows: await answerRows(parts, question, signal) })
  }

  return async app => {
    app.decorateRequest(headKey, null)
    app.setErrorHandler((error, request, reply) => {
      const failure = readFailure(error, request)
      if (failure instanceof HttpError && failure.code === 'unauthenticated') reply.header('www-authenticate', challenge)
      throw failure
    })
    app.get('/channels/:channel/messages', {
      onRequest: readHead,
      preValidation: checkEscapes,
      schema: {
        tags: ['messages'],
        summary: 'Read the messages of a channel',
        description:
          'With the key of a connected thing: what this thing published. With the token of the owner: the whole channel. The newest come first. ' +
          'As JSON, NDJSON or CSV, by `Accept`. Any parameter `payload.<path>=<text>` asks for JSON documents whose scalar at this dotted path has this text.',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: channelParameter }),
        querystring: parametersSchema(options.limitMax, options.offsetMax),
        response: {
          200: pageAnswer,
          ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_acceptable', 'query_too_large', 'unavailable'),
        },
      },
      handler: read,
    })
  }
}

/** Breaks off where who asks may read no longer: an export may last longer than a right. */
async function* whileAllowed<Page>(pages: AsyncGenerator<Page>, isAllowed: () => Promise<boolean>): AsyncGenerator<Page> {
  for await (const page of pages) {
    if (!(await isAllowed())) throw new HttpError('forbidden')
    yield page
  }
}

/** The error as the table of errors has it. What is foreign here stays as it is: the server answers it. */
function readFailure(error: unknown, request: FastifyRequest): unknown {
  if (error instanceof QueryTooLargeError) return new HttpError('query_too_large', error.message, { cause: error })
  if (error instanceof StoreUnavailableError || request.signal.aborted) {
    return new HttpError('unavailable', 'the store cannot answer now: ask again', { cause: error })
  }
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the credentials cannot be checked now: ask again', { cause: error })
  }
  return error
}
