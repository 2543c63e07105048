// Channels: creating and listing them (SPEC §4). Every user may have channels.

import type { HttpServer } from '../../config/http/server.ts'
import { type Authentication, callerOf } from '../authentication.ts'
import { deprecatedBy } from '../deprecation.ts'
import { checkEntities } from '../entity.ts'
import { createChannelSchema, createChannelsSchema, listChannelsSchema } from './schema.ts'
import type { Channels } from './store.ts'

interface Parts {
  readonly channels: Channels
  readonly authentication: Authentication
}

export function channelRoutes(app: HttpServer, { channels, authentication }: Parts): void {
  const onRequest = authentication.required

  app.post('/channels', { schema: createChannelSchema, onRequest: [deprecatedBy('/channels/bulk'), onRequest] }, async (request, reply) => {
    checkEntities([request.body], () => '/body')
    const [channel] = await channels.create(callerOf(request), [request.body])
    return reply.code(201).header('location', `/channels/${channel!.id}`).send()
  })

  app.post('/channels/bulk', { schema: createChannelsSchema, onRequest }, async (request, reply) => {
    checkEntities(request.body, index => `/body/${index}`)
    const created = await channels.create(callerOf(request), request.body)
    return reply.code(201).header('access-control-expose-headers', 'Location').send({ channels: created })
  })

  app.get('/channels', { schema: listChannelsSchema, onRequest }, async (request, reply) => {
    const { offset, limit } = request.query
    const { total, items } = await channels.list(callerOf(request), { offset, limit })
    return reply.send({ total, offset, limit, channels: [...items] })
  })
}
