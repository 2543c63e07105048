// The HTTP door for what is stored: GET /channels/<channel>/messages, the same on every store.
//
// The order of checks: who asks (401), the shape of the request (400), then rights (403).

import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { errorAnswers } from '../config/http/error-schema.ts'
import { HttpError } from '../config/http/errors.ts'
import {
  type Access,
  type AccessControl,
  AccessUnavailableError,
  channelParameter,
  noChannel,
  parseChannel,
  parseCredential,
} from '../control-plane/client.ts'
import type { ReaderOptions } from './options.ts'
import { type Reader, StoreUnavailableError, senmlFormat } from './reader.ts'
import { pageJson } from './record-json.ts'

export interface ReaderParts {
  readonly reader: Reader
  readonly access: AccessControl
  readonly options: ReaderOptions
}

/** Who asks, found out before the query is looked at. */
interface ReadHead {
  readonly channel: string
  readonly right: Access
}

const headKey = 'read'

/** The routes of a reader. Errors are thrown as HttpError, for the server that they are registered with. */
export function readerRoutes({ reader, access, options }: ReaderParts): FastifyPluginAsync {
  async function readHead(request: FastifyRequest): Promise<void> {
    // What is no id is refused by the route's schema, once it is known who asks.
    const channel = parseChannel((request.params as { channel: string }).channel) ?? noChannel
    const right = await authenticate(access, request.headers.authorization, channel)
    request.setDecorator<ReadHead>(headKey, { channel, right })
  }

  async function read(request: FastifyRequest): Promise<string> {
    const { channel, right } = request.getDecorator<ReadHead>(headKey)
    if (!right.allowed) throw new HttpError('forbidden')
    const { offset, limit, format } = request.query as Required<Static<ReturnType<typeof querySchema>>>
    const query = { channel, publisher: right.publisher ?? undefined, offset, limit, format }
    return pageJson(query, await reader.read(query, request.signal))
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
        summary: 'Read the messages of a channel, newest first',
        description: 'With the key of a connected thing: what this thing published. With the token of the owner: the whole channel.',
        security: [{ thing: [] }, { user: [] }],
        params: Type.Object({ channel: channelParameter }),
        querystring: querySchema(options.limitMax),
        response: { 200: pageSchema, ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'unavailable') },
      },
      handler: async (request, reply) => reply.type('application/json; charset=utf-8').send(await read(request)),
    })
  }
}

/** Either scheme is taken (RFC 9110 §11.6.1). */
const challenge = 'Thing realm="sluice", Bearer realm="sluice"'

/**
 * @returns an access, or a refusal of rights
 * @throws HttpError `unauthenticated`
 * @throws AccessUnavailableError
 */
async function authenticate(access: AccessControl, header: string | undefined, channel: string): Promise<Access> {
  const credential = parseCredential(header)
  if (credential === undefined) {
    const detail =
      'read with the key of a thing ("Authorization: Thing <key>") or the token of the channel\'s owner ("Authorization: Bearer <token>")'
    throw new HttpError('unauthenticated', detail)
  }
  const answer = await access.authorize({ credential, channel, action: 'read' })
  if (answer.allowed || answer.reason === 'forbidden') return answer
  const detail =
    credential.scheme === 'Thing'
      ? 'this is no key of a thing: show the key that creating the thing gave'
      : 'this token is not valid or has expired: get a new one with POST /tokens'
  throw new HttpError('unauthenticated', detail)
}

/** The error as the table of errors has it. What is foreign here stays as it is: the server answers it. */
function readFailure(error: unknown, request: FastifyRequest): unknown {
  if (error instanceof StoreUnavailableError || request.signal.aborted) {
    return new HttpError('unavailable', 'the store cannot answer now: ask again', { cause: error })
  }
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the credentials cannot be checked now: ask again', { cause: error })
  }
  return error
}

const always = {
  Channel: Type.String(),
  Subtopic: Type.String({ description: 'Dotted, may be empty.' }),
  Publisher: Type.String({ description: 'The id of the thing that sent the message.' }),
  Protocol: Type.String({ description: '`http`, `mqtt`, `kafka`.' }),
}
const recordSchema = Type.Object({
  ...always,
  Name: Type.String(),
  Unit: Type.Optional(Type.String()),
  Time: Type.Number({ description: 'Seconds since 1970, to the microsecond.' }),
  UpdateTime: Type.Optional(Type.Number({ description: 'Seconds.' })),
  Value: Type.Optional(Type.Number()),
  StringValue: Type.Optional(Type.String()),
  BoolValue: Type.Optional(Type.Boolean()),
  DataValue: Type.Optional(Type.String({ description: 'base64url without padding.' })),
  Sum: Type.Optional(Type.Number()),
})
const documentSchema = Type.Object({
  ...always,
  Created: Type.Integer({ description: 'Nanoseconds since 1970.' }),
  Payload: Type.Record(Type.String(), Type.Unknown()),
})
const pageSchema = Type.Object(
  {
    total: Type.Integer(),
    total_is_lower_bound: Type.Optional(Type.Boolean({ description: 'Only there, and true, where there are at least `total`.' })),
    offset: Type.Integer(),
    limit: Type.Integer(),
    format: Type.String(),
    messages: Type.Array(Type.Union([recordSchema, documentSchema])),
  },
  { description: 'The page, newest first.' },
)

/** Defaults as SPEC §8 has them; the check fills them in. A format is at most as long as the subtopic that it is the last part of. */
function querySchema(limitMax: number) {
  return Type.Object(
    {
      offset: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          default: 0,
          allowed: 'a whole number from 0 up',
          description: 'Records to pass over.',
        }),
      ),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: limitMax, default: Math.min(10, limitMax), description: 'Records of a page.' }),
      ),
      format: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 1024,
          default: senmlFormat,
          allowed: "the last part of the messages' subtopic",
          description: `The last part of the subtopic of JSON messages; SenML is \`${senmlFormat}\`.`,
        }),
      ),
    },
    { additionalProperties: false },
  )
}
