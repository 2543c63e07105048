// Things: who may create, view, change, share and delete them (SPEC §5).

import {
  type At,
  creationRows,
  everyUser,
  isOwner,
  mayDelete,
  mayRead,
  mayWrite,
  ownSite,
  pageOf,
  type Row,
  userOf,
  uuid,
  wholePage,
} from './row.ts'
import { scopedKeys, type Thing } from './world.ts'

const route = { takes: 'tokens' } as const
const thing = ({ site }: At) => ({ parameters: { thing: site.thing.id } })

function ownThings(at: At): Thing[] {
  const own = ownSite(at)
  return own === undefined ? [] : [own.thing, own.otherThing, own.leftThing]
}

/** The caller's own things, and those of others that they may read. */
function readableThings(at: At): Thing[] {
  const isShared = userOf(at.caller) !== 'owner' && mayRead.includes(at.caller)
  return isShared ? [at.site.thing] : ownThings(at)
}

/** Without their keys for API keys with a scope. */
export const shown = ({ caller }: At, things: readonly Thing[]): object[] =>
  scopedKeys.some(key => key === caller) ? things.map(({ key: _key, ...rest }) => rest) : [...things]

const filters = ['', 'name=ensor', 'metadata=%7B%22site%22%3A%22site-3%22%7D', 'name=1&metadata=%7B%22site%22%3A%22site-3%22%7D']
const orders = ['', 'order=id', 'order=name', 'dir=desc', 'order=name&dir=desc']
/** Every filter in every order, and a page with a large offset. */
export const listQueries = filters.flatMap(filter => orders.map(order => `?${filter}&${order}`)).concat('?offset=50&limit=100')

const share = (policies: readonly string[]) => (at: At) => ({ ...thing(at), body: { user_ids: [at.world.bystander.id], policies } })

export const thingRows: readonly Row[] = [
  ...creationRows('things', { key: uuid }),
  {
    ...route,
    route: 'GET /things',
    allowed: [...everyUser, 'readKey'],
    status: 200,
    request: () => ({ query: wholePage }),
    answer: at => pageOf('things', shown(at, ownThings(at))),
    queries: listQueries,
  },
  {
    ...route,
    route: 'GET /things',
    what: 'with those of others',
    allowed: [...everyUser, 'readKey'],
    status: 200,
    request: () => ({ query: { ...wholePage, shared: 'true' } }),
    answer: at => pageOf('things', shown(at, readableThings(at))),
    queries: ['?shared=true&name=ensor'],
  },
  ...[{}, { shared: 'true' }].map(
    (more): Row => ({
      ...route,
      route: 'GET /things',
      what: `of a device${'shared' in more ? ', with those of others' : ''}`,
      allowed: [...everyUser, 'readKey'],
      status: 200,
      request: at => ({ query: { ...wholePage, ...more, external_id: at.site.device.id } }),
      // External ids of others are unknown, also those of things that the caller may read.
      answer: at => pageOf('things', shown(at, ownThings(at).slice(0, ownSite(at) === at.site ? 1 : 0))),
      tolerates: ['device'],
    }),
  ),
  {
    ...route,
    route: 'POST /things/search',
    what: 'of a device',
    allowed: everyUser,
    status: 200,
    request: at => ({ body: { limit: 100, external_id: at.site.device.id } }),
    answer: at => pageOf('things', ownThings(at).slice(0, ownSite(at) === at.site ? 1 : 0)),
    tolerates: ['device'],
  },
  {
    ...route,
    route: 'POST /things/search',
    allowed: everyUser,
    status: 200,
    request: () => ({ body: { limit: 100, metadata: {}, order: 'name' } }),
    answer: at => {
      const byName = ownThings(at).toSorted((left, right) => (left.name < right.name ? -1 : 1))
      return pageOf('things', byName, { order: 'name', direction: 'asc' })
    },
  },
  {
    ...route,
    route: 'GET /things/{thing}',
    allowed: [...mayRead, 'readKey'],
    status: 200,
    request: thing,
    answer: at => shown(at, [at.site.thing])[0],
  },
  {
    ...route,
    route: 'PUT /things/{thing}',
    allowed: mayWrite,
    status: 200,
    changes: 'site',
    isVersioned: true,
    request: at => ({ ...thing(at), body: { name: 'changed' } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /things/{thing}',
    allowed: mayDelete,
    status: 204,
    changes: 'site',
    isVersioned: true,
    request: thing,
    answer: () => '',
  },
  {
    ...route,
    route: 'PATCH /things/{thing}/key',
    allowed: isOwner,
    status: 200,
    changes: 'site',
    isVersioned: true,
    request: at => ({ ...thing(at), body: { grace_seconds: 60 } }),
    answer: () => ({ key: uuid }),
  },
  {
    ...route,
    route: 'POST /things/{thing}/share',
    what: 'what a writer holds',
    allowed: mayWrite,
    status: 200,
    changes: 'site',
    request: share(['write']),
    answer: () => ({}),
  },
  {
    ...route,
    route: 'POST /things/{thing}/share',
    what: 'what a writer does not hold',
    allowed: mayWrite.filter(caller => caller !== 'writer'),
    status: 200,
    changes: 'site',
    request: share(['read', 'delete', 'write']),
    answer: () => ({}),
  },
  {
    ...route,
    route: 'DELETE /things/{thing}/share',
    what: 'what a writer holds',
    allowed: mayWrite,
    status: 204,
    changes: 'site',
    request: at => ({ ...thing(at), body: { user_ids: [at.world.users.writer.id], policies: ['write'] } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /things/{thing}/share',
    what: 'what a writer does not hold',
    allowed: mayWrite.filter(caller => caller !== 'writer'),
    status: 204,
    changes: 'site',
    request: at => ({ ...thing(at), body: { user_ids: [at.world.users.reader.id], policies: ['read'] } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /things/{thing}/share',
    what: 'with the key replaced',
    allowed: isOwner,
    status: 204,
    changes: 'site',
    request: at => ({
      ...thing(at),
      query: { rotate_key: 'true' },
      body: { user_ids: [at.world.users.writer.id], policies: ['write'] },
    }),
    answer: () => '',
  },
]
