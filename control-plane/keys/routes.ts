// API keys: issued by their owner; listed and revoked by their owner, and by the administrator.

import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf, demandToken } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import type { Connections } from '../connections/store.ts'
import { type ChannelId, toApiKeyId, toChannelId, toUserId, type UserId } from '../ids.ts'
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
  readonly connections: Pick<Connections, 'exist'>
  readonly authentication: Authentication
  readonly authorization: Authorization
}

/** Durations from here on are nanoseconds, as some clients send them; no duration in seconds is as large. */
const nanosecondsFrom = 1e9

export function keyRoutes(app: HttpServer, { apiKeys, users, connections, authentication, authorization }: Parts): void {
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
    const channels = channelsIn(request.body)
    demandToken(request)
    const { name, access } = request.body
    const issued = await apiKeys.issue(changerOf(request), { name, access, channels, endsMs })
    if (issued === undefined) throw await authorization.refusal(callerOf(request), () => connections.exist(channels!, []))
    const { id, issuedAt, expiresAt } = issued.key
    return reply
      .code(201)
      .header('cache-control', 'no-store')
      .send({ id, value: issued.value, issued_at: issuedAt, ...(expiresAt === undefined ? {} : { expires_at: expiresAt }) })
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

/** @throws HttpError `malformed_request` for one that is given twice */
function channelsIn({ channels }: { readonly channels?: readonly string[] }): ChannelId[] | undefined {
  const ids = channels?.map(toChannelId)
  const again = ids?.findIndex((id, at) => ids.indexOf(id) < at) ?? -1
  if (again >= 0) refuseFaults([{ pointer: `/body/channels/${again}`, detail: 'is in the list already: give each channel once' }])
  return ids
}

function answerOf({ id, owner, name, access, channels, issuedAt, expiresAt }: ApiKey, email: string) {
  const scope = { access, ...(channels === undefined ? {} : { channels: [...channels] }) }
  const end = expiresAt === undefined ? {} : { expires_at: expiresAt }
  return { id, issuer_id: owner, subject: email, name, ...scope, type: apiKeyType, issued_at: issuedAt, ...end }
}
