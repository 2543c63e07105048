// Connecting things to channels and disconnecting them (SPEC §4): only who owns both may.

import { HttpError } from '../../config/http/errors.ts'
import type { HttpServer } from '../../config/http/server.ts'
import { type Authentication, callerOf } from '../authentication.ts'
import type { Authorization } from '../authorization.ts'
import { toChannelId, toThingId } from '../ids.ts'
import { refuseFaults } from '../text.ts'
import { connectSchema, disconnectSchema, pairsMax } from './schema.ts'
import type { Connections } from './store.ts'

interface Parts {
  readonly connections: Connections
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function connectionRoutes(app: HttpServer, { connections, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  app.post('/connect', { schema: connectSchema, onRequest }, async (request, reply) => {
    const channels = request.body.channel_ids.map(toChannelId)
    const things = request.body.thing_ids.map(toThingId)
    const pairs = channels.length * things.length
    if (pairs > pairsMax) {
      const channelsMax = Math.floor(pairsMax / things.length)
      const detail = `makes ${pairs} connections, and one request makes at most ${pairsMax}: divide it, with at most ${channelsMax} of the channels for these ${things.length} things in each request`
      refuseFaults([{ pointer: '/body', detail }])
    }
    const caller = callerOf(request)
    const connected = await connections.connect(caller, channels, things)
    if (!connected) throw await authorization.refusal(caller, () => connections.exist(channels, things))
    return reply.send({})
  })

  app.delete('/channels/:channel/things/:thing', { schema: disconnectSchema, onRequest }, async (request, reply) => {
    const channel = toChannelId(request.params.channel)
    const thing = toThingId(request.params.thing)
    const caller = callerOf(request)
    const outcome = await connections.disconnect(caller, channel, thing)
    if (outcome === 'not-owned') throw await authorization.refusal(caller, () => connections.exist([channel], [thing]))
    if (outcome === 'not-connected') throw new HttpError('not_found', 'the thing is not connected to the channel')
    return reply.code(204).send()
  })
}
