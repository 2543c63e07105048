// Policies over HTTP: set, removed and explained only by the administrator (SPEC §4, §5).

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

describePlatform('policies', platform => {
  let administrator: string
  let owner: User
  let user: User
  beforeAll(async () => {
    administrator = await platform().administrator()
    owner = await platform().user()
    user = await platform().user()
  })
  const ask = (method: string, path: string, body?: object, authorization = administrator): Promise<Answer> =>
    call(platform().url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
  async function makeThing(): Promise<string> {
    const answer = await ask('POST', '/things/bulk', [{ name: 'thing' }], owner.token)
    return (answer.json!['things'] as { id: string }[])[0]!.id
  }
  const sees = async (thing: string, by = user): Promise<number> => (await ask('GET', `/things/${thing}`, undefined, by.token)).status
  const explain = async (subject: string, relation: string, object: string): Promise<Record<string, unknown>> =>
    (await ask('GET', `/policies/explain?${new URLSearchParams({ subject, relation, object }).toString()}`)).json!

  test('a policy is in effect once it is answered, until its removal is answered', async () => {
    const thing = await makeThing()
    const body = { subjects: [user.id.toUpperCase()], object: thing, policies: ['read', 'write'] }
    expect(await sees(thing)).toBe(403)
    const added = await ask('POST', '/policies', body)
    expect([added.status, added.text]).toEqual([201, '{}'])
    expect(await sees(thing)).toBe(200)
    expect((await ask('POST', '/policies', body)).status).toBe(201)
    expect((await ask('PUT', '/policies', body)).status).toBe(204)
    expect(await sees(thing)).toBe(403)
    expect((await ask('PUT', '/policies', body)).status).toBe(204)
  })

  test('everyone, by *, and the objects users and authorities', async () => {
    const thing = await makeThing()
    await ask('POST', '/policies', { subjects: ['*'], object: thing, policies: ['read'] })
    expect(await sees(thing)).toBe(200)
    const member = { subjects: [user.id], object: 'users', policies: ['member'] }
    expect((await ask('PUT', '/policies', member)).status).toBe(204)
    expect((await ask('POST', '/things/bulk', [{}], user.token)).status).toBe(403)
    await ask('POST', '/policies', member)
    expect((await ask('POST', '/things/bulk', [{}], user.token)).status).toBe(201)
    const authority = { subjects: [user.id], object: 'authorities', policies: ['member'] }
    await ask('POST', '/policies', authority)
    expect((await ask('POST', '/policies', member, user.token)).status).toBe(201)
    await ask('PUT', '/policies', authority)
    expect((await ask('POST', '/policies', member, user.token)).status).toBe(403)
  })

  test('the last administrator who is not disabled cannot be removed, also by two concurrent removals', async () => {
    const own = (await explain(user.id, 'member', 'authorities'))['allowed']
    expect(own).toBe(false)
    const rows = await platform().database.query<{ subject: string }>(
      "SELECT subject FROM control_plane.tuples WHERE object = 'authorities' AND relation = 'member'",
    )
    const [chief] = rows.map(({ subject }) => subject)
    const remove = (subject: string, by = administrator) =>
      ask('PUT', '/policies', { subjects: [subject], object: 'authorities', policies: ['member', 'read'] }, by)
    const refused = await remove(chief!)
    expect([refused.status, refused.json?.detail]).toEqual([409, expect.stringContaining('make another user a member')])
    await ask('POST', '/policies', { subjects: [user.id], object: 'authorities', policies: ['member'] })
    await ask('PUT', `/users/${user.id}/disabled`, { disabled: true })
    expect((await remove(chief!)).status).toBe(409)
    await ask('PUT', `/users/${user.id}/disabled`, { disabled: false })
    user = { ...user, token: await platform().signIn(user) }
    await ask('POST', '/policies', { subjects: [user.id], object: 'authorities', policies: ['member'] })
    const statuses = (await Promise.all([remove(chief!), remove(user.id)])).map(({ status }) => status)
    expect(statuses.filter(status => status === 204)).toHaveLength(1)
    // The remaining one makes the chief an administrator again.
    for (const by of [administrator, user.token])
      await ask('POST', '/policies', { subjects: [chief], object: 'authorities', policies: ['member'] }, by)
    await remove(user.id)
    expect((await explain(user.id, 'member', 'authorities'))['allowed']).toBe(false)
  })

  test.each<[string, number, object]>([
    ['a relation outside the five', 400, { subjects: [absentId], object: absentId, policies: ['access'] }],
    ['an invalid subject', 400, { subjects: ['me'], object: absentId, policies: ['read'] }],
    ['the members of a group as subject', 400, { subjects: [`${absentId}#member`], object: absentId, policies: ['read'] }],
    ['an invalid object', 400, { subjects: [absentId], object: 'things', policies: ['read'] }],
    ['no subject', 400, { subjects: [], object: absentId, policies: ['read'] }],
    ['no policy', 400, { subjects: [absentId], object: absentId, policies: [] }],
    ['no object', 400, { subjects: [absentId], policies: ['read'] }],
    ['an absent object', 404, { subjects: ['*'], object: absentId, policies: ['read'] }],
    ['an absent subject', 404, { subjects: [absentId], object: 'users', policies: ['member'] }],
  ])('adding %s is %i', async (_name, status, body) => {
    expect((await ask('POST', '/policies', body)).status).toBe(status)
  })

  test('only the administrator can set policies or have them explained', async () => {
    const body = { subjects: [user.id], object: 'authorities', policies: ['member'] }
    for (const [method, path] of [
      ['POST', '/policies'],
      ['PUT', '/policies'],
      ['GET', `/policies/explain?subject=${user.id}&relation=read&object=users`],
    ] as const) {
      expect((await ask(method, path, method === 'GET' ? undefined : body, user.token)).status).toBe(403)
      expect((await call(platform().url, method, path, method === 'GET' ? {} : { body })).status).toBe(401)
    }
  })

  test('administrators are added one by one, and by an administrator with a token', async () => {
    const anyUser = { subjects: ['*'], object: 'authorities', policies: ['member'] }
    expect((await ask('POST', '/policies', anyUser)).status).toBe(400)
    const key = `Bearer ${(await ask('POST', '/keys', {})).json!['value'] as string}`
    for (const method of ['POST', 'PUT'])
      expect((await ask(method, '/policies', { ...anyUser, subjects: [user.id] }, key)).status).toBe(403)
    expect((await ask('POST', '/policies', { ...anyUser, object: 'users' }, key)).status).toBe(201)
    expect((await ask('PUT', '/policies', { ...anyUser, object: 'users' }, key)).status).toBe(204)
  })

  test('a thing, a group and a user are hidden until their policies are delivered', async () => {
    const made = await platform().user()
    const makeGroup = async () =>
      (await ask('POST', '/groups', { name: 'on its way' }, owner.token)).headers.get('location')!.replace('/groups/', '')
    const [thing, group, other] = [await makeThing(), await makeGroup(), await makeGroup()]
    const asks: [number, () => Promise<Answer>][] = [
      [403, () => ask('POST', `/groups/${other}/members`, { type: 'things', members: [thing] }, owner.token)],
      [403, () => ask('POST', `/groups/${other}/members`, { type: 'users', members: [made.id] }, owner.token)],
      [403, () => ask('POST', `/groups/${group}/members`, { type: 'users', members: [user.id] }, owner.token)],
      [403, () => ask('POST', `/groups/${other}/share`, { thing_group_id: group }, owner.token)],
      [404, () => ask('POST', '/policies', { subjects: [user.id], object: thing, policies: ['read'] })],
      [404, () => ask('POST', '/policies', { subjects: [made.id], object: 'users', policies: ['member'] })],
      [401, () => call(platform().url, 'POST', '/tokens', { body: { email: made.email, password: made.password } })],
    ]
    const sql = `INSERT INTO control_plane.policy_outbox (entity, policies) SELECT entity, '[]' FROM unnest($1::uuid[]) AS entity`
    const listed = async (): Promise<unknown> => (await ask('GET', '/groups?name=on%20its', undefined, owner.token)).json?.total
    expect(await listed()).toBe(2)
    await platform().database.query(sql, [[thing, group, made.id]])
    for (const [nth, [status, asked]] of asks.entries()) expect([nth, (await asked()).status]).toEqual([nth, status])
    expect(await listed()).toBe(1)
    await platform().database.query('DELETE FROM control_plane.policy_outbox')
    expect(await listed()).toBe(2)
    for (const [nth, [status, asked]] of asks.entries()) expect([nth, (await asked()).status]).not.toEqual([nth, status])
  })

  test('an explanation has the policies that lead to the object, and the same in words', async () => {
    const thing = await makeThing()
    const makeGroup = async () =>
      (await ask('POST', '/groups', { name: 'g' }, owner.token)).headers.get('location')!.replace('/groups/', '')
    const [users, things] = [await makeGroup(), await makeGroup()]
    await ask('POST', `/groups/${users}/members`, { type: 'users', members: [user.id] }, owner.token)
    await ask('POST', `/groups/${things}/members`, { type: 'things', members: [thing] }, owner.token)
    expect(await explain(user.id, 'read', thing)).toEqual({
      allowed: false,
      because: [],
      explanation: `${user.id} does not have read on ${thing}: no policy gives it to them, to everyone, or to a group that they are a member of`,
    })
    await ask('POST', `/groups/${users}/share`, { thing_group_id: things }, owner.token)
    expect(await explain(user.id, 'read', thing)).toEqual({
      allowed: true,
      because: [
        { subject: user.id, relation: 'member', object: users },
        { subject: `${users}#member`, relation: 'member', object: things },
        { subject: `${things}#member`, relation: 'read', object: thing },
      ],
      explanation: `${user.id} has read on ${thing}: ${user.id} is a member of group ${users}; the members of group ${users} are members of group ${things}; the members of group ${things} have read on ${thing}`,
    })
    expect(await explain('*', 'create', 'users')).toMatchObject({
      allowed: true,
      explanation: expect.stringMatching(/: everyone has create on users$/),
    })
  })

  test('the explanation says so if access comes through more groups than are searched', async () => {
    const [thing, crowded] = [await makeThing(), await platform().user()]
    await platform().database.execute(`
      WITH ids AS (SELECT gen_random_uuid()::text AS id FROM generate_series(1, 1100))
      INSERT INTO control_plane.tuples (object, relation, subject)
      SELECT id, 'member', '${crowded.id}' FROM ids UNION ALL SELECT '${absentId}', 'member', id || '#member' FROM ids
      UNION ALL VALUES ('${thing}', 'read', '${absentId}#member')`)
    expect(await explain(crowded.id, 'read', thing)).toEqual({
      allowed: true,
      because: [],
      explanation: `${crowded.id} has read on ${thing}: it is given through more groups than are searched (1000, within 3 s)`,
    })
    await platform().database.query('DELETE FROM control_plane.tuples WHERE object = $1', [absentId])
  })
})
