// Channels: creating, finding, changing and deleting them (SPEC §4). Every user may have channels, and only their owner sees and changes them.

import type { FastifyRequest } from 'fastify'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf, forReadingChannels, keyChannelsOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { checkEntities, type NewEntity, parseMetadataFilter } from '../entity.ts'
import { type ChannelId, toChannelId, type UserId } from '../ids.ts'
import { deprecatedBy, exposeLocation } from '../requests/answers.ts'
import { pageOf, searcherOf } from '../requests/page.ts'
import type { RequestedId, RequestedIds } from '../requests/requested-ids.ts'
import { eTagOf, expectedVersions, writtenOrThrow } from '../versions.ts'
import {
  createChannelSchema,
  createChannelsSchema,
  listChannelsSchema,
  removeChannelSchema,
  updateChannelSchema,
  viewChannelSchema,
} from './schema.ts'
import type { Channel, Channels } from './store.ts'

interface Parts {
  readonly channels: Channels
  readonly requestedIds: RequestedIds
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function channelRoutes(app: HttpServer, { channels, requestedIds, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  const refusal = (caller: UserId, channel: ChannelId) => authorization.refusal(caller, () => channels.exists(channel))

  const create = (request: FastifyRequest, bodies: readonly NewEntity[], requested: readonly RequestedId[]): Promise<Channel[]> =>
    channels
      .create(changerOf(request), bodies, requested)
      .catch(async (error: unknown) => Promise.reject(await requestedIds.conflict(request, error)))

  app.post('/channels', { schema: createChannelSchema, onRequest: [deprecatedBy('/channels/bulk'), onRequest] }, async (request, reply) => {
    checkEntities([request.body], () => '/body')
    const requested = await requestedIds.read(request, [{ ...request.body, key: undefined }], () => '/body')
    const [channel] = await create(request, [request.body], requested)
    return reply.code(201).header('location', `/channels/${channel!.id}`).send()
  })

  app.post('/channels/bulk', { schema: createChannelsSchema, onRequest }, async (request, reply) => {
    checkEntities(request.body, index => `/body/${index}`)
    const bodies = request.body.map(body => ({ ...body, key: undefined }))
    const requested = await requestedIds.read(request, bodies, index => `/body/${index}`)
    const created = await create(request, request.body, requested)
    exposeLocation(reply)
    return reply.code(201).send({ channels: created })
  })

  app.get('/channels', { schema: listChannelsSchema, onRequest: [onRequest, forReadingChannels] }, async (request, reply) => {
    const { name, metadata } = request.query
    const filter = { name, metadata: parseMetadataFilter(metadata), only: keyChannelsOf(request) }
    const by = searcherOf(callerOf(request), reply)
    const { items, ...page } = pageOf(await channels.list(by, filter, request.query), request.query)
    return reply.send({ ...page, channels: items })
  })

  app.get('/channels/:channel', { schema: viewChannelSchema, onRequest: [onRequest, forReadingChannels] }, async (request, reply) => {
    const id = toChannelId(request.params.channel)
    const caller = callerOf(request)
    const found = await channels.find(caller, id)
    if (found === undefined) throw await refusal(caller, id)
    return reply.header('etag', eTagOf(found.version)).send(found.channel)
  })

  app.put('/channels/:channel', { schema: updateChannelSchema, onRequest }, async (request, reply) => {
    checkEntities([request.body], () => '/body')
    const id = toChannelId(request.params.channel)
    const caller = callerOf(request)
    const outcome = await channels.update(changerOf(request), id, request.body, expectedVersions(request))
    const { version } = await writtenOrThrow(outcome, () => refusal(caller, id))
    return reply.header('etag', eTagOf(version)).send()
  })

  app.delete('/channels/:channel', { schema: removeChannelSchema, onRequest }, async (request, reply) => {
    const id = toChannelId(request.params.channel)
    const caller = callerOf(request)
    await writtenOrThrow(await channels.remove(changerOf(request), id, expectedVersions(request)), () => refusal(caller, id))
    return reply.code(204).send()
  })
}
