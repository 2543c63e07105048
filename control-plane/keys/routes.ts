// API keys: issued by their owner; listed and revoked by their owner, and by the administrator.

import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf, demandToken } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { toApiKeyId, toUserId, type UserId } from '../ids.ts'
import type { PageRequest } from '../requests/page.ts'
import { refuseFaults, textFault, toUtc } from '../requests/text.ts'
import type { User, Users } from '../users/store.ts'
import {
  apiKeyType,
  issueKeySchema,
  keyNameBytesMax,
  listKeysSchema,
  listUserKeysSchema,
  revokeKeySchema,
  revokeUserKeySchema,
  viewKeySchema,
} from './schema.ts'
import type { ApiKey, ApiKeys } from './store.ts'

interface Parts {
  readonly apiKeys: ApiKeys
  readonly users: Pick<Users, 'find'>
  readonly authentication: Authentication
  readonly authorization: Authorization
}

/** Durations from here on are nanoseconds, as some clients send them; no duration in seconds is as large. */
const nanosecondsFrom = 1e9

export function keyRoutes(app: HttpServer, { apiKeys, users, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  /** @throws HttpError the refusal for an absent user */
  async function found(caller: UserId, id: UserId): Promise<User> {
    const user = await users.find(id)
    if (user === undefined) throw await authorization.refusal(caller, async () => false)
    return user
  }

  async function pageFor({ id, email }: User, { offset, limit }: PageRequest) {
    const { total, items } = await apiKeys.list(id, { offset, limit })
    return { total, offset, limit, keys: items.map(key => answerOf(key, email)) }
  }

  app.post('/keys', { schema: issueKeySchema, onRequest }, async (request, reply) => {
    const endsMs = endOf(request.body)
    const faultInName = textFault(request.body.name, keyNameBytesMax)
    if (faultInName !== undefined) refuseFaults([{ pointer: '/body/name', detail: faultInName }])
    demandToken(request)
    const { key, value } = await apiKeys.issue(changerOf(request), request.body.name, endsMs)
    const { id, issuedAt, expiresAt } = key
    return reply
      .code(201)
      .header('cache-control', 'no-store')
      .send({ id, value, issued_at: issuedAt, ...(expiresAt === undefined ? {} : { expires_at: expiresAt }) })
  })

  app.get('/keys', { schema: listKeysSchema, onRequest }, async (request, reply) => {
    const caller = (await users.find(callerOf(request)))!
    return reply.send(await pageFor(caller, request.query))
  })

  app.get('/keys/:key', { schema: viewKeySchema, onRequest }, async (request, reply) => {
    const caller = callerOf(request)
    const id = toApiKeyId(request.params.key)
    const key = await apiKeys.find(caller, id)
    if (key === undefined) throw await authorization.refusal(caller, () => apiKeys.exists(id))
    return reply.send(answerOf(key, (await users.find(caller))!.email))
  })

  app.delete('/keys/:key', { schema: revokeKeySchema, onRequest }, async (request, reply) => {
    await apiKeys.revoke(changerOf(request), callerOf(request), toApiKeyId(request.params.key))
    return reply.code(204).send()
  })

  app.get('/users/:user/keys', { schema: listUserKeysSchema, onRequest }, async (request, reply) => {
    await authorization.demand(callerOf(request), 'member', 'authorities')
    const user = await found(callerOf(request), toUserId(request.params.user))
    return reply.send(await pageFor(user, request.query))
  })

  app.delete('/users/:user/keys/:key', { schema: revokeUserKeySchema, onRequest }, async (request, reply) => {
    await authorization.demand(callerOf(request), 'member', 'authorities')
    const { id: owner } = await found(callerOf(request), toUserId(request.params.user))
    await apiKeys.revoke(changerOf(request), owner, toApiKeyId(request.params.key))
    return reply.code(204).send()
  })
}

/** Milliseconds since 1970; undefined for a key that does not expire. */
function endOf({ expires_at: expiresAt, duration }: { readonly expires_at?: string; readonly duration?: number }): number | undefined {
  if (expiresAt !== undefined && duration !== undefined)
    refuseFaults([{ pointer: '/body/duration', detail: 'is given together with expires_at: give one of them' }])
  if (expiresAt === undefined) {
    if (duration === undefined || duration === 0) return undefined
    return Date.now() + (duration >= nanosecondsFrom ? duration / 1e6 : duration * 1000)
  }
  const endsMs = Date.parse(toUtc(expiresAt, '/body/expires_at'))
  if (!(endsMs > Date.now()))
    refuseFaults([{ pointer: '/body/expires_at', detail: 'is not in the future: give a later time, in RFC 3339' }])
  return endsMs
}

function answerOf({ id, owner, name, issuedAt, expiresAt }: ApiKey, email: string) {
  const end = expiresAt === undefined ? {} : { expires_at: expiresAt }
  return { id, issuer_id: owner, subject: email, name, type: apiKeyType, issued_at: issuedAt, ...end }
}
