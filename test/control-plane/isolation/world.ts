// The world of the isolation tests: what an owner and a stranger have, the relation of each user to the owner's things, and their credentials.

import { deriveKey } from '../../../config/secrets.ts'
import { openTokens } from '../../../control-plane/tokens/store.ts'
import { type Answer, expectStatus } from '../../up/operator.ts'
import type { Asker } from './asker.ts'

/** Each with a token: their name is their relation to the site's thing; a member is in a group that the thing is in. */
export const users = ['owner', 'stranger', 'reader', 'writer', 'deleter', 'member', 'memberByGroup', 'removed', 'administrator'] as const
export const userKeys = ['ownerKey', 'administratorKey'] as const
/** API keys of the owner with a scope: to read, to publish, and for the site's channel. */
export const scopedKeys = ['readKey', 'publishKey', 'channelKey'] as const
export const thingKeys = ['connectedThing', 'otherThing', 'leftThing'] as const
/** Invalid credentials, and valid ones of the other scheme. */
const nobodies = ['anonymous', 'expired', 'garbage', 'disabled', 'keyAsToken', 'tokenAsKey'] as const
export const callers = [...users, ...userKeys, ...scopedKeys, ...thingKeys, ...nobodies] as const
export type UserName = (typeof users)[number]
export type Caller = (typeof callers)[number]

export interface Thing {
  readonly id: string
  readonly name: string
  readonly key: string
}

export interface ApiKey {
  readonly id: string
  readonly value: string
}

/** What one owner has. */
export interface Site {
  /** Connected to the channel, in the group of things, and shared. */
  readonly thing: Thing
  /** Connected to nothing. */
  readonly otherThing: Thing
  /** Was connected to the channel. */
  readonly leftThing: Thing
  readonly channel: string
  readonly otherChannel: string
  readonly thingsGroup: string
  /** Shared with the group of things. */
  readonly usersGroup: string
  readonly apiKey: ApiKey
  /** The credential with which the thing fetches its bootstrap configuration. */
  readonly device: { readonly id: string; readonly key: string }
  /** The serial of the thing's certificate. */
  readonly certificate: string
}

export interface User {
  readonly id: string
  readonly email: string
  readonly password: string
  /** `Bearer …`; another one after `renew`. */
  readonly token: string
}

export interface World {
  readonly asker: Asker
  readonly users: Readonly<Record<UserName, User>>
  /** A user to give rights to; sends no requests. */
  readonly bystander: User
  /** All registered users. */
  readonly registered: readonly Pick<User, 'id' | 'email'>[]
  readonly administratorKey: ApiKey
  /** With what each was issued with. */
  readonly scopedKeys: Readonly<Record<(typeof scopedKeys)[number], ApiKey & { readonly scope: object }>>
  /** The owner's. */
  readonly site: Site
  /** The stranger's. */
  readonly foreign: Site
  readonly authorization: (caller: Caller) => string | undefined
  /** Another site of the owner, with the same relations. */
  freshSite(): Promise<Site>
  /** Signs a user in again. */
  renew(user: UserName): Promise<void>
  /** A text that was not given before. */
  fresh(): string
}

export interface WorldParts {
  readonly asker: Asker
  readonly administrator: { readonly email: string; readonly password: string }
  readonly masterKey: Uint8Array
  /** Called with a new site while its left thing is connected. */
  readonly prepare?: (site: Site) => Promise<void>
}

/** The ids of a site that a request may contain, by kind. */
export function idsOf({ thing, otherThing, leftThing, apiKey, device, ...rest }: Site): Record<keyof Site, string> {
  return { ...rest, thing: thing.id, otherThing: otherThing.id, leftThing: leftThing.id, apiKey: apiKey.id, device: device.id }
}

const idIn = ({ headers }: Answer): string => headers.get('location')!.split('/').at(-1)!
let serial = 0
const fresh = (): string => `${process.pid}-${Date.now()}-${serial++}`

export async function openWorld({ asker, administrator, masterKey, prepare = async () => undefined }: WorldParts): Promise<World> {
  const tokens = openTokens([deriveKey(masterKey, 'tokens')], { lifetimeSeconds: -60 })

  async function signIn(credentials: { readonly email: string; readonly password: string }): Promise<string> {
    const { json } = await expectStatus(asker.call('POST', '/tokens', { body: credentials }), 201)
    return `Bearer ${json!['token'] as string}`
  }

  async function register(name: string): Promise<User> {
    const credentials = { email: `${name}-${fresh()}@sluice.example`.toLowerCase(), password: `password of ${name} ${fresh()}` }
    const id = idIn(await expectStatus(asker.call('POST', '/users', { body: credentials }), 201))
    return { ...credentials, id, token: await signIn(credentials) }
  }

  async function administratorUser(): Promise<User> {
    const token = await signIn(administrator)
    const { json } = await expectStatus(asker.call('GET', '/users/profile', { authorization: token }), 200)
    return { ...administrator, id: json!['id'] as string, token }
  }

  const known = Object.fromEntries(
    await Promise.all(users.map(async name => [name, await (name === 'administrator' ? administratorUser() : register(name))] as const)),
  ) as Record<UserName, User>
  const [bystander, disabled] = [await register('bystander'), await register('disabled')]
  const asAdministrator = { authorization: known.administrator.token }
  await expectStatus(asker.call('PUT', `/users/${disabled.id}/disabled`, { ...asAdministrator, body: { disabled: true } }), 204)
  const relations = () => relationsOf(known)
  const freshSite = (): Promise<Site> => makeSite(asker, known.owner.token, relations(), prepare)
  const issue = async (authorization: string, scope: object = {}): Promise<ApiKey> => {
    const issued = await expectStatus(asker.call('POST', '/keys', { authorization, body: { name: 'key', ...scope } }), 201)
    return issued.json as unknown as ApiKey
  }
  const administratorKey = await issue(known.administrator.token)
  const site = await freshSite()
  const scopes = { readKey: { access: 'read' }, publishKey: { access: 'publish' }, channelKey: { access: 'all', channels: [site.channel] } }
  const scoped = {} as Record<keyof typeof scopes, ApiKey & { readonly scope: object }>
  for (const name of scopedKeys) scoped[name] = { ...(await issue(known.owner.token, scopes[name])), scope: scopes[name] }
  const foreign = await makeSite(asker, known.stranger.token, [], prepare)
  const expired = await tokens.issue({ user: known.owner.id as never, version: 1 })

  const others: Record<Exclude<Caller, UserName>, () => string | undefined> = {
    ownerKey: () => `Bearer ${site.apiKey.value}`,
    administratorKey: () => `Bearer ${administratorKey.value}`,
    readKey: () => `Bearer ${scoped.readKey.value}`,
    publishKey: () => `Bearer ${scoped.publishKey.value}`,
    channelKey: () => `Bearer ${scoped.channelKey.value}`,
    connectedThing: () => `Thing ${site.thing.key}`,
    otherThing: () => `Thing ${site.otherThing.key}`,
    leftThing: () => `Thing ${site.leftThing.key}`,
    anonymous: () => undefined,
    expired: () => `Bearer ${expired}`,
    garbage: () => 'Bearer a-token.which-is.none-at-all',
    disabled: () => disabled.token,
    keyAsToken: () => `Bearer ${site.thing.key}`,
    tokenAsKey: () => known.owner.token.replace('Bearer', 'Thing'),
  }
  return {
    asker,
    users: known,
    bystander,
    registered: [...Object.values(known), bystander, disabled],
    administratorKey,
    scopedKeys: scoped,
    site,
    foreign,
    authorization: caller => (caller in known ? known[caller as UserName].token : others[caller as keyof typeof others]()),
    freshSite,
    async renew(user) {
      known[user] = { ...known[user], token: await signIn(known[user]) }
    },
    fresh,
  }
}

type Relation = (site: Site) => readonly [method: string, path: string, body: object]

/** Gives the users of a world the relations in their names. */
function relationsOf({ reader, writer, deleter, member, memberByGroup, removed }: World['users']): Relation[] {
  const share =
    ({ id }: User, right: string): Relation =>
    ({ thing }) => ['POST', `/things/${thing.id}/share`, { user_ids: [id], policies: [right] }]
  return [
    share(reader, 'read'),
    share(writer, 'write'),
    share(deleter, 'delete'),
    ({ thing, thingsGroup }) => ['POST', `/groups/${thingsGroup}/members`, { type: 'things', members: [thing.id] }],
    ({ thingsGroup }) => ['POST', `/groups/${thingsGroup}/members`, { type: 'users', members: [member.id, removed.id] }],
    ({ thingsGroup }) => ['DELETE', `/groups/${thingsGroup}/members`, { members: [removed.id] }],
    ({ usersGroup }) => ['POST', `/groups/${usersGroup}/members`, { type: 'users', members: [memberByGroup.id] }],
    ({ thingsGroup, usersGroup }) => ['POST', `/groups/${usersGroup}/share`, { thing_group_id: thingsGroup }],
  ]
}

/** @param relations of others to it, in their order */
export async function makeSite(
  { call }: Pick<Asker, 'call'>,
  authorization: string,
  relations: readonly Relation[] = [],
  prepare: (site: Site) => Promise<void> = async () => undefined,
): Promise<Site> {
  async function ask(method: string, path: string, body?: object): Promise<Answer> {
    const answer = await call(method, path, { authorization, ...(body === undefined ? {} : { body }) })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer
  }
  const names = (...given: string[]) => given.map(name => ({ name, metadata: { of: name } }))
  const made = (await ask('POST', '/things/bulk', names('thing', 'other', 'left'))).json!['things'] as [Thing, Thing, Thing]
  const channels = (await ask('POST', '/channels/bulk', names('channel', 'other'))).json!['channels'] as [{ id: string }, { id: string }]
  const [thing, otherThing, leftThing] = made
  const [channel, otherChannel] = [channels[0].id, channels[1].id]
  const thingsGroup = idIn(await ask('POST', '/groups', { name: 'things' }))
  const usersGroup = idIn(await ask('POST', '/groups', { name: 'users' }))
  const { id, value } = (await ask('POST', '/keys', { name: 'key' })).json as unknown as ApiKey
  const certificate = (await ask('POST', '/certs', { thing_id: thing.id, key_type: 'ec' })).json!['Serial'] as string
  const device = { id: `device-${fresh()}`, key: `external key ${fresh()}` }
  await ask('POST', '/things/configs', { external_id: device.id, external_key: device.key, thing_id: thing.id, channels: [channel] })
  const own = { apiKey: { id, value }, certificate, device }
  const site = { thing, otherThing, leftThing, channel, otherChannel, thingsGroup, usersGroup, ...own }
  await ask('POST', '/connect', { channel_ids: [channel], thing_ids: [thing.id, leftThing.id] })
  await prepare(site)
  await ask('DELETE', `/channels/${channel}/things/${leftThing.id}`)
  for (const relation of relations) await ask(...relation(site))
  return site
}
