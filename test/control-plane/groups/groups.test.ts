// Groups over HTTP: who sees, changes and shares them, and which access is gained and lost through them (SPEC §5).

import { beforeAll, describe, expect, test } from 'vitest'
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
  /** What a user may do with a thing, as its answers tell. */
  async function rights(user: User, thing: string): Promise<string[]> {
    const read = await status('GET', `/things/${thing}`, undefined, user.token)
    const write = await status('PUT', `/things/${thing}`, { name: 'thing' }, user.token)
    return [...(read === 200 ? ['read'] : []), ...(write === 200 ? ['write'] : [])]
  }

  test('a group is made, seen, changed and deleted by who made it, and has the form that clients know', async () => {
    const id = await makeGroup(owner.token, { name: 'Shift', description: 'at night', metadata: { floor: 3 } })
    const seen = await ask('GET', `/groups/${id}`)
    const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const group = { id, name: 'Shift', description: 'at night', metadata: { floor: 3 }, owner_id: owner.id, level: 1, path: id }
    expect(seen.json).toEqual({ ...group, created_at: instant, updated_at: instant })
    const eTag = seen.headers.get('etag')!
    expect(await status('PUT', `/groups/${id}`, { name: 'Day' }, owner.token, { 'if-match': eTag })).toBe(200)
    expect(await status('PUT', `/groups/${id}`, { name: 'late' }, owner.token, { 'if-match': eTag })).toBe(412)
    const { description: _none, metadata: _neither, ...rest } = group
    expect((await ask('GET', `/groups/${id}`)).json).toEqual({ ...rest, name: 'Day', created_at: instant, updated_at: instant })
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

  test('listed are the groups that one made or is a member of, by name, page by page; above and below there are none', async () => {
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

  test('members have what the group has, and lose it when they, the thing or the group go', async () => {
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

  test('a users group that is shared with a things group opens its things, until it is not', async () => {
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

  test('with one member that is absent, foreign or of the other kind none is added, and all is the same 403', async () => {
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
    // Their owner takes things out of any group.
    expect(await status('DELETE', `/groups/${group}/members`, { members: [foreign] }, stranger.token)).toBe(204)
    expect(await status('DELETE', `/groups/${group}/members`, { members: [owner.id] }, stranger.token)).toBe(403)
    await assign(group, 'things', [own])
    expect(await status('DELETE', `/groups/${group}/members`, { type: 'users', members: [own] })).toBe(400)
    expect(await status('DELETE', `/groups/${group}/members`, { type: 'things', members: [own, absentId] })).toBe(204)
  })

  test('members are listed by id; emails to who controls the group, and things whole to who may read them', async () => {
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

  describe('rights on a group', () => {
    const asked: [string, string, object?][] = [
      ['GET', ''],
      ['GET', '/members'],
      ['GET', '/children'],
      ['PUT', '', { name: 'group' }],
      ['POST', '/members', { type: 'users', members: [absentId] }],
      ['DELETE', '/members', { members: [absentId] }],
      ['DELETE', ''],
    ]
    test.each(asked)('%s /groups/<group>%s', async (method, suffix, body) => {
      const group = await makeGroup()
      await assign(group, 'users', [member.id])
      const at = (id: string, by: string) => status(method, `/groups/${id}${suffix}`, body, by)
      const isRead = method === 'GET'
      expect(await at(group, stranger.token)).toBe(403)
      expect(await at(absentId, stranger.token)).toBe(403)
      expect(await at(absentId, administrator)).toBe(404)
      expect(await at(group, member.token)).toBe(isRead ? 200 : 403)
      expect(await at('no-id', owner.token)).toBe(400)
      // An absent user is refused as what is not theirs.
      expect(await at(group, owner.token)).toBe(method === 'POST' ? 403 : method === 'DELETE' ? 204 : 200)
      await assign(group, 'users', [member.id])
      await ask('DELETE', `/groups/${group}/members`, { members: [member.id] })
      expect(await at(group, member.token)).toBe(403)
    })
  })

  test('clients send members with a form’s content type, or none', async () => {
    const group = await makeGroup()
    for (const method of ['POST', 'DELETE']) {
      const headers = { authorization: owner.token, 'content-type': 'application/x-www-form-urlencoded' }
      const body = JSON.stringify({ type: 'users', members: [member.id] })
      expect((await fetch(`${platform().url}/groups/${group}/members`, { method, headers, body })).ok).toBe(true)
    }
  })
})
