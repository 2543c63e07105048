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
import { pageSchema } from './answer-schema.ts'
import { sendAnswer, sendExport } from './answers.ts'
import { authenticate, challenge } from './authenticate.ts'
import type { Cursors } from './cursor.ts'
import { formOf } from './media-type.ts'
import type { ReaderOptions } from './options.ts'
import { answerBuckets, answerRows, exportPages, noAnswer, type PageParts } from './pages.ts'
import { type Parameters, parametersSchema } from './parameters.ts'
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
}

const headKey = 'read'

/** The routes of a reader. Errors are thrown as HttpError, for the server that they are registered with. */
export function readerRoutes({ reader, access, cursors, options }: ReaderParts): FastifyPluginAsync {
  const parts: PageParts = { reader, cursors, countMax: options.countMax }

  async function readHead(request: FastifyRequest): Promise<void> {
    // What is no id is refused by the route's schema, once it is known who asks.
    const channel = parseChannel((request.params as { channel: string }).channel) ?? noChannel
    const right = await authenticate(access, request.headers.authorization, channel)
    request.setDecorator<ReadHead>(headKey, { channel, right })
  }

  async function read(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { channel, right } = request.getDecorator<ReadHead>(headKey)
    // Whom alone the asker may read is known after their rights; the shape of the question is not theirs.
    const publisher = right.allowed ? (right.publisher ?? undefined) : undefined
    const { question, isEmpty } = questionOf(request.query as Parameters, channel, publisher, options.limitMax)
    const form = formOf(request.headers.accept)
    if (form === undefined) throw new HttpError('not_acceptable', 'give application/json, application/x-ndjson or text/csv in Accept')
    if (!right.allowed) throw new HttpError('forbidden')
    if (question.kind === 'export') {
      const pages = isEmpty ? nothing() : exportPages(parts, question, request.signal)
      return await sendExport(reply, { question, form, pages })
    }
    if (question.kind === 'aggregate') {
      const answer = isEmpty ? noAnswer : await answerBuckets(reader, question, request.signal)
      return await sendAnswer(reply, { question, form, buckets: answer })
    }
    const answer = isEmpty ? noAnswer : await answerRows(parts, question, request.signal)
    return await sendAnswer(reply, { question, form, rows: answer })
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
      schema: {
        tags: ['messages'],
        summary: 'Read the messages of a channel',
        description:
          'With the key of a connected thing: what this thing published. With the token of the owner: the whole channel. The newest come first. ' +
          'As JSON, NDJSON or CSV, by `Accept`.',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: channelParameter }),
        querystring: parametersSchema(options.limitMax, options.offsetMax),
        produces: ['application/json', 'application/x-ndjson', 'text/csv'],
        response: {
          200: pageSchema,
          ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_acceptable', 'query_too_large', 'unavailable'),
        },
      },
      handler: read,
    })
  }
}

async function* nothing(): AsyncGenerator<never> {
  // Another publisher was asked for than may be read.
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
