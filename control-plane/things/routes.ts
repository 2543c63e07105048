// Things: creating, finding, changing and deleting them (SPEC §4, §5).

import type { FastifyRequest } from 'fastify'
import type { HttpError } from '../../http/errors.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf, forReading, withoutKeys } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { checkEntities, checkMetadataFilter, type NewEntity, parseMetadataFilter } from '../entity.ts'
import { type ThingId, toThingId, type UserId } from '../ids.ts'
import type { Relation } from '../policies/policy-store.ts'
import { deprecatedBy, exposeLocation, unstored } from '../requests/answers.ts'
import { takeAnyType } from '../requests/any-type.ts'
import { pageOf, searcherOf } from '../requests/page.ts'
import type { RequestedId, RequestedIds } from '../requests/requested-ids.ts'
import { eTagOf, expectedVersions, writtenOrThrow } from '../versions.ts'
import {
  createThingSchema,
  createThingsSchema,
  listThingsSchema,
  removeThingSchema,
  rotateKeySchema,
  searchThingsSchema,
  updateThingSchema,
  viewThingSchema,
} from './schema.ts'
import type { Thing, Things } from './store.ts'

interface Parts {
  readonly things: Things
  readonly requestedIds: RequestedIds
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function thingRoutes(app: HttpServer, { things, requestedIds, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  /** @throws HttpError the refusal for a caller without the relation on the thing */
  async function demand(caller: UserId, relation: Relation, thing: ThingId): Promise<void> {
    if (!(await authorization.allows(caller, relation, thing))) throw await refusal(caller, thing)
  }
  const refusal = (caller: UserId, thing: ThingId): Promise<HttpError> => authorization.refusal(caller, () => things.exists(thing))

  const create = (request: FastifyRequest, bodies: readonly NewEntity[], requested: readonly RequestedId[]): Promise<Thing[]> =>
    things
      .create(changerOf(request), bodies, requested)
      .catch(async (error: unknown) => Promise.reject(await requestedIds.conflict(request, error)))

  app.post('/things', { schema: createThingSchema, onRequest: [deprecatedBy('/things/bulk'), onRequest] }, async (request, reply) => {
    checkEntities([request.body], () => '/body')
    const requested = await requestedIds.read(request, [request.body], () => '/body')
    await authorization.demand(callerOf(request), 'member', 'users')
    const [thing] = await create(request, [request.body], requested)
    return reply.code(201).header('location', `/things/${thing!.id}`).send()
  })

  app.post('/things/bulk', { schema: createThingsSchema, onRequest }, async (request, reply) => {
    checkEntities(request.body, index => `/body/${index}`)
    const requested = await requestedIds.read(request, request.body, index => `/body/${index}`)
    await authorization.demand(callerOf(request), 'member', 'users')
    const created = await create(request, request.body, requested)
    exposeLocation(reply)
    return reply.code(201).headers(unstored).send({ things: created })
  })

  app.get('/things', { schema: listThingsSchema, onRequest: [onRequest, forReading] }, async (request, reply) => {
    const { name, metadata, external_id: externalId, shared } = request.query
    const filter = { name, metadata: parseMetadataFilter(metadata), externalId: externalId || undefined, shared }
    const by = searcherOf(callerOf(request), reply)
    const { items, ...page } = pageOf(await things.list(by, filter, request.query), request.query)
    return reply.headers(unstored).send({ ...page, things: withoutKeys(request, items) })
  })

  takeAnyType(app, scope => {
    scope.post('/things/search', { schema: searchThingsSchema, onRequest }, async (request, reply) => {
      checkMetadataFilter(request.body.metadata, '/body/metadata')
      const by = searcherOf(callerOf(request), reply)
      const { external_id: externalId, ...filter } = request.body
      const { items, ...page } = pageOf(await things.list(by, { ...filter, externalId: externalId || undefined }, filter), filter)
      return reply.headers(unstored).send({ ...page, things: items })
    })
  })

  app.get('/things/:thing', { schema: viewThingSchema, onRequest: [onRequest, forReading] }, async (request, reply) => {
    const id = toThingId(request.params.thing)
    const caller = callerOf(request)
    await demand(caller, 'read', id)
    const found = await things.find(id)
    if (found === undefined) throw await refusal(caller, id)
    return reply.headers({ ...unstored, etag: eTagOf(found.version) }).send(withoutKeys(request, [found.thing])[0]!)
  })

  app.put('/things/:thing', { schema: updateThingSchema, onRequest }, async (request, reply) => {
    checkEntities([request.body], () => '/body')
    const id = toThingId(request.params.thing)
    const caller = callerOf(request)
    await demand(caller, 'write', id)
    const outcome = await things.update(changerOf(request), id, request.body, expectedVersions(request))
    const { version } = await writtenOrThrow(outcome, () => refusal(caller, id))
    return reply.header('etag', eTagOf(version)).send()
  })

  app.delete('/things/:thing', { schema: removeThingSchema, onRequest }, async (request, reply) => {
    const id = toThingId(request.params.thing)
    const caller = callerOf(request)
    await demand(caller, 'delete', id)
    await writtenOrThrow(await things.remove(changerOf(request), id, expectedVersions(request)), () => refusal(caller, id))
    return reply.code(204).send()
  })

  app.patch('/things/:thing/key', { schema: rotateKeySchema, onRequest }, async (request, reply) => {
    const id = toThingId(request.params.thing)
    const caller = callerOf(request)
    if ((await things.ownerOf(id)) !== caller) throw await refusal(caller, id)
    const [requested] = await requestedIds.read(request, [{ ...request.body, id: undefined }], () => '/body', { emptyIsAbsent: false })
    const outcome = await things
      .rotateKey(changerOf(request), id, request.body.grace_seconds, expectedVersions(request), requested?.key)
      .catch(async (error: unknown) => Promise.reject(await requestedIds.conflict(request, error)))
    const { key, version } = await writtenOrThrow(outcome, () => refusal(caller, id))
    return reply.headers({ ...unstored, etag: eTagOf(version) }).send({ key })
  })
}
