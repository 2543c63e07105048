// Calls every route of the control plane, as an owner of things and as the administrator.

import { call } from '../up/operator.ts'
import { absentId } from './platform.ts'

export interface Caller {
  /** `Bearer …`. */
  readonly token: string
  readonly id: string
  readonly email: string
  readonly password: string
}

/** What is there before: things, channels and groups of the owner, and a user who is somebody else. */
export interface Owned {
  readonly ownerId: string
  readonly things: readonly [string, string]
  readonly channels: readonly [string, string]
  readonly usersGroup: string
  readonly thingsGroup: string
  readonly foreignThing: string
  readonly administrator: string
  /** Registered for this: their password changes. */
  readonly user: Caller
}

/** @param route as in the description: `GET /things/{thing}` */
export type Ask = (route: string, options?: AskOptions) => Promise<Record<string, unknown> | undefined>

interface AskOptions {
  readonly parameters?: Readonly<Record<string, string>>
  readonly query?: string
  readonly body?: object
  /** The owner's if not given. */
  readonly token?: string
  /** The answer that is expected, where it is another than a success. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/** @param enter called with each route before it is asked */
export function openAsk(url: string, token: string, enter: (route: string) => void): Ask {
  return async (route, { parameters = {}, query = '', body, token: other, status, headers = {} } = {}) => {
    enter(route)
    const [method = '', template = ''] = route.split(' ')
    const path = template.replace(/\{(\w+)\}/g, (_all, name: string) => parameters[name]!)
    const answer = await call(url, method, path + query, {
      authorization: other ?? token,
      headers,
      ...(body === undefined ? {} : { body }),
    })
    const isExpected = status === undefined ? answer.status < 300 : answer.status === status
    if (!isExpected) throw new Error(`${route} ${JSON.stringify(parameters)}: ${answer.status} ${answer.text}`)
    return { ...answer.json, location: answer.headers.get('location')?.split('/').at(-1) }
  }
}

const filters = ['', 'name=ensor', 'metadata=%7B%22site%22%3A%22site-3%22%7D', 'name=1&metadata=%7B%22site%22%3A%22site-3%22%7D']
const orders = ['', 'order=id', 'order=name', 'dir=desc', 'order=name&dir=desc']
/** Every filter in every order, and a page far behind. */
const listQueries = filters.flatMap(filter => orders.map(order => `?${filter}&${order}`)).concat('?offset=50&limit=100')
const pages = ['?limit=10', '?offset=5&limit=5']
const connectedPages = ['?connected=true', '?connected=false', '?connected=false&offset=5']

export async function askEveryRoute(ask: Ask, owned: Owned): Promise<void> {
  await askThings(ask, owned)
  await askChannels(ask, owned)
  await askConnections(ask, owned)
  await askGroups(ask, owned)
  await askPolicies(ask, owned)
  await askUsers(ask, owned)
  await askKeys(ask)
  await askProvisioning(ask)
  await askBootstrap(ask, owned)
  await askAudit(ask, owned)
}

async function askThings(ask: Ask, { administrator, foreignThing, ownerId, things: [first], user }: Owned): Promise<void> {
  const created = await ask('POST /things/bulk', { body: [{ name: 'one', metadata: { site: 'site-3' } }, { name: 'two' }] })
  const [own] = created!['things'] as [{ id: string }]
  const thing = { parameters: { thing: own.id } }
  await ask('POST /things', { body: { name: 'three' } })
  for (const query of [...listQueries, '?shared=true', '?shared=true&name=ensor']) await ask('GET /things', { query })
  await ask('POST /things/search', { body: { metadata: { position: { floor: 3 } }, order: 'name' } })
  await ask('GET /things/{thing}', { parameters: { thing: first } })
  await ask('GET /things/{thing}', { parameters: { thing: foreignThing }, status: 403 })
  await ask('GET /things/{thing}', { parameters: { thing: absentId }, status: 404, token: administrator })
  await ask('PUT /things/{thing}', { ...thing, body: { name: 'other' } })
  await ask('PUT /things/{thing}', { ...thing, body: { name: 'other' }, headers: { 'if-match': '"9"' }, status: 412 })
  await ask('PATCH /things/{thing}/key', { ...thing, body: { grace_seconds: 60 } })
  const share = { user_ids: [user.id], policies: ['read', 'write'] }
  await ask('POST /things/{thing}/share', { ...thing, body: share })
  await ask('POST /things/{thing}/share', { ...thing, body: { ...share, policies: ['read'] }, token: user.token })
  await ask('DELETE /things/{thing}/share', { ...thing, body: share })
  await ask('DELETE /things/{thing}', thing)
  await ask('GET /members/{member}/groups', { parameters: { member: first } })
  await ask('GET /members/{member}/groups', { parameters: { member: ownerId } })
}

async function askChannels(ask: Ask, { channels: [first] }: Owned): Promise<void> {
  const created = await ask('POST /channels/bulk', { body: [{ name: 'one', metadata: { site: 'site-3' } }, { name: 'two' }] })
  const [own] = created!['channels'] as [{ id: string }]
  const channel = { parameters: { channel: own.id } }
  await ask('POST /channels', { body: { name: 'three' } })
  for (const query of listQueries) await ask('GET /channels', { query })
  await ask('GET /channels/{channel}', { parameters: { channel: first } })
  await ask('PUT /channels/{channel}', { ...channel, body: { name: 'other' } })
  await ask('PUT /channels/{channel}', { ...channel, body: { name: 'other' }, headers: { 'if-match': '"9"' }, status: 412 })
  await ask('DELETE /channels/{channel}', channel)
  await ask('DELETE /channels/{channel}', { ...channel, status: 403 })
}

async function askConnections(ask: Ask, { administrator, channels, things }: Owned): Promise<void> {
  const parameters = { channel: channels[0], thing: things[0] }
  const pairs = { channel_ids: channels, thing_ids: things }
  await ask('POST /connect', { body: pairs })
  await ask('POST /connect', { body: { ...pairs, channel_ids: [absentId] }, status: 404, token: administrator })
  for (const query of connectedPages) {
    await ask('GET /channels/{channel}/things', { parameters, query })
    await ask('GET /things/{thing}/channels', { parameters, query })
  }
  await ask('PUT /disconnect', { body: pairs })
  await ask('PUT /channels/{channel}/things/{thing}', { parameters })
  await ask('DELETE /channels/{channel}/things/{thing}', { parameters })
}

async function askGroups(ask: Ask, { foreignThing, things, thingsGroup, user, usersGroup }: Owned): Promise<void> {
  for (const query of listQueries) await ask('GET /groups', { query })
  for (const group of [usersGroup, thingsGroup]) {
    const parameters = { group }
    await ask('GET /groups/{group}', { parameters })
    for (const route of ['children', 'parents', 'members']) await ask(`GET /groups/{group}/${route}`, { parameters })
    for (const query of pages) {
      await ask('GET /groups/users/{group}', { parameters, query })
      await ask('GET /groups/things/{group}', { parameters, query })
    }
  }
  const { location: made = '' } = (await ask('POST /groups', { body: { name: 'made', metadata: { site: 'site-3' } } })) as {
    location?: string
  }
  const group = { parameters: { group: made } }
  await ask('PUT /groups/{group}', { ...group, body: { name: 'other' } })
  await ask('POST /groups/{group}/members', { ...group, body: { type: 'users', members: [user.id] } })
  await ask('POST /groups/{group}/members', { ...group, body: { type: 'things', members: things } })
  await ask('POST /groups/{group}/members', { ...group, body: { type: 'things', members: [foreignThing] }, status: 403 })
  await ask('GET /groups/things/{group}', { ...group, token: user.token })
  await ask('POST /groups/{group}/share', { parameters: { group: usersGroup }, body: { thing_group_id: made } })
  await ask('DELETE /groups/{group}/share', { parameters: { group: usersGroup }, body: { thing_group_id: made } })
  await ask('DELETE /groups/{group}/members', { ...group, body: { members: [user.id, things[0]] } })
  await ask('DELETE /groups/{group}', group)
}

async function askPolicies(ask: Ask, { administrator: token, ownerId, things: [thing], user }: Owned): Promise<void> {
  for (const object of [thing, 'users']) {
    const body = { subjects: [user.id], object, policies: ['write', 'create'] }
    await ask('POST /policies', { body, token })
    await ask('PUT /policies', { body, token })
    for (const subject of [user.id, ownerId]) {
      for (const relation of ['read', 'member'])
        await ask('GET /policies/explain', { query: `?subject=${subject}&relation=${relation}&object=${object}`, token })
    }
  }
  await ask('PUT /policies', { body: { subjects: [user.id], object: 'authorities', policies: ['member'] }, token })
}

async function askUsers(ask: Ask, { administrator: token, user }: Owned): Promise<void> {
  const parameters = { user: user.id }
  await ask('POST /users', { body: { email: `fresh-${user.email}`, password: user.password }, token })
  await ask('POST /tokens', { body: { email: user.email, password: user.password } })
  await ask('POST /tokens', { body: { email: user.email, password: 'another than that' }, status: 401 })
  for (const query of ['', '?email=owner-1', '?metadata=%7B%22a%22%3A1%7D', '?offset=100&limit=100'])
    await ask('GET /users', { query, token })
  await ask('GET /users')
  await ask('PUT /users', { body: { metadata: { a: 1 } }, token: user.token })
  await ask('GET /users/profile', { token: user.token })
  await ask('GET /users/{user}', { parameters, token })
  const password = `${user.password}, changed`
  await ask('PATCH /password', { body: { old_password: user.password, password }, token: user.token })
  await ask('PUT /users/{user}/password', { parameters, body: { password: user.password }, token })
  await ask('PUT /users/{user}/disabled', { parameters, body: { disabled: true }, token })
}

async function askKeys(ask: Ask): Promise<void> {
  const issued = (await ask('POST /keys', { body: { name: 'made' } })) as { id: string; value: string }
  const parameters = { key: issued.id }
  for (const query of pages) await ask('GET /keys', { query })
  await ask('GET /keys/{key}', { parameters, token: `Bearer ${issued.value}` })
  await ask('DELETE /keys/{key}', { parameters })
}

async function askProvisioning(ask: Ask): Promise<void> {
  const body = { external_id: 'asked', external_key: 'external key' }
  const parameters = { external_id: 'asked' }
  await ask('POST /mapping', { body, query: '?dry_run=true' })
  await ask('POST /mapping', { body })
  await ask('POST /mapping', { body })
  await ask('GET /mapping')
  const device = { parameters, token: 'Thing external key' }
  await ask('GET /things/bootstrap/{external_id}', device)
  await ask('GET /things/bootstrap/{external_id}', { ...device, token: 'Thing another key', status: 401 })
  await ask('POST /things/bootstrap/{external_id}/ack', device)
  await ask('DELETE /mapping/{external_id}', { parameters })
}

async function askBootstrap(ask: Ask, { channels, things: [thing, other] }: Owned): Promise<void> {
  const body = { external_id: 'configured', external_key: 'external key', thing_id: thing, channels, client_key: 'private' }
  const ofThing = { parameters: { thing } }
  await ask('POST /things/configs', { body })
  await ask('POST /things/configs', { body: { ...body, thing_id: other }, status: 409 })
  for (const query of [...pages, '?state=1&name=x', `?mainflux_id=${thing}`, '?mainflux_key=none', '?external_id=configured'])
    await ask('GET /things/configs', { query })
  await ask('GET /things/configs/{thing}', ofThing)
  await ask('PUT /things/state/{thing}', { ...ofThing, body: { state: 1 } })
  await ask('PUT /things/configs/connections/{thing}', { ...ofThing, body: { channels: [channels[1]] } })
  await ask('PATCH /things/configs/certs/{thing}', { ...ofThing, body: { ca_cert: 'ca' } })
  await ask('PUT /things/configs/{thing}', { ...ofThing, body: { name: 'x', enabled: false } })
  await ask('DELETE /things/configs/{thing}', ofThing)
}

async function askAudit(ask: Ask, { administrator: token, ownerId, things: [thing] }: Owned): Promise<void> {
  for (const query of [
    '',
    `?user_id=${ownerId}`,
    `?object=${thing}`,
    '?action=thing.create',
    '?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z',
    '?offset=50&limit=100',
  ])
    await ask('GET /audit', { query, token })
}
