// Things: creating, listing and viewing them (SPEC §4, §5).

import type { HttpServer } from '../../config/http/server.ts'
import { type Authentication, callerOf } from '../authentication.ts'
import type { Authorization } from '../authorization.ts'
import { deprecatedBy } from '../deprecation.ts'
import { checkEntities, parseMetadataFilter } from '../entity.ts'
import { toThingId } from '../ids.ts'
import { createThingSchema, createThingsSchema, listThingsSchema, viewThingSchema } from './schema.ts'
import type { Things } from './store.ts'

/** Answers with keys are in no cache, not even the client's own (RFC 9111 §5.2.2.5). */
const unstored = { 'cache-control': 'no-store' }

interface Parts {
  readonly things: Things
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function thingRoutes(app: HttpServer, { things, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  app.post('/things', { schema: createThingSchema, onRequest: [deprecatedBy('/things/bulk'), onRequest] }, async (request, reply) => {
    checkEntities([request.body], () => '/body')
    const caller = callerOf(request)
    await authorization.demand(caller, 'member', 'users')
    const [thing] = await things.create(caller, [request.body])
    return reply.code(201).header('location', `/things/${thing!.id}`).send()
  })

  app.post('/things/bulk', { schema: createThingsSchema, onRequest }, async (request, reply) => {
    checkEntities(request.body, index => `/body/${index}`)
    const caller = callerOf(request)
    await authorization.demand(caller, 'member', 'users')
    const created = await things.create(caller, request.body)
    return reply
      .code(201)
      .headers({ ...unstored, 'access-control-expose-headers': 'Location' })
      .send({ things: created })
  })

  app.get('/things', { schema: listThingsSchema, onRequest }, async (request, reply) => {
    const { offset, limit, name, metadata } = request.query
    const filter = { name, metadata: metadata === undefined ? undefined : parseMetadataFilter(metadata) }
    const { total, items } = await things.list(callerOf(request), filter, { offset, limit })
    return reply.headers(unstored).send({ total, offset, limit, things: [...items] })
  })

  app.get('/things/:thing', { schema: viewThingSchema, onRequest }, async (request, reply) => {
    const id = toThingId(request.params.thing)
    const caller = callerOf(request)
    const thing = (await authorization.allows(caller, 'read', id)) ? await things.find(id) : undefined
    if (thing === undefined) throw await authorization.refusal(caller, () => things.exists(id))
    return reply.headers(unstored).send(thing)
  })
}
