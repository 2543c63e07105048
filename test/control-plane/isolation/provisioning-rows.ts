// Mappings and bootstrap configurations: who may create, view, change and delete them, and fetch as a device (SPEC §4, §5).

import { expect } from 'vitest'
import { type At, everyUser, isOwner, ownSite, pageOf, type Row, uuid, wholePage } from './row.ts'
import type { Site } from './world.ts'

const route = { takes: 'tokens' } as const
const config = ({ site }: At) => ({ parameters: { thing: site.thing.id } })
const changing = { ...route, allowed: isOwner, status: 200, changes: 'site', isVersioned: true, answer: () => '' } as const

const configOf = ({ thing, channel, device }: Site): object => {
  const channels = [{ id: channel, name: 'channel', metadata: { of: 'channel' } }]
  return {
    thing_id: thing.id,
    thing_key: thing.key,
    channels: [channel],
    channel_details: channels,
    mainflux_id: thing.id,
    mainflux_key: thing.key,
    mainflux_channels: channels,
    external_id: device.id,
    state: 0,
    enabled: true,
  }
}
const device = ({ world }: At) => ({ external_id: `new-${world.fresh()}`, external_key: `external key ${world.fresh()}` })
const mapped = ({ site }: At) => `mapped-${site.device.id}`

const [control, data] = [
  { name: 'control-channel', metadata: { type: 'control' } },
  { name: 'data-channel', metadata: { type: 'data' } },
]
const externalId = expect.stringMatching(/^new-/) as unknown
const madeMapping = {
  things: [
    {
      id: uuid,
      name: 'thing',
      key: uuid,
      metadata: { external_id: externalId, type: 'gateway', cfg_id: uuid, ctrl_channel_id: uuid, data_channel_id: uuid },
    },
  ],
  channels: [
    { id: uuid, ...control },
    { id: uuid, ...data },
  ],
  whitelisted: expect.any(Object) as unknown,
}
const plannedMapping = {
  things: [{ name: 'thing', metadata: { external_id: externalId, type: 'gateway' } }],
  channels: [control, data],
}

export const provisioningRows: readonly Row[] = [
  {
    ...route,
    route: 'POST /mapping',
    allowed: everyUser,
    status: 201,
    changes: 'more',
    request: at => ({ body: device(at) }),
    answer: () => madeMapping,
  },
  {
    ...route,
    route: 'POST /mapping',
    what: 'a dry run',
    allowed: everyUser,
    status: 200,
    request: at => ({ body: device(at), query: { dry_run: 'true' } }),
    answer: () => plannedMapping,
  },
  { ...route, route: 'GET /mapping', allowed: everyUser, status: 200, request: () => ({}), answer: () => ({}) },
  {
    ...route,
    route: 'DELETE /mapping/{external_id}',
    allowed: isOwner,
    status: 204,
    changes: 'site',
    async prepare(at) {
      const authorization = at.world.authorization('owner')!
      const body = { external_id: mapped(at), external_key: at.site.device.key }
      await at.world.asker.call('POST', '/mapping', { authorization, body })
    },
    request: at => ({ parameters: { external_id: mapped(at) } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'POST /things/configs',
    allowed: isOwner,
    status: 201,
    changes: 'site',
    request: at => ({
      body: { ...device(at), thing_id: at.site.otherThing.id, channels: [at.site.otherChannel], client_key: 'a private key' },
    }),
    answer: () => '',
  },
  {
    ...route,
    route: 'GET /things/configs',
    allowed: everyUser,
    status: 200,
    request: () => ({ query: wholePage }),
    answer: at => {
      const own = ownSite(at)
      return pageOf('configs', own === undefined ? [] : [configOf(own)], {})
    },
    queries: ['?state=1&name=x', '?mainflux_key=none', '?external_id=configured', '?offset=50&limit=100'],
  },
  { ...route, route: 'GET /things/configs/{thing}', allowed: isOwner, status: 200, request: config, answer: ({ site }) => configOf(site) },
  { ...changing, route: 'PUT /things/configs/{thing}', request: at => ({ ...config(at), body: { name: 'changed', enabled: false } }) },
  { ...changing, route: 'PATCH /things/configs/certs/{thing}', request: at => ({ ...config(at), body: { client_key: 'a private key' } }) },
  {
    ...changing,
    route: 'PUT /things/configs/connections/{thing}',
    request: at => ({ ...config(at), body: { channels: [at.site.otherChannel] } }),
  },
  { ...changing, route: 'PUT /things/state/{thing}', request: at => ({ ...config(at), body: { state: 1 } }) },
  { ...changing, route: 'DELETE /things/configs/{thing}', status: 204, request: config },
  {
    takes: 'external keys',
    route: 'GET /things/bootstrap/{external_id}',
    allowed: [],
    status: 200,
    request: ({ site }) => ({ parameters: { external_id: site.device.id } }),
    answer: () => undefined,
  },
  {
    takes: 'external keys',
    route: 'POST /things/bootstrap/{external_id}/ack',
    allowed: [],
    status: 204,
    request: ({ site }) => ({ parameters: { external_id: site.device.id } }),
    answer: () => undefined,
  },
  {
    takes: 'external keys',
    route: 'POST /things/bootstrap/{external_id}/csr',
    allowed: [],
    status: 201,
    request: ({ site }) => ({ parameters: { external_id: site.device.id }, body: { csr: 'a signing request' } }),
    answer: () => undefined,
  },
]
