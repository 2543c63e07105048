// Channels and connections: only for their owner, not for administrators.

import { type At, creationRows, everyUser, isOwner, ownSite, pageOf, type Row, seesChannel, wholePage } from './row.ts'
import { listQueries, shown } from './thing-rows.ts'
import type { Site } from './world.ts'

const route = { takes: 'tokens' } as const
const channel = ({ site }: At) => ({ parameters: { channel: site.channel } })
const channelOf = ({ channel: id }: Site) => ({ id, name: 'channel', metadata: { of: 'channel' } })
const otherChannelOf = ({ otherChannel: id }: Site) => ({ id, name: 'other', metadata: { of: 'other' } })
const connectedQueries = ['?connected=false&offset=5', '?disconnected=true&order=name', '?order=id&dir=desc']

export const channelRows: readonly Row[] = [
  ...creationRows('channels', {}),
  {
    ...route,
    route: 'GET /channels',
    allowed: [...everyUser, 'readKey', 'channelKey'],
    status: 200,
    request: () => ({ query: wholePage }),
    answer: at => {
      const own = ownSite(at)
      const channels = own === undefined ? [] : [channelOf(own), otherChannelOf(own)]
      return pageOf('channels', at.caller === 'channelKey' ? channels.slice(0, 1) : channels)
    },
    queries: listQueries,
  },
  {
    ...route,
    route: 'GET /channels/{channel}',
    allowed: seesChannel,
    status: 200,
    request: channel,
    answer: ({ site }) => channelOf(site),
  },
  {
    ...route,
    route: 'PUT /channels/{channel}',
    allowed: isOwner,
    status: 200,
    changes: 'site',
    isVersioned: true,
    request: at => ({ ...channel(at), body: { name: 'changed' } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /channels/{channel}',
    allowed: isOwner,
    status: 204,
    changes: 'site',
    isVersioned: true,
    request: channel,
    answer: () => '',
  },
  {
    ...route,
    route: 'GET /channels/{channel}/things',
    allowed: seesChannel,
    status: 200,
    request: at => ({ ...channel(at), query: wholePage }),
    answer: at => pageOf('things', shown(at, [at.site.thing])),
    queries: connectedQueries,
  },
  {
    ...route,
    route: 'GET /channels/{channel}/things',
    what: 'those that are not connected',
    allowed: [...isOwner, 'readKey'],
    status: 200,
    request: at => ({ ...channel(at), query: { ...wholePage, connected: 'false' } }),
    answer: at => pageOf('things', shown(at, [at.site.otherThing, at.site.leftThing])),
  },
  {
    ...route,
    route: 'GET /things/{thing}/channels',
    allowed: [...isOwner, 'readKey'],
    status: 200,
    request: ({ site }) => ({ parameters: { thing: site.thing.id }, query: wholePage }),
    answer: ({ site }) => pageOf('channels', [channelOf(site)]),
    queries: connectedQueries,
  },
  {
    ...route,
    route: 'GET /things/{thing}/channels',
    what: 'those that are not connected',
    allowed: [...isOwner, 'readKey'],
    status: 200,
    request: ({ site }) => ({ parameters: { thing: site.thing.id }, query: { ...wholePage, disconnected: 'true' } }),
    answer: ({ site }) => pageOf('channels', [otherChannelOf(site)]),
  },
  {
    ...route,
    route: 'POST /connect',
    allowed: isOwner,
    status: 200,
    changes: 'site',
    request: ({ site }) => ({
      body: { channel_ids: [site.channel, site.otherChannel], thing_ids: [site.otherThing.id, site.leftThing.id] },
    }),
    answer: () => ({}),
  },
  {
    ...route,
    route: 'PUT /disconnect',
    allowed: isOwner,
    status: 200,
    changes: 'site',
    request: ({ site }) => ({ body: { channel_ids: [site.channel, site.otherChannel], thing_ids: [site.thing.id, site.otherThing.id] } }),
    answer: () => ({}),
  },
  {
    ...route,
    route: 'PUT /channels/{channel}/things/{thing}',
    allowed: isOwner,
    status: 200,
    changes: 'site',
    request: ({ site }) => ({ parameters: { channel: site.channel, thing: site.otherThing.id } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /channels/{channel}/things/{thing}',
    allowed: isOwner,
    status: 204,
    changes: 'site',
    request: ({ site }) => ({ parameters: { channel: site.channel, thing: site.thing.id } }),
    answer: () => '',
  },
]
