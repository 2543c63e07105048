// Groups over HTTP: who can view, change and share them, and which access is gained and lost through them (SPEC §5).

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/)

describePlatform('groups', platform => {
  let owner: User
  let member: User
  let stranger: User
  let administrator: string
  beforeAll(async () => {
    owner = await platform().user()
    member = await platform().user()
    stranger = await platform().user()
    administrator = await platform().administrator()
  })
  const ask = (method: string, path: string, body?: object, authorization = owner.token, headers = {}): Promise<Answer> =>
    call(platform().url, method, path, { authorization, headers, ...(body === undefined ? {} : { body }) })
  const status = async (...asked: Parameters<typeof ask>): Promise<number> => (await ask(...asked)).status
  async function makeGroup(by = owner.token, body: object = { name: 'group' }): Promise<string> {
    const answer = await ask('POST', '/groups', body, by)
    expect([answer.status, answer.text]).toEqual([201, ''])
    return answer.headers.get('location')!.replace('/groups/', '')
  }
  async function makeThing(by = owner.token): Promise<string> {
    const answer = await ask('POST', '/things/bulk', [{ name: 'thing' }], by)
    return (answer.json!['things'] as { id: string }[])[0]!.id
  }
  const assign = (group: string, type: 'users' | 'things', members: string[], by = owner.token) =>
    ask('POST', `/groups/${group}/members`, { type, members }, by)
  /** What a user may do with a thing, according to its answers. */
  async function rights(user: User, thing: string): Promise<string[]> {
    const read = await status('GET', `/things/${thing}`, undefined, user.token)
    const write = await status('PUT', `/things/${thing}`, { name: 'thing' }, user.token)
    return [...(read === 200 ? ['read'] : []), ...(write === 200 ? ['write'] : [])]
  }

  test('the creator of a group views, changes and deletes it, and it has the form that clients know', async () => {
    const id = await makeGroup(owner.token, { name: 'Shift', description: 'at night', metadata: { floor: 3 } })
    const seen = await ask('GET', `/groups/${id}`)
    const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const group = { id, name: 'Shift', description: 'at night', metadata: { floor: 3 }, owner_id: owner.id, level: 1, path: id }
    expect(seen.json).toEqual({ ...group, created_at: timestamp, updated_at: timestamp })
    const eTag = seen.headers.get('etag')!
    expect(await status('PUT', `/groups/${id}`, { name: 'Day' }, owner.token, { 'if-match': eTag })).toBe(200)
    expect(await status('PUT', `/groups/${id}`, { name: 'late' }, owner.token, { 'if-match': eTag })).toBe(412)
    const { description: _none, metadata: _neither, ...rest } = group
    expect((await ask('GET', `/groups/${id}`)).json).toEqual({ ...rest, name: 'Day', created_at: timestamp, updated_at: timestamp })
    expect(await status('DELETE', `/groups/${id}`)).toBe(204)
    expect(await status('GET', `/groups/${id}`)).toBe(403)
    expect(await status('GET', `/groups/${id}`, undefined, administrator)).toBe(404)
  })

  test.each([
    ['no name', {}, '/body/name'],
    ['an empty name', { name: '' }, '/body/name'],
    ['a name of 255 bytes', { name: `${'é'.repeat(127)}x` }, '/body/name'],
    ['a description that is too long', { name: 'a', description: 'x'.repeat(1025) }, '/body/description'],
    ['a parent', { name: 'a', parent_id: absentId }, '/body/parent_id'],
    ['metadata that is a text', { name: 'a', metadata: '{}' }, '/body/metadata'],
  ])('a group with %s is malformed, and says where', async (_name, body, pointer) => {
    const answer = await ask('POST', '/groups', body)
    expect([answer.status, answer.json?.errors]).toEqual([400, [{ pointer, detail: expect.any(String) }]])
  })

  test('a list contains the groups that the caller created or is a member of, by name, page by page; parents and children are empty', async () => {
    const user = await platform().user()
    const ids = [await makeGroup(user.token, { name: 'b' }), await makeGroup(user.token, { name: 'A' })]
    const other = await makeGroup(owner.token, { name: 'ab', metadata: { x: 1 } })
    await assign(other, 'users', [user.id])
    const names = async (query: string) =>
      ((await ask('GET', `/groups${query}`, undefined, user.token)).json!['groups'] as { name: string }[]).map(({ name }) => name)
    expect(await names('?offset=0&limit=100&tree=false')).toEqual(['b', 'A', 'ab'])
    expect(await names('?name=a&order=name')).toEqual(['A', 'ab'])
    expect(await names('?metadata=%7B%22x%22%3A1%7D')).toEqual(['ab'])
    expect((await ask('GET', '/groups?limit=1', undefined, user.token)).json).toMatchObject({
      total: 3,
      offset: 0,
      limit: 1,
      level: 1,
      name: '',
    })
    for (const path of ['children', 'parents'])
      expect((await ask('GET', `/groups/${ids[0]}/${path}?tree=true&level=5`, undefined, user.token)).json).toMatchObject({
        total: 0,
        groups: [],
      })
    expect((await ask('GET', `/members/${user.id}/groups?offset=0&limit=100&`, undefined, user.token)).json).toMatchObject({ total: 3 })
  })

  test("members have the group's access, and lose it when they or the thing leave, or the group is deleted", async () => {
    for (const end of ['user', 'thing', 'thing by its owner', 'group'] as const) {
      const [group, thing] = [await makeGroup(), await makeThing()]
      expect(await rights(member, thing)).toEqual([])
      expect((await assign(group, 'users', [member.id])).text).toBe('')
      expect(await status('POST', `/groups/${group}/members`, { type: 'things', members: [thing] })).toBe(200)
      expect(await rights(member, thing)).toEqual(['read', 'write'])
      const gone = { members: [end === 'user' ? member.id : thing], ...(end === 'user' ? { type: 'users' } : {}) }
      expect(await status('DELETE', `/groups/${group}${end === 'group' ? '' : '/members'}`, end === 'group' ? undefined : gone)).toBe(204)
      expect(await rights(member, thing), end).toEqual([])
      expect(await rights(owner, thing)).toEqual(['read', 'write'])
    }
  })

  test('access that was gained in two ways survives the end of one, and ends with the other', async () => {
    const [first, second, thing] = [await makeGroup(), await makeGroup(), await makeThing()]
    for (const group of [first, second]) {
      await assign(group, 'users', [member.id])
      await assign(group, 'things', [thing])
    }
    const share = { user_ids: [member.id], policies: ['read'] }
    expect((await ask('POST', `/things/${thing}/share`, share)).text).toBe('{}')
    await ask('DELETE', `/groups/${first}/members`, { members: [member.id] })
    expect(await rights(member, thing)).toEqual(['read', 'write'])
    await ask('DELETE', `/groups/${second}`)
    expect(await rights(member, thing)).toEqual(['read'])
    expect(await status('DELETE', `/things/${thing}/share`, share)).toBe(204)
    expect(await rights(member, thing)).toEqual([])
  })

  test('a users group has access to the things of a things group while it is shared with it', async () => {
    const [users, things, thing] = [await makeGroup(), await makeGroup(), await makeThing()]
    await assign(users, 'users', [member.id])
    await assign(things, 'things', [thing])
    const body = { thing_group_id: things }
    const answer = await ask('POST', `/groups/${users}/share`, body)
    expect([answer.status, answer.text]).toEqual([200, '{}'])
    expect(await rights(member, thing)).toEqual(['read', 'write'])
    expect(await status('DELETE', `/groups/${users}/share`, body, stranger.token)).toBe(403)
    expect(await status('DELETE', `/groups/${users}/share`, body)).toBe(204)
    expect(await rights(member, thing)).toEqual([])
    const foreign = await makeGroup(stranger.token)
    expect(await status('POST', `/groups/${users}/share`, { thing_group_id: foreign })).toBe(403)
    expect(await status('POST', `/groups/${foreign}/share`, { thing_group_id: users })).toBe(403)
    expect(await status('POST', `/groups/${users}/share`, { thing_group_id: absentId })).toBe(403)
  })

  test("with one absent member, another owner's thing or one of the other kind none is added, always with the same 403", async () => {
    const [group, own, foreign] = [await makeGroup(), await makeThing(), await makeThing(stranger.token)]
    for (const [type, members] of [
      ['users', [member.id, absentId]],
      ['users', [member.id, own]],
      ['things', [own, foreign]],
      ['things', [own, absentId]],
      ['things', [own, member.id]],
    ] as const) {
      const answer = await assign(group, type, [...members])
      expect([answer.status, answer.json?.error]).toEqual([403, 'failed to perform authorization over the entity'])
    }
    expect(await rights(member, own)).toEqual([])
    expect((await ask('GET', `/groups/${group}/members`)).json).toMatchObject({ total: 1, type: 'users', members: [owner.id] })
    expect(await status('POST', `/groups/${group}/members`, { type: 'users', members: [absentId] }, administrator)).toBe(404)
    expect(await status('POST', `/groups/${group}/members`, { type: 'things', members: [foreign] }, administrator)).toBe(200)
    // An owner can remove their things from any group.
    expect(await status('DELETE', `/groups/${group}/members`, { members: [foreign] }, stranger.token)).toBe(204)
    expect(await status('DELETE', `/groups/${group}/members`, { members: [owner.id] }, stranger.token)).toBe(403)
    await assign(group, 'things', [own])
    for (const body of [
      { type: 'users', members: [own] },
      { type: 'things', members: [own, owner.id] },
    ]) {
      const answer = await ask('DELETE', `/groups/${group}/members`, body)
      expect([answer.status, answer.json?.errors]).toEqual([400, [{ pointer: '/body/type', detail: expect.any(String) }]])
    }
    expect((await ask('GET', `/groups/${group}/members?type=users`)).json).toMatchObject({ total: 1 })
    // A user who is not a member gives the same answer as an absent id.
    expect(await status('DELETE', `/groups/${group}/members`, { type: 'things', members: [stranger.id] })).toBe(204)
    expect(await status('DELETE', `/groups/${group}/members`, { type: 'things', members: [own, absentId] })).toBe(204)
  })

  test('members are listed by id; emails to users who control the group, and whole things to users who may read them', async () => {
    const [group, thing] = [await makeGroup(), await makeThing()]
    await assign(group, 'users', [member.id])
    const page = { offset: 0, limit: 100, level: 1, name: 'group' }
    const members = async (query = '', by = owner.token) =>
      (await ask('GET', `/groups/${group}/members?limit=100${query}`, undefined, by)).json
    expect(await members()).toEqual({ ...page, total: 2, type: 'users', members: expect.arrayContaining([owner.id, member.id]) })
    await assign(group, 'things', [thing])
    expect(await members()).toEqual({ ...page, total: 1, type: 'things', members: [thing] })
    expect(await members('&type=users', member.token)).toMatchObject({ total: 2, type: 'users' })
    const users = async (by: string) => (await ask('GET', `/groups/users/${group}?order=id`, undefined, by)).json!['users'] as object[]
    expect(await users(owner.token)).toContainEqual({ id: member.id, email: member.email })
    expect(await users(administrator)).toContainEqual({ id: member.id, email: member.email })
    expect(await users(member.token)).toContainEqual({ id: owner.id })
    const things = async (by: string) => (await ask('GET', `/groups/things/${group}`, undefined, by)).json!['things']
    expect(await things(member.token)).toEqual([{ id: thing, name: 'thing', key: uuid }])
    expect(await things(administrator)).toEqual([{ id: thing }])
    expect((await ask('GET', `/members/${thing}/groups`)).json).toMatchObject({ total: 1, groups: [{ id: group }] })
    expect(await status('GET', `/members/${thing}/groups`, undefined, member.token)).toBe(403)
    expect(await status('GET', `/members/${member.id}/groups`, undefined, owner.token)).toBe(403)
    expect(await status('GET', `/members/${absentId}/groups`, undefined, owner.token)).toBe(403)
  })

  test('members filter the things of a group by metadata, and the administrator its users', async () => {
    const [group, thing, other] = [await makeGroup(), await makeThing(), await makeThing()]
    await assign(group, 'things', [thing, other])
    await assign(group, 'users', [member.id])
    await ask('PUT', `/things/${thing}`, { name: 'thing', metadata: { at: { roof: 1 }, b: 2 } })
    await ask('PUT', '/users', { metadata: { floor: 3 } }, member.token)
    const found = async (kind: string, metadata: object, by: string) => {
      const query = `metadata=${encodeURIComponent(JSON.stringify(metadata))}`
      const { status: answered, json } = await ask('GET', `/groups/${kind}/${group}?${query}`, undefined, by)
      return answered === 200 ? { total: json!['total'], ids: (json![kind] as { id: string }[]).map(({ id }) => id) } : answered
    }
    expect(await found('things', { at: { roof: 1 } }, member.token)).toEqual({ total: 1, ids: [thing] })
    expect(await found('things', { at: { roof: 2 } }, owner.token)).toEqual({ total: 0, ids: [] })
    expect(await found('things', { at: { roof: 1 } }, administrator)).toBe(403)
    expect(await found('users', { floor: 3 }, administrator)).toEqual({ total: 1, ids: [member.id] })
    expect(await found('users', { floor: 3 }, owner.token)).toBe(403)
    expect(await status('GET', `/groups/things/${group}?metadata=7`)).toBe(400)
  })

  test('clients send members with a form’s content type, or none', async () => {
    const group = await makeGroup()
    for (const method of ['POST', 'DELETE']) {
      const headers = { authorization: owner.token, 'content-type': 'application/x-www-form-urlencoded' }
      const body = JSON.stringify({ type: 'users', members: [member.id] })
      expect((await fetch(`${platform().url}/groups/${group}/members`, { method, headers, body })).ok).toBe(true)
    }
  })

  const fill = (object: string, subject: string, count: number) =>
    platform().database.query(
      `INSERT INTO control_plane.tuples (object, relation, subject) SELECT ${object}, 'member', ${subject} FROM generate_series(1, $1::int4)`,
      [count],
    )

  test('a user is in at most a thousand groups, however they are added, and may leave them', async () => {
    const user = await platform().user()
    const [first, second] = [await makeGroup(), await makeGroup()]
    await fill('gen_random_uuid()', `'${user.id}'`, 998)
    expect((await assign(first, 'users', [user.id])).status).toBe(200)
    expect(await status('POST', '/groups', { name: 'own' }, user.token)).toBe(201)
    const policy = { subjects: [user.id], object: second, policies: ['member'] }
    for (const refused of [
      await assign(second, 'users', [user.id]),
      await ask('POST', '/groups', { name: 'own' }, user.token),
      await ask('POST', '/policies', policy, administrator),
    ])
      expect([refused.status, refused.json?.code, refused.json?.detail]).toEqual([
        409,
        'conflict',
        expect.stringContaining('at most 1000 groups'),
      ])
    expect((await assign(first, 'users', [user.id])).status).toBe(200)
    expect((await ask('GET', '/groups?limit=1', undefined, user.token)).json?.total).toBe(2)
    expect(await status('DELETE', `/groups/${first}/members`, { members: [user.id, member.id] }, user.token)).toBe(403)
    expect(await status('DELETE', `/groups/${first}/members`, { members: [user.id] }, user.token)).toBe(204)
    expect((await assign(second, 'users', [user.id])).status).toBe(200)
  })

  test('a user owns at most a thousand groups, including those that they left, and may delete some', async () => {
    const user = await platform().user()
    const own = await makeGroup(user.token)
    await platform().database.query(
      `INSERT INTO control_plane.groups (id, owner, name, name_folded) SELECT gen_random_uuid(), $1, '', '' FROM generate_series(1, 999)`,
      [user.id],
    )
    const refused = await ask('POST', '/groups', { name: 'one more' }, user.token)
    expect([refused.status, refused.json?.detail]).toEqual([409, expect.stringContaining('at most 1000 groups: delete some')])
    expect(await status('DELETE', `/groups/${own}`, undefined, user.token)).toBe(204)
    expect(await status('POST', '/groups', { name: 'one more' }, user.token)).toBe(201)
    expect(await status('POST', '/groups', { name: 'one more' }, user.token)).toBe(409)
  })

  test('a group has at most ten thousand members, and its pages are read from the index', async () => {
    const group = await makeGroup()
    await fill(`'${group}'`, 'gen_random_uuid()', 9_998)
    expect((await assign(group, 'users', [member.id, stranger.id])).status).toBe(409)
    expect((await assign(group, 'users', [member.id])).status).toBe(200)
    expect((await assign(group, 'users', [stranger.id])).json?.detail).toContain('at most 10000 members')
    const page = (await ask('GET', `/groups/${group}/members?offset=9999&limit=10`)).json as { total: number; members: string[] }
    expect([page.total, page.members.length]).toEqual([10_000, 1])
  })

  test('ten groups can be shared in a chain, eleven cannot, also with two concurrent requests', async () => {
    const share = (users: string, things: string) => ask('POST', `/groups/${users}/share`, { thing_group_id: things })
    const row = async (count: number): Promise<string[]> => {
      const groups: string[] = []
      while (groups.length < count) groups.push(await makeGroup())
      for (const [nth, group] of groups.slice(1).entries()) expect((await share(groups[nth]!, group)).status).toBe(200)
      return groups
    }
    const [ten, thing, more] = [await row(10), await makeThing(), await makeGroup()]
    await assign(ten[0]!, 'users', [member.id])
    await assign(ten[9]!, 'things', [thing])
    expect(await rights(member, thing)).toEqual(['read', 'write'])
    for (const [from, to] of [
      [ten[9], more],
      [more, ten[0]],
      [ten[9], ten[0]],
    ] as const) {
      const refused = await share(from!, to!)
      expect([refused.status, refused.json?.detail]).toEqual([409, expect.stringContaining('at most 10 groups')])
    }
    const [before, behind] = [await row(5), await row(5)]
    const joined = await Promise.all([share(before[4]!, behind[0]!), share(behind[4]!, more)])
    expect(new Set(joined.map(answer => answer.status))).toEqual(new Set([200, 409]))
  })
})
