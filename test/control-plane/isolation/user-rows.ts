// Users, tokens, API keys, policies and the audit log: users have their own, and the administrator the rest.

import { expect } from 'vitest'
import { type At, callersOf, everyUser, isAdministrator, isOwner, pageOf, type Row, text, userOf, uuid, wholePage } from './row.ts'
import { callers, type Site, type User, users, type World } from './world.ts'

const route = { takes: 'tokens' } as const
const shown = ({ id, email }: Pick<User, 'id' | 'email'>) => ({ id, email })
const own = ({ world, caller }: At): User => world.users[userOf(caller)!]
const newUser = ({ world }: At) => ({ email: `made-${world.fresh()}@sluice.example`, password: `password ${world.fresh()}` })

function keyOf({ id }: Site['apiKey'], { id: issuer, email }: User, scope: object = { access: 'all' }) {
  return { id, name: 'key', ...scope, type: 2, issuer_id: issuer, subject: email, issued_at: text }
}

const ownersKeys = ({ site, scopedKeys, users: { owner } }: World): object[] => [
  keyOf(site.apiKey, owner),
  ...Object.values(scopedKeys).map(key => keyOf(key, owner, key.scope)),
]

function keysOf(at: At): object[] {
  const { world } = at
  const user = userOf(at.caller)
  if (user === 'owner') return ownersKeys(world)
  if (user === 'stranger') return [keyOf(world.foreign.apiKey, own(at))]
  return user === 'administrator' ? [keyOf(world.administratorKey, own(at))] : []
}

const policy = ({ world, site }: At) => ({ subject: world.users.reader.id, object: site.thing.id })

export const userRows: readonly Row[] = [
  {
    ...route,
    route: 'POST /users',
    allowed: [...everyUser, 'anonymous'],
    status: 201,
    changes: 'more',
    request: at => ({ body: newUser(at) }),
    answer: () => '',
  },
  {
    ...route,
    route: 'POST /tokens',
    // What is in the body decides.
    allowed: callers,
    status: 201,
    request: ({ world: { bystander } }) => ({ body: { email: bystander.email, password: bystander.password } }),
    answer: () => ({ token: text }),
  },
  {
    ...route,
    route: 'GET /users',
    allowed: everyUser,
    status: 200,
    request: () => ({ query: wholePage }),
    answer: at => {
      const byEmail = at.world.registered.map(shown).toSorted((left, right) => (left.email < right.email ? -1 : 1))
      const listed = isAdministrator.includes(at.caller) ? byEmail : [shown(own(at))]
      return pageOf('users', listed, shown(own(at)))
    },
    queries: ['?email=owner-1', '?metadata=%7B%22a%22%3A1%7D', '?offset=100&limit=100'],
  },
  {
    ...route,
    route: 'PUT /users',
    allowed: everyUser,
    status: 200,
    changes: 'more',
    request: ({ world }) => ({ body: { metadata: { a: world.fresh() } } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'GET /users/profile',
    allowed: everyUser,
    status: 200,
    request: () => ({}),
    answer: at => shown(own(at)),
  },
  {
    ...route,
    route: 'GET /users/{user}',
    allowed: [...isOwner, ...isAdministrator],
    status: 200,
    request: ({ world }) => ({ parameters: { user: world.users.owner.id } }),
    answer: ({ world }) => shown(world.users.owner),
  },
  {
    ...route,
    route: 'PATCH /password',
    // No API key.
    allowed: users,
    status: 201,
    changes: 'more',
    endsToken: true,
    request: at => {
      const { password } = at.world.users[userOf(at.caller) ?? 'owner']
      return { body: { old_password: password, password } }
    },
    answer: () => ({}),
  },
  {
    ...route,
    route: 'PUT /users/{user}/password',
    // No API key.
    allowed: ['administrator'],
    status: 204,
    changes: 'more',
    request: ({ world: { bystander } }) => ({ parameters: { user: bystander.id }, body: { password: bystander.password } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'PUT /users/{user}/disabled',
    allowed: isAdministrator,
    status: 204,
    changes: 'more',
    async prepare({ world }) {
      const authorization = world.authorization('administrator')!
      await world.asker.call('PUT', `/users/${world.bystander.id}/disabled`, { authorization, body: { disabled: true } })
    },
    // Enabled by the other one already.
    unchanged: ['administratorKey'],
    request: ({ world }) => ({ parameters: { user: world.bystander.id }, body: { disabled: false } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'PUT /users/{user}/bounded',
    allowed: isAdministrator,
    status: 204,
    changes: 'more',
    // Each of the two changes what the other one set.
    request: ({ world, caller }) => ({ parameters: { user: world.bystander.id }, body: { bounded: caller === 'administrator' } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'POST /keys',
    // No API key.
    allowed: users,
    status: 201,
    changes: 'more',
    request: () => ({ body: { name: 'made' } }),
    answer: () => ({ id: uuid, value: expect.stringMatching(/^sluice_/) as unknown, issued_at: text }),
  },
  {
    ...route,
    route: 'GET /keys',
    allowed: everyUser,
    status: 200,
    request: () => ({ query: wholePage }),
    answer: at => pageOf('keys', keysOf(at), {}),
    queries: ['?offset=5&limit=5'],
  },
  {
    ...route,
    route: 'GET /keys/{key}',
    allowed: isOwner,
    status: 200,
    request: ({ site }) => ({ parameters: { key: site.apiKey.id } }),
    answer: ({ world, site }) => keyOf(site.apiKey, world.users.owner),
  },
  {
    ...route,
    route: 'DELETE /keys/{key}',
    // The request only asks that the caller has no key of this id.
    allowed: everyUser,
    status: 204,
    changes: 'site',
    unchanged: callersOf(user => user !== 'owner'),
    tolerates: ['apiKey'],
    request: ({ site }) => ({ parameters: { key: site.apiKey.id } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'GET /users/{user}/keys',
    allowed: isAdministrator,
    status: 200,
    request: ({ world }) => ({ parameters: { user: world.users.owner.id }, query: wholePage }),
    answer: ({ world }) => pageOf('keys', ownersKeys(world), {}),
    queries: ['?offset=5&limit=5'],
  },
  {
    ...route,
    route: 'DELETE /users/{user}/keys/{key}',
    allowed: isAdministrator,
    status: 204,
    changes: 'site',
    // A key that the user does not have is revoked already.
    tolerates: ['apiKey'],
    request: ({ world, site }) => ({ parameters: { user: world.users.owner.id, key: site.apiKey.id } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'POST /policies',
    allowed: isAdministrator,
    status: 201,
    changes: 'site',
    request: ({ world, site }) => ({ body: { subjects: [world.bystander.id], object: site.thing.id, policies: ['read', 'write'] } }),
    answer: () => ({}),
  },
  {
    ...route,
    route: 'PUT /policies',
    allowed: isAdministrator,
    status: 204,
    changes: 'site',
    tolerates: ['thing'],
    request: at => ({ body: { subjects: [policy(at).subject], object: policy(at).object, policies: ['read', 'write'] } }),
    answer: () => '',
  },
  {
    ...route,
    route: 'GET /policies/explain',
    allowed: isAdministrator,
    status: 200,
    tolerates: ['thing'],
    request: at => ({ query: { ...policy(at), relation: 'read' } }),
    answer: at => ({ allowed: true, because: [{ ...policy(at), relation: 'read' }], explanation: text }),
    queries: ['?subject=*&relation=create&object=users', '?subject=*&relation=member&object=authorities'],
  },
  {
    ...route,
    route: 'GET /audit',
    allowed: isAdministrator,
    status: 200,
    request: ({ site }) => ({ query: { ...wholePage, object: site.apiKey.id } }),
    answer: ({ world, site }) =>
      pageOf(
        'entries',
        [
          {
            at: text,
            user_id: world.users.owner.id,
            address: '127.0.0.1',
            request_id: uuid,
            action: 'key.issue',
            objects: [site.apiKey.id],
            relations: [],
          },
        ],
        {},
      ),
    tolerates: ['apiKey'],
    queries: [
      '',
      '?action=thing.create',
      '?action=key.issue',
      '?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z',
      '?offset=50&limit=100',
    ],
  },
]
