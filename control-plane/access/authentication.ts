// Authentication: the token of a request, checked before its body is read; and which routes an API key with a scope may use.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { HttpError, tokenRequired } from '../../http/errors.ts'
import { clientAddressOf } from '../../http/requests/client-address.ts'
import type { HttpServer } from '../../http/server.ts'
import { isApiKey, limitedError, parseCredential } from '../client.ts'
import type { ChannelId, UserId } from '../ids.ts'
import { type ApiKeys, isScoped, type KeyScope } from '../keys/store.ts'
import type { UnknownKeys } from '../requests/unknown-keys.ts'
import type { Tokens } from '../tokens/store.ts'
import type { Users } from '../users/store.ts'
import type { Actor, Caller } from '../writes.ts'

export interface Authentication {
  /**
   * The user whose token or API key this is; undefined if it is forged, expired, revoked or older than its user's password.
   *
   * @throws HttpError `forbidden` for an API key with a scope
   */
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
const keyDecorator = 'callerKey'
/** Which API keys with a scope the route accepts, of those that may read; null for none. */
const acceptedDecorator = 'acceptedKeys'
type AcceptedKeys = 'of all channels' | 'of some channels'

/** Call it once for the plugin whose routes use the hooks. All of them refuse API keys with a scope, except those with one of the next two. */
export function decorateCaller(app: HttpServer): void {
  app.decorateRequest(callerDecorator, null)
  app.decorateRequest(keyDecorator, null)
  app.decorateRequest(acceptedDecorator, null)
  // Not in `onRequest`: what is wrong with the request comes first.
  app.addHook('preHandler', async request => demandScope(request))
}

/** Another onRequest hook, of a route that reads: accepts API keys with a scope, but not those of some channels. */
export const forReading = async (request: FastifyRequest): Promise<void> =>
  request.setDecorator<AcceptedKeys>(acceptedDecorator, 'of all channels')

/** Accepts those of some channels too: of a route that has its channel in its path, or gives only those of `keyChannelsOf`. */
export const forReadingChannels = async (request: FastifyRequest): Promise<void> =>
  request.setDecorator<AcceptedKeys>(acceptedDecorator, 'of some channels')

/** @throws HttpError `forbidden` if the caller has an API key whose scope the route, or the channel in its path, is not in */
function demandScope(request: FastifyRequest): void {
  const key = keyOf(request)
  if (key === undefined || !isScoped(key)) return
  const accepted = request.getDecorator<AcceptedKeys | null>(acceptedDecorator)
  const isIn = accepted === 'of some channels' || (accepted === 'of all channels' && key.channels === undefined)
  if (!isIn || key.access === 'publish') throw scopeRefusal()
  const { channel } = request.params as { channel?: string }
  if (channel !== undefined && key.channels?.some(one => one === channel.toLowerCase()) === false) throw new HttpError('forbidden')
}

export const scopeRefusal = (): HttpError =>
  new HttpError('forbidden', 'an API key with this scope is not accepted here: send a token of POST /tokens, or an API key without a scope')

/** The API key of the caller, who may also have a token. */
const keyOf = (request: FastifyRequest): KeyScope | undefined => request.getDecorator<KeyScope | null>(keyDecorator) ?? undefined

/** The only channels that the caller may see; undefined for all of their own. */
export const keyChannelsOf = (request: FastifyRequest): readonly ChannelId[] | undefined => keyOf(request)?.channels

/** For API keys with a scope without the things' keys: these publish, and stay valid when the API key is revoked. */
export function withoutKeys<Item extends { readonly key: string }>(request: FastifyRequest, items: readonly Item[]) {
  const key = keyOf(request)
  return key === undefined || !isScoped(key) ? [...items] : items.map(({ key: _key, ...rest }) => rest)
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
  if (keyOf(request) !== undefined)
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
  async function identify(token: string): Promise<{ readonly user: UserId; readonly key?: KeyScope } | undefined> {
    if (isApiKey(token)) {
      const found = await apiKeys.verify(token)
      return found && { user: found.owner, key: found.scope }
    }
    const claims = await tokens.verify(token)
    if (claims === undefined) return undefined
    return (await users.tokenVersion(claims.user)) === claims.version ? { user: claims.user } : undefined
  }

  /** @throws HttpError `too_many_requests` for an invalid key that was sent too often from this address */
  async function refuseLimited(secret: string, address: string): Promise<void> {
    const leftMs = await unknownKeys.note('api-key', apiKeys.lookup(secret), address)
    if (leftMs > 0) throw limitedError({ leftMs }, 'Bearer')
  }

  async function authenticate(header: string, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const credential = parseCredential(header)
    const identity = credential?.scheme === 'Bearer' ? await identify(credential.secret) : undefined
    if (identity === undefined) {
      if (credential !== undefined && isApiKey(credential.secret)) await refuseLimited(credential.secret, clientAddressOf(request))
      // RFC 6750 §3.1. Without a token the challenge has no error: http/error-answer.ts adds it.
      reply.header('www-authenticate', 'Bearer realm="sluice", error="invalid_token"')
      throw new HttpError(
        'unauthenticated',
        'the token is invalid or has expired: get a new one with POST /tokens and send it as Authorization: Bearer <token>',
      )
    }
    request.setDecorator(callerDecorator, identity.user)
    request.setDecorator<KeyScope | null>(keyDecorator, identity.key ?? null)
  }

  return {
    async userOf(token) {
      const identity = await identify(token)
      if (identity?.key !== undefined && isScoped(identity.key)) throw scopeRefusal()
      return identity?.user
    },
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
