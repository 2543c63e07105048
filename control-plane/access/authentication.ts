// Authentication: the token of a request, checked before its body is read.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { HttpError, tokenRequired } from '../../http/errors.ts'
import { clientAddressOf } from '../../http/requests/client-address.ts'
import type { HttpServer } from '../../http/server.ts'
import { parseCredential } from '../client.ts'
import type { UserId } from '../ids.ts'
import { type ApiKeys, isApiKey } from '../keys/store.ts'
import type { UnknownKeys } from '../requests/unknown-keys.ts'
import type { Tokens } from '../tokens/store.ts'
import type { Users } from '../users/store.ts'
import type { Actor, Caller } from '../writes.ts'

export interface Authentication {
  /** The user whose token or API key this is; undefined if it is forged, expired, revoked or older than its user's password. */
  readonly userOf: (token: string) => Promise<UserId | undefined>
  /** An onRequest hook: 401 without a valid token. */
  readonly required: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** An onRequest hook: 401 with a bad token. Without a token the caller is the user that `configured` returns; 401 if it returns none. */
  requiredOr(
    configured: ((request: FastifyRequest) => Promise<UserId | undefined>) | undefined,
  ): (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** An onRequest hook: 401 with a bad token, and without a token if `open` returns false. */
  optional(open: () => Promise<boolean>): (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

const callerDecorator = 'caller'
const apiKeyDecorator = 'callerHasApiKey'

/** Call it once for the plugin whose routes use the hooks. */
export function decorateCaller(app: HttpServer): void {
  app.decorateRequest(callerDecorator, null)
  app.decorateRequest(apiKeyDecorator, false)
}

/** The user behind a request that passed `required`. */
export function callerOf(request: FastifyRequest): UserId {
  const caller = optionalCallerOf(request)
  if (caller === undefined) throw new Error('a route reads the caller but has no authentication hook')
  return caller
}

/** The same user with the client's address and the request's id: the actor of a change. */
export function changerOf(request: FastifyRequest): Caller {
  return { ...actorOf(request), user: callerOf(request) }
}

/** The actor of a change on a route that accepts requests without a token. */
export function actorOf(request: FastifyRequest): Actor {
  return { user: optionalCallerOf(request), address: clientAddressOf(request), request: request.id }
}

/** @throws HttpError `forbidden` for a request with an API key: what it creates would outlive the key's revocation */
export function demandToken(request: FastifyRequest): void {
  if (request.getDecorator<boolean>(apiKeyDecorator))
    throw new HttpError('forbidden', 'an API key is not accepted here: get a token with POST /tokens and send it instead')
}

/** The user behind a request that passed `optional`. */
export function optionalCallerOf(request: FastifyRequest): UserId | undefined {
  return request.getDecorator<UserId | null>(callerDecorator) ?? undefined
}

interface Parts {
  readonly tokens: Tokens
  readonly users: Pick<Users, 'tokenVersion'>
  readonly apiKeys: ApiKeys
  readonly unknownKeys: UnknownKeys
}

export function openAuthentication({ tokens, users, apiKeys, unknownKeys }: Parts): Authentication {
  async function userOf(token: string): Promise<UserId | undefined> {
    if (isApiKey(token)) return (await apiKeys.verify(token))?.owner
    const claims = await tokens.verify(token)
    if (claims === undefined) return undefined
    return (await users.tokenVersion(claims.user)) === claims.version ? claims.user : undefined
  }

  /** @throws HttpError `too_many_requests` for an invalid key that was sent too often from this address */
  async function refuseLimited(secret: string, address: string): Promise<void> {
    const leftMs = await unknownKeys.note('api-key', apiKeys.lookup(secret), address)
    if (leftMs === 0) return
    const detail = 'too many attempts with this invalid API key from this address: issue another one with POST /keys'
    throw new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(leftMs / 1000) })
  }

  async function authenticate(header: string, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const credential = parseCredential(header)
    const user = credential?.scheme === 'Bearer' ? await userOf(credential.secret) : undefined
    if (user === undefined) {
      if (credential !== undefined && isApiKey(credential.secret)) await refuseLimited(credential.secret, clientAddressOf(request))
      // RFC 6750 §3.1. Without a token the challenge has no error: http/error-answer.ts adds it.
      reply.header('www-authenticate', 'Bearer realm="sluice", error="invalid_token"')
      throw new HttpError(
        'unauthenticated',
        'the token is invalid or has expired: get a new one with POST /tokens and send it as Authorization: Bearer <token>',
      )
    }
    request.setDecorator(callerDecorator, user)
    request.setDecorator(apiKeyDecorator, isApiKey(credential!.secret))
  }

  return {
    userOf,
    async required(request, reply) {
      const { authorization } = request.headers
      if (authorization === undefined) throw new HttpError('unauthenticated', tokenRequired)
      await authenticate(authorization, request, reply)
    },
    requiredOr: configured => async (request, reply) => {
      const { authorization } = request.headers
      if (authorization !== undefined) return authenticate(authorization, request, reply)
      const user = await configured?.(request)
      if (user === undefined) throw new HttpError('unauthenticated', tokenRequired)
      request.setDecorator(callerDecorator, user)
    },
    optional: open => async (request, reply) => {
      const { authorization } = request.headers
      if (authorization !== undefined) await authenticate(authorization, request, reply)
      else if (!(await open())) throw new HttpError('unauthenticated', tokenRequired)
    },
  }
}
