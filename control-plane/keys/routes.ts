// API keys: issued, listed and revoked by their owner.

import type { HttpServer } from '../../config/http/server.ts'
import { type Authentication, callerOf, changerOf, demandToken } from '../authentication.ts'
import type { Authorization } from '../authorization.ts'
import { toApiKeyId } from '../ids.ts'
import { refuseFaults, textFault } from '../text.ts'
import type { Users } from '../users/store.ts'
import { apiKeyType, issueKeySchema, keyNameBytesMax, listKeysSchema, revokeKeySchema, viewKeySchema } from './schema.ts'
import type { ApiKey, ApiKeys } from './store.ts'

interface Parts {
  readonly keys: ApiKeys
  readonly users: Pick<Users, 'find'>
  readonly authentication: Authentication
  readonly authorization: Authorization
}

/** Integers of clients that count in nanoseconds are no smaller; seconds are not as large. */
const nanosecondsFrom = 1e9

export function keyRoutes(app: HttpServer, { keys, users, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  app.post('/keys', { schema: issueKeySchema, onRequest }, async (request, reply) => {
    const endsMs = endOf(request.body)
    const ofName = textFault(request.body.name, keyNameBytesMax)
    if (ofName !== undefined) refuseFaults([{ pointer: '/body/name', detail: ofName }])
    demandToken(request)
    const { key, value } = await keys.issue(changerOf(request), request.body.name, endsMs)
    const { id, issuedAt, expiresAt } = key
    return reply
      .code(201)
      .header('cache-control', 'no-store')
      .send({ id, value, issued_at: issuedAt, ...(expiresAt === undefined ? {} : { expires_at: expiresAt }) })
  })

  app.get('/keys', { schema: listKeysSchema, onRequest }, async (request, reply) => {
    const caller = callerOf(request)
    const { offset, limit } = request.query
    const { total, items } = await keys.list(caller, { offset, limit })
    const { email } = (await users.find(caller))!
    return reply.send({ total, offset, limit, keys: items.map(key => answerOf(key, email)) })
  })

  app.get('/keys/:key', { schema: viewKeySchema, onRequest }, async (request, reply) => {
    const caller = callerOf(request)
    const id = toApiKeyId(request.params.key)
    const key = await keys.find(caller, id)
    if (key === undefined) throw await authorization.refusal(caller, () => keys.exists(id))
    return reply.send(answerOf(key, (await users.find(caller))!.email))
  })

  app.delete('/keys/:key', { schema: revokeKeySchema, onRequest }, async (request, reply) => {
    await keys.revoke(changerOf(request), toApiKeyId(request.params.key))
    return reply.code(204).send()
  })
}

/** Milliseconds since 1970; undefined for a key that does not end by itself. */
function endOf({ expires_at: expiresAt, duration }: { readonly expires_at?: string; readonly duration?: number }): number | undefined {
  if (expiresAt !== undefined && duration !== undefined)
    refuseFaults([{ pointer: '/body/duration', detail: 'stands beside expires_at: give one of them' }])
  if (expiresAt === undefined) {
    if (duration === undefined || duration === 0) return undefined
    return Date.now() + (duration >= nanosecondsFrom ? duration / 1e6 : duration * 1000)
  }
  const endsMs = Date.parse(expiresAt)
  if (!(endsMs > Date.now()))
    refuseFaults([{ pointer: '/body/expires_at', detail: 'is not in the future: give a later instant, in RFC 3339' }])
  return endsMs
}

function answerOf({ id, owner, name, issuedAt, expiresAt }: ApiKey, email: string) {
  const end = expiresAt === undefined ? {} : { expires_at: expiresAt }
  return { id, issuer_id: owner, subject: email, name, type: apiKeyType, issued_at: issuedAt, ...end }
}
