// A row of the isolation matrix: a route with a valid request, the callers who may send it, and their answers (SPEC §4, §5).

import { expect } from 'vitest'
import { type Caller, idsOf, type Site, scopedKeys, thingKeys, type UserName, userKeys, users, type World } from './world.ts'

export interface Asked {
  /** Parameters of the path: `{ thing: '…' }`. */
  readonly parameters?: Readonly<Record<string, string>>
  /** A list is a repeated parameter. */
  readonly query?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: object | string
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface At {
  readonly world: World
  /** What the request is about. */
  readonly site: Site
  readonly caller: Caller
}

export interface Row {
  /** As the API's description names it: `GET /things/{thing}`. */
  readonly route: string
  /** Distinguishes rows of one route. */
  readonly what?: string
  /** Callers with such a credential are refused with 403, and all others with 401. An API key is a token too. */
  readonly takes: 'tokens' | 'keys' | 'both' | 'external keys'
  readonly allowed: readonly Caller[]
  /** The status of a success. */
  readonly status: number
  readonly request: (at: At) => Asked
  /** The body of a success: JSON, or a text. */
  readonly answer: (at: At) => unknown
  /** Creates the object of the request, if a site has none. May run again. */
  readonly prepare?: (at: At) => Promise<void>
  /** What a success changes: the site, so that each caller gets its own, or something else. */
  readonly changes?: 'site' | 'more'
  /** Callers whose success changes nothing. */
  readonly unchanged?: readonly Caller[]
  /** A success ends the caller's token. */
  readonly endsToken?: true
  /** The route accepts If-Match. */
  readonly isVersioned?: true
  /** The answer never ends. */
  readonly isStream?: true
  /** Ids that may be absent or another user's without a refusal, if the caller has the right to the rest. */
  readonly tolerates?: readonly Named[]
  /** More queries, with other plans. */
  readonly queries?: readonly string[]
}

/** The ids that a request may contain. */
export type Named = keyof Site | 'owner' | 'bystander'

/** Callers with a relation on the site's thing, also through a group. */
export const mayRead: readonly Caller[] = ['owner', 'ownerKey', 'reader', 'member', 'memberByGroup']
export const mayWrite: readonly Caller[] = ['owner', 'ownerKey', 'writer', 'member', 'memberByGroup']
export const mayDelete: readonly Caller[] = ['owner', 'ownerKey', 'deleter', 'member', 'memberByGroup']
export const isOwner: readonly Caller[] = ['owner', 'ownerKey']
/** Callers who see the site's channel, and read all of it. */
export const seesChannel: readonly Caller[] = [...isOwner, 'readKey', 'channelKey']
export const isAdministrator: readonly Caller[] = ['administrator', 'administratorKey']
/** Callers who control a group: its creator, and the administrator. */
export const mayControl: readonly Caller[] = [...isOwner, ...isAdministrator]
export const isMember: readonly Caller[] = ['member', 'memberByGroup']
export const everyUser: readonly Caller[] = [...users, ...userKeys]

export const uuid = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/) as unknown
export const text = expect.any(String) as unknown

export const nameOf = ({ route, what }: Row): string => (what === undefined ? route : `${route}, ${what}`)

/** The expected status for a caller. */
export function statusFor({ allowed, takes, status }: Row, caller: Caller): number {
  if (allowed.includes(caller)) return status
  const isKey = [...userKeys, ...scopedKeys].some(key => key === caller)
  const isUser = (everyUser.includes(caller) || isKey) && (takes === 'tokens' || takes === 'both')
  const isOfKeys = (isKey || thingKeys.some(key => key === caller)) && (takes === 'keys' || takes === 'both')
  return isUser || isOfKeys ? 403 : 401
}

/** Whose token or API key it is; undefined for everything else. */
export function userOf(caller: Caller): UserName | undefined {
  if (caller === 'ownerKey' || scopedKeys.some(key => key === caller)) return 'owner'
  if (caller === 'administratorKey') return 'administrator'
  return (users as readonly Caller[]).includes(caller) ? (caller as UserName) : undefined
}

/** Callers with a token or an API key of such users. */
export function callersOf(isMeant: (user: UserName) => boolean): Caller[] {
  return everyUser.filter(caller => isMeant(userOf(caller)!))
}

/** The site that a caller created before anything is changed. */
export function ownSite({ world, caller }: At): Site | undefined {
  const user = userOf(caller)
  return user === 'owner' ? world.site : user === 'stranger' ? world.foreign : undefined
}

/** A page with all items. */
export function pageOf(kind: string, items: readonly unknown[], more: object = { order: '', direction: 'asc' }): object {
  return { total: items.length, offset: 0, limit: 100, ...more, [kind]: items }
}
export const wholePage = { limit: '100' }

/** Rows that create one entity, and many. @param more other fields of a created one */
export function creationRows(kind: 'things' | 'channels', more: object): Row[] {
  const row = { takes: 'tokens', allowed: everyUser, status: 201, changes: 'more' } as const
  const entities = [{ name: 'one', metadata: { a: 1 } }, { name: 'two' }]
  return [
    { ...row, route: `POST /${kind}`, request: () => ({ body: { name: 'made' } }), answer: () => '' },
    {
      ...row,
      route: `POST /${kind}/bulk`,
      request: () => ({ body: entities }),
      answer: () => ({ [kind]: entities.map(entity => ({ id: uuid, ...entity, ...more })) }),
    },
  ]
}

/** Every id that a request may contain, and the stranger's counterpart; undefined if that makes no difference. */
export function namedIn(
  { users: { owner, stranger }, bystander, foreign }: World,
  site: Site,
): { name: Named; id: string; foreign: string | undefined }[] {
  const foreignIds = idsOf(foreign)
  const siteIds = Object.entries(idsOf(site)).map(([name, id]) => ({ name: name as Named, id, foreign: foreignIds[name as keyof Site] }))
  return [...siteIds, { name: 'owner', id: owner.id, foreign: stranger.id }, { name: 'bystander', id: bystander.id, foreign: undefined }]
}
