// Groups: changed by their creator and the administrator, and visible to their members too; things are added by their owner or the administrator.

import { type At, everyUser, isAdministrator, isMember, isOwner, mayControl, ownSite, pageOf, type Row, text, wholePage } from './row.ts'
import { listQueries } from './thing-rows.ts'

const route = { takes: 'tokens' } as const
const group = ({ site }: At) => ({ parameters: { group: site.thingsGroup } })
const maySee = [...mayControl, ...isMember]

const groupOf = (name: string, id: string, owner: string) => ({
  id,
  name,
  owner_id: owner,
  level: 1,
  path: id,
  created_at: text,
  updated_at: text,
})
const groupsPage = (groups: readonly unknown[]) => pageOf('groups', groups, { order: '', direction: 'asc', level: 1, name: '' })

/** Those that the caller created or is a member of. */
function groupsOf(at: At): unknown[] {
  const { world, caller, site } = at
  const own = ownSite(at)
  const ownersGroups = [
    groupOf('things', site.thingsGroup, world.users.owner.id),
    groupOf('users', site.usersGroup, world.users.owner.id),
  ] as const
  if (own === site) return [...ownersGroups]
  if (caller === 'member') return [ownersGroups[0]]
  if (caller === 'memberByGroup') return [ownersGroups[1]]
  const { id } = world.users.stranger
  return own === undefined ? [] : [groupOf('things', own.thingsGroup, id), groupOf('users', own.usersGroup, id)]
}

const membersPage = (type: string, members: readonly string[]) => pageOf('members', members, { level: 1, name: 'things', type })
const usersIn = ({ world: { users } }: At) => [users.owner, users.member].toSorted((left, right) => (left.id < right.id ? -1 : 1))

export const groupRows: readonly Row[] = [
  {
    ...route,
    route: 'POST /groups',
    allowed: everyUser,
    status: 201,
    changes: 'more',
    request: () => ({ body: { name: 'made', metadata: { a: 1 } } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'GET /groups',
    allowed: everyUser,
    status: 200,
    request: () => ({ query: wholePage }),
    answer: at => groupsPage(groupsOf(at)),
    queries: listQueries,
  },
  {
    ...route,
    route: 'GET /groups/{group}',
    allowed: maySee,
    status: 200,
    request: group,
    answer: ({ world, site }) => groupOf('things', site.thingsGroup, world.users.owner.id),
  },
  {
    ...route,
    route: 'PUT /groups/{group}',
    allowed: mayControl,
    status: 200,
    changes: 'site',
    isVersioned: true,
    request: at => ({ ...group(at), body: { name: 'changed' } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /groups/{group}',
    allowed: mayControl,
    status: 204,
    changes: 'site',
    isVersioned: true,
    request: group,
    answer: () => '',
  },
  ...['children', 'parents'].map(
    (below): Row => ({
      ...route,
      route: `GET /groups/{group}/${below}`,
      allowed: maySee,
      status: 200,
      request: at => ({ ...group(at), query: wholePage }),
      answer: () => groupsPage([]),
    }),
  ),
  {
    ...route,
    route: 'GET /groups/{group}/members',
    allowed: maySee,
    status: 200,
    request: at => ({ ...group(at), query: wholePage }),
    answer: at => membersPage('things', [at.site.thing.id]),
  },
  {
    ...route,
    route: 'GET /groups/{group}/members',
    what: 'its users',
    allowed: maySee,
    status: 200,
    request: at => ({ ...group(at), query: { ...wholePage, type: 'users' } }),
    answer: at =>
      membersPage(
        'users',
        usersIn(at).map(({ id }) => id),
      ),
  },
  {
    ...route,
    route: 'GET /groups/users/{group}',
    allowed: maySee,
    status: 200,
    request: at => ({ ...group(at), query: wholePage }),
    answer: at => {
      const shown = usersIn(at).map(({ id, email }) => (mayControl.includes(at.caller) ? { id, email } : { id }))
      return pageOf('users', shown, {})
    },
    queries: ['?offset=5&limit=5'],
  },
  {
    ...route,
    route: 'GET /groups/things/{group}',
    allowed: maySee,
    status: 200,
    request: at => ({ ...group(at), query: wholePage }),
    // Whole things for members.
    answer: ({ caller, site }) => pageOf('things', [isAdministrator.includes(caller) ? { id: site.thing.id } : site.thing], {}),
    queries: ['?offset=5&limit=5'],
  },
  {
    ...route,
    route: 'GET /groups/users/{group}',
    what: 'by their metadata',
    allowed: isAdministrator,
    status: 200,
    request: at => ({ ...group(at), query: { ...wholePage, metadata: '{}' } }),
    answer: () => pageOf('users', [], {}),
  },
  {
    ...route,
    route: 'GET /groups/things/{group}',
    what: 'by their metadata',
    allowed: [...isOwner, ...isMember],
    status: 200,
    request: at => ({ ...group(at), query: { ...wholePage, metadata: '{"of":"thing"}' } }),
    answer: ({ site }) => pageOf('things', [site.thing], {}),
  },
  {
    ...route,
    route: 'POST /groups/{group}/members',
    what: 'users',
    allowed: mayControl,
    status: 200,
    changes: 'site',
    request: at => ({ ...group(at), body: { type: 'users', members: [at.world.bystander.id] } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'POST /groups/{group}/members',
    what: 'things',
    allowed: mayControl,
    status: 200,
    changes: 'site',
    request: at => ({ ...group(at), body: { type: 'things', members: [at.site.otherThing.id, at.site.leftThing.id] } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /groups/{group}/members',
    what: 'users',
    // A user may leave a group.
    allowed: [...mayControl, 'member'],
    status: 204,
    changes: 'site',
    request: at => ({ ...group(at), body: { members: [at.world.users.member.id] } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'DELETE /groups/{group}/members',
    what: 'things',
    allowed: mayControl,
    status: 204,
    changes: 'site',
    tolerates: ['thing'],
    request: at => ({ ...group(at), body: { type: 'things', members: [at.site.thing.id] } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'POST /groups/{group}/share',
    allowed: mayControl,
    status: 200,
    changes: 'site',
    request: ({ site }) => ({ parameters: { group: site.thingsGroup }, body: { thing_group_id: site.usersGroup } }),
    answer: () => ({}),
  },
  {
    ...route,
    route: 'DELETE /groups/{group}/share',
    allowed: mayControl,
    status: 204,
    changes: 'site',
    request: ({ site }) => ({ parameters: { group: site.usersGroup }, body: { thing_group_id: site.thingsGroup } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'GET /members/{member}/groups',
    what: 'of a thing',
    allowed: mayControl,
    status: 200,
    request: ({ site }) => ({ parameters: { member: site.thing.id }, query: wholePage }),
    answer: ({ world, site }) => groupsPage([groupOf('things', site.thingsGroup, world.users.owner.id)]),
  },
  {
    ...route,
    route: 'GET /members/{member}/groups',
    what: 'of a user',
    allowed: mayControl,
    status: 200,
    request: ({ world }) => ({ parameters: { member: world.users.owner.id }, query: wholePage }),
    answer: ({ world, site }) => {
      const { id } = world.users.owner
      return groupsPage([groupOf('things', site.thingsGroup, id), groupOf('users', site.usersGroup, id)])
    },
  },
]
