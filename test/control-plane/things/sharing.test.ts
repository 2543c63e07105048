// Sharing a thing with users: who may give and remove which rights, all or none.

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

describePlatform('sharing', platform => {
  let owner: User
  let friend: User
  let other: User
  beforeAll(async () => {
    owner = await platform().user()
    friend = await platform().user()
    other = await platform().user()
  })
  const ask = (method: string, path: string, body?: object, by = owner): Promise<Answer> =>
    call(platform().url, method, path, { authorization: by.token, ...(body === undefined ? {} : { body }) })
  async function makeThing(): Promise<string> {
    const answer = await ask('POST', '/things/bulk', [{ name: 'thing' }])
    return (answer.json!['things'] as { id: string }[])[0]!.id
  }
  const share = (method: 'POST' | 'DELETE', thing: string, users: string[], policies: string[], by = owner) =>
    ask(method, `/things/${thing}/share`, { user_ids: users, policies }, by)
  const sees = async (thing: string, by: User): Promise<number> => (await ask('GET', `/things/${thing}`, undefined, by)).status

  test('each right allows what it names and nothing else', async () => {
    for (const [right, opened] of Object.entries({ read: [200, 403, 403], write: [403, 200, 403], delete: [403, 403, 204] })) {
      const thing = await makeThing()
      expect((await share('POST', thing, [friend.id], [right])).status).toBe(200)
      const statuses = [
        await sees(thing, friend),
        (await ask('PUT', `/things/${thing}`, { name: 'x' }, friend)).status,
        (await ask('DELETE', `/things/${thing}`, undefined, friend)).status,
      ]
      expect(statuses, right).toEqual(opened)
    }
  })

  test('shared=true also lists what a user may read of others, however they got the right, until it is removed', async () => {
    const [reader, group] = [await platform().user(), (await ask('POST', '/groups', { name: 'g' })).headers.get('location')!]
    const [own] = (await ask('POST', '/things/bulk', [{ name: 'own' }], reader)).json!['things'] as [{ id: string }]
    const [direct, throughGroup, written] = [await makeThing(), await makeThing(), await makeThing()]
    await share('POST', direct, [reader.id], ['read'])
    await share('POST', written, [reader.id], ['write'])
    await ask('POST', `${group}/members`, { type: 'things', members: [throughGroup] })
    const userGroup = (await ask('POST', '/groups', { name: 'u' })).headers.get('location')!
    await ask('POST', `${userGroup}/members`, { type: 'users', members: [reader.id] })
    await ask('POST', `${userGroup}/share`, { thing_group_id: group.replace('/groups/', '') })
    const listed = async (query: string): Promise<{ total: unknown; ids: string[] }> => {
      const { json } = await ask('GET', `/things?${query}`, undefined, reader)
      return { total: json!['total'], ids: (json!['things'] as { id: string }[]).map(({ id }) => id).toSorted() }
    }
    expect(await listed('shared=true')).toEqual({ total: 3, ids: [own.id, direct, throughGroup].toSorted() })
    expect(await listed('shared=true&name=OWN')).toEqual({ total: 1, ids: [own.id] })
    expect(await listed('shared=true&limit=1&offset=2')).toMatchObject({ total: 3, ids: [expect.any(String)] })
    expect(await listed('shared=false')).toEqual({ total: 1, ids: [own.id] })
    expect(await listed('')).toEqual({ total: 1, ids: [own.id] })
    await share('DELETE', direct, [reader.id], ['read'])
    await ask('DELETE', `${userGroup}/members`, { type: 'users', members: [reader.id] })
    expect(await listed('shared=true')).toEqual({ total: 1, ids: [own.id] })
  })

  test('a user who does not own the thing can give and remove only rights that they have, and never those of the owner', async () => {
    const thing = await makeThing()
    expect((await share('POST', thing, [friend.id], ['read'])).status).toBe(200)
    expect((await share('POST', thing, [other.id], ['read'], friend)).status).toBe(403)
    expect((await share('POST', thing, [friend.id], ['write'])).status).toBe(200)
    expect((await share('POST', thing, [other.id], ['read', 'delete'], friend)).status).toBe(403)
    expect(await sees(thing, other)).toBe(403)
    expect((await share('POST', thing, [other.id], ['read'], friend)).status).toBe(200)
    expect(await sees(thing, other)).toBe(200)
    expect((await share('DELETE', thing, [other.id, owner.id], ['read'], friend)).status).toBe(409)
    expect(await sees(thing, other)).toBe(200)
    expect((await share('DELETE', thing, [other.id], ['read'], friend)).status).toBe(204)
    expect(await sees(thing, other)).toBe(403)
    expect((await share('DELETE', thing, [owner.id], ['read'])).status).toBe(409)
  })

  test('who may read a thing sees its key, and its owner can end the share and replace the key in one step', async () => {
    const thing = await makeThing()
    await share('POST', thing, [friend.id], ['read', 'write'])
    const key = (await ask('GET', `/things/${thing}`, undefined, friend)).json!['key'] as string
    const answerTo = async (secret: string) =>
      platform().plane.access.authorize({ credential: { scheme: 'Thing', secret }, channel: absentId, action: 'publish' })
    const end = (right: string, query: string, by = owner): Promise<Answer> =>
      ask('DELETE', `/things/${thing}/share${query}`, { user_ids: [friend.id], policies: [right] }, by)

    expect((await end('read', '?rotate_key=true', friend)).status).toBe(403)
    expect(await sees(thing, friend)).toBe(200)
    for (const query of ['', '?rotate_key=false']) expect((await end('write', query)).status).toBe(204)
    expect(await answerTo(key)).toMatchObject({ reason: 'forbidden', publisher: thing })
    const { status, headers } = await end('read', '?rotate_key=true')
    expect([status, await sees(thing, friend)]).toEqual([204, 403])
    expect(await answerTo(key)).toEqual({ allowed: false, reason: 'unauthenticated' })
    const replaced = (await ask('GET', `/things/${thing}`)).json!['key'] as string
    expect(await answerTo(replaced)).toMatchObject({ reason: 'forbidden', publisher: thing })

    const authorization = await platform().administrator()
    const { json } = await call(platform().url, 'GET', `/audit?object=${thing}`, { authorization })
    const lines = json!['entries'] as { action: string; objects: string[]; relations: string[]; request_id: string }[]
    const shared = lines.find(({ action }) => action === 'thing.share')!
    expect([shared.objects, shared.relations.toSorted()]).toEqual([
      [thing, friend.id],
      ['read', 'write'],
    ])
    const requestLines = lines.filter(({ request_id: request }) => request === headers.get('x-request-id'))
    expect(requestLines.map(({ action }) => action).toSorted()).toEqual(['thing.rotate-key', 'thing.unshare'])
  })

  test("with one absent user no rights are given; another owner's thing and an absent one are the same 403", async () => {
    const thing = await makeThing()
    const refused = [
      await share('POST', thing, [friend.id, absentId], ['read']),
      await share('POST', thing, [other.id], ['read'], friend),
      await share('POST', absentId, [other.id], ['read']),
      await share('DELETE', thing, [other.id], ['read'], friend),
    ]
    for (const { status, json } of refused) expect([status, json?.error]).toEqual([403, 'failed to perform authorization over the entity'])
    expect(await sees(thing, friend)).toBe(403)
  })

  test.each([
    ['no user', [], ['read']],
    ['no right', [absentId], []],
    ['another relation', [absentId], ['member']],
    ['no id', ['me'], ['read']],
  ])('with %s it is malformed', async (_name, users, policies) => {
    expect((await share('POST', await makeThing(), users, policies)).status).toBe(400)
  })
})
