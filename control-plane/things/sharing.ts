// Giving other users rights on a thing, and removing them (SPEC §4, §5).

import { HttpError } from '../../http/errors.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { type ThingId, toThingId, toUserId, type UserId } from '../ids.ts'
import type { Relation } from '../policies/policy-store.ts'
import { shareThingSchema, unshareThingSchema } from './schema.ts'
import type { Things } from './store.ts'

interface Parts {
  readonly things: Things
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function sharingRoutes(app: HttpServer, { things, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  /** Needs write on the thing; callers who do not own it can give and remove only rights that they have. @returns the owner; throws HttpError for other callers */
  async function demandShare(caller: UserId, thing: ThingId, relations: readonly Relation[]): Promise<UserId | undefined> {
    const owner = await things.ownerOf(thing)
    for (const relation of new Set<Relation>(['write', ...(owner === caller ? [] : relations)])) {
      if (!(await authorization.allows(caller, relation, thing))) throw await authorization.refusal(caller, () => things.exists(thing))
    }
    return owner
  }

  app.post('/things/:thing/share', { schema: shareThingSchema, onRequest }, async (request, reply) => {
    const thing = toThingId(request.params.thing)
    const caller = callerOf(request)
    const { user_ids: users, policies } = request.body
    await demandShare(caller, thing, policies)
    const shared = await things.share(changerOf(request), thing, users.map(toUserId), policies)
    if (!shared) throw await authorization.refusal(caller, async () => false)
    return reply.send({})
  })

  app.delete('/things/:thing/share', { schema: unshareThingSchema, onRequest }, async (request, reply) => {
    const thing = toThingId(request.params.thing)
    const caller = callerOf(request)
    const { policies } = request.body
    const { rotate_key: rotatesKey } = request.query
    const users = request.body.user_ids.map(toUserId)
    const owner = await demandShare(caller, thing, policies)
    if (rotatesKey === true && owner !== caller) throw await authorization.refusal(caller, () => things.exists(thing))
    if (owner !== undefined && users.includes(owner))
      throw new HttpError('conflict', 'the owner of a thing keeps read, write and delete on it: list only other users')
    await things.unshare(changerOf(request), thing, users, policies, { rotatesKey })
    return reply.code(204).send()
  })
}
