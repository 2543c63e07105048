// Connecting things to channels, disconnecting them, and listing connections (SPEC §4): only for the owner of both.

import { HttpError } from '../../http/errors.ts'
import type { HttpServer } from '../../http/server.ts'
import {
  type Authentication,
  callerOf,
  changerOf,
  forReading,
  forReadingChannels,
  keyChannelsOf,
  scopeRefusal,
  withoutKeys,
} from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import type { Channels } from '../channels/store.ts'
import { type ChannelId, type ThingId, toChannelId, toThingId } from '../ids.ts'
import { deprecatedBy, unstored } from '../requests/answers.ts'
import { pageOf } from '../requests/page.ts'
import { refuseFaults } from '../requests/text.ts'
import type { Things } from '../things/store.ts'
import {
  channelsOfThingSchema,
  connectOneSchema,
  connectSchema,
  disconnectPairsSchema,
  disconnectSchema,
  pairsMax,
  thingsOfChannelSchema,
} from './schema.ts'
import type { Connections } from './store.ts'

interface Parts {
  readonly connections: Connections
  readonly things: Things
  readonly channels: Channels
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function connectionRoutes(app: HttpServer, { connections, things, channels, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  app.post('/connect', { schema: connectSchema, onRequest }, async (request, reply) => {
    const pairs = pairsOf(request.body)
    const caller = callerOf(request)
    const connected = await connections.connect(changerOf(request), ...pairs)
    if (!connected) throw await authorization.refusal(caller, () => connections.exist(...pairs))
    return reply.send({})
  })

  app.put('/disconnect', { schema: disconnectPairsSchema, onRequest }, async (request, reply) => {
    const pairs = pairsOf(request.body)
    const caller = callerOf(request)
    const disconnected = await connections.disconnectAll(changerOf(request), ...pairs)
    if (!disconnected) throw await authorization.refusal(caller, () => connections.exist(...pairs))
    return reply.send({})
  })

  app.put(
    '/channels/:channel/things/:thing',
    { schema: connectOneSchema, onRequest: [deprecatedBy('/connect'), onRequest] },
    async (request, reply) => {
      const pair = [[toChannelId(request.params.channel)], [toThingId(request.params.thing)]] as const
      const caller = callerOf(request)
      const connected = await connections.connect(changerOf(request), ...pair)
      if (!connected) throw await authorization.refusal(caller, () => connections.exist(...pair))
      return reply.send()
    },
  )

  app.delete('/channels/:channel/things/:thing', { schema: disconnectSchema, onRequest }, async (request, reply) => {
    const channel = toChannelId(request.params.channel)
    const thing = toThingId(request.params.thing)
    const caller = callerOf(request)
    const outcome = await connections.disconnect(changerOf(request), channel, thing)
    if (outcome === 'not-owned') throw await authorization.refusal(caller, () => connections.exist([channel], [thing]))
    if (outcome === 'not-connected') throw new HttpError('not_found', 'the thing is not connected to the channel')
    return reply.code(204).send()
  })

  app.get(
    '/channels/:channel/things',
    { schema: thingsOfChannelSchema, onRequest: [onRequest, forReadingChannels] },
    async (request, reply) => {
      const channel = toChannelId(request.params.channel)
      const caller = callerOf(request)
      const connected = isConnected(request.query)
      if (!connected && keyChannelsOf(request) !== undefined) throw scopeRefusal()
      if (!(await channels.isOwner(caller, channel))) throw await authorization.refusal(caller, () => channels.exists(channel))
      const { items, ...page } = pageOf(await things.listConnected(caller, channel, connected, request.query), request.query)
      return reply.headers(unstored).send({ ...page, things: withMetadataAs(withoutKeys(request, items), request.query.metadata_as) })
    },
  )

  app.get('/things/:thing/channels', { schema: channelsOfThingSchema, onRequest: [onRequest, forReading] }, async (request, reply) => {
    const thing = toThingId(request.params.thing)
    const caller = callerOf(request)
    const connected = isConnected(request.query)
    if ((await things.ownerOf(thing)) !== caller) throw await authorization.refusal(caller, () => things.exists(thing))
    const { items, ...page } = pageOf(await channels.listConnected(caller, thing, connected, request.query), request.query)
    return reply.send({ ...page, channels: withMetadataAs(items, request.query.metadata_as) })
  })
}

function pairsOf(body: { readonly channel_ids: readonly string[]; readonly thing_ids: readonly string[] }): [ChannelId[], ThingId[]] {
  const channels = body.channel_ids.map(toChannelId)
  const things = body.thing_ids.map(toThingId)
  const pairs = channels.length * things.length
  if (pairs > pairsMax) {
    const channelsMax = Math.floor(pairsMax / things.length)
    const detail = `makes ${pairs} pairs, and one request accepts at most ${pairsMax}: split it, with at most ${channelsMax} of the channels for these ${things.length} things in each request`
    refuseFaults([{ pointer: '/body', detail }])
  }
  return [channels, things]
}

function isConnected({ connected, disconnected }: { connected?: boolean; disconnected?: boolean }): boolean {
  if (connected !== undefined && connected === disconnected) {
    refuseFaults([{ pointer: '/query/disconnected', detail: 'contradicts connected: give one of them' }])
  }
  return connected ?? disconnected !== true
}

/** Older clients read metadata as text. */
function withMetadataAs<Item extends { readonly metadata?: object }>(items: readonly Item[], as: 'object' | 'string' = 'object') {
  return as === 'object' ? [...items] : items.map(item => ({ ...item, metadata: JSON.stringify(item.metadata ?? {}) }))
}
