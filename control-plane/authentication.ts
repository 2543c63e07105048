// Who is asking: the token of a request, checked before its body is read.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { HttpError } from '../config/http/errors.ts'
import type { HttpServer } from '../config/http/server.ts'
import { parseCredential } from './client.ts'
import type { UserId } from './ids.ts'
import type { Tokens } from './tokens/store.ts'
import type { Users } from './users/store.ts'

export interface Authentication {
  /** The user whose token this is; undefined for one that is forged, expired or older than its user's password. */
  readonly userOf: (token: string) => Promise<UserId | undefined>
  /** An onRequest hook: 401 without a valid token. */
  readonly required: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** An onRequest hook: 401 with a bad token, and without one where `open` says no. */
  optional(open: () => Promise<boolean>): (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

const callerDecorator = 'caller'

/** Once for the plugin whose routes use the hooks. */
export function decorateCaller(app: HttpServer): void {
  app.decorateRequest(callerDecorator, null)
}

/** The user behind a request that passed `required`. */
export function callerOf(request: FastifyRequest): UserId {
  const caller = optionalCallerOf(request)
  if (caller === undefined) throw new Error('a route asks who is calling and has no authentication hook')
  return caller
}

/** The user behind a request that passed `optional`. */
export function optionalCallerOf(request: FastifyRequest): UserId | undefined {
  return request.getDecorator<UserId | null>(callerDecorator) ?? undefined
}

export function openAuthentication(tokens: Tokens, users: Users): Authentication {
  async function userOf(token: string): Promise<UserId | undefined> {
    const claims = await tokens.verify(token)
    if (claims === undefined) return undefined
    return (await users.tokenVersion(claims.user)) === claims.version ? claims.user : undefined
  }

  async function authenticate(header: string, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const credential = parseCredential(header)
    const user = credential?.scheme === 'Bearer' ? await userOf(credential.secret) : undefined
    if (user === undefined) {
      throw challenge(
        reply,
        'the token is not valid or has ended: get a new one with POST /tokens and send it as Authorization: Bearer <token>',
        'invalid_token',
      )
    }
    request.setDecorator(callerDecorator, user)
  }

  return {
    userOf,
    async required(request, reply) {
      const { authorization } = request.headers
      if (authorization === undefined) throw missing(reply)
      await authenticate(authorization, request, reply)
    },
    optional: open => async (request, reply) => {
      const { authorization } = request.headers
      if (authorization !== undefined) await authenticate(authorization, request, reply)
      else if (!(await open())) throw missing(reply)
    },
  }
}

function missing(reply: FastifyReply): HttpError {
  return challenge(reply, 'this needs a token: get one with POST /tokens and send it as Authorization: Bearer <token>')
}

/** The 401, with the challenge that it must carry (RFC 9110 §15.5.2, RFC 6750 §3). */
export function challenge(reply: FastifyReply, detail: string, error?: 'invalid_token'): HttpError {
  reply.header('www-authenticate', error === undefined ? 'Bearer realm="sluice"' : `Bearer realm="sluice", error="${error}"`)
  return new HttpError('unauthenticated', detail)
}
