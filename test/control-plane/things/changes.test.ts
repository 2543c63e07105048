// Things changed over HTTP: updates, deletions and new keys, under the version that was read, and who may do them.

import { beforeAll, expect, test } from 'vitest'
import type { UserId } from '../../../control-plane/ids.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { type Answer, call, makeSite } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

interface Thing {
  id: string
  name: string
  key: string
  metadata?: object
}

describePlatform('changes of things', platform => {
  let owner: User
  let stranger: User
  beforeAll(async () => {
    owner = await platform().user()
    stranger = await platform().user()
  })
  const change = (method: string, path: string, body?: object, { authorization = owner.token, ...headers }: Record<string, string> = {}) =>
    call(platform().url, method, path, { authorization, headers, ...(body === undefined ? {} : { body }) })
  const get = (path: string, authorization = owner.token): Promise<Answer> => change('GET', path, undefined, { authorization })
  const thingsOf = (answer: Answer): Thing[] => answer.json?.things as Thing[]
  const create = async (...things: object[]): Promise<Thing[]> => thingsOf(await change('POST', '/things/bulk', things))

  test('an update replaces name and metadata completely, and increases the version', async () => {
    const [thing] = await create({ name: 'before', metadata: { a: 1 } })
    const path = `/things/${thing!.id}`
    const first = (await get(path)).headers.get('etag')!
    const changed = await change('PUT', path, { name: 'after', key: 'ignored', id: absentId })
    expect([changed.status, changed.text]).toEqual([200, ''])
    const seen = await get(path)
    expect(seen.json).toEqual({ id: thing!.id, name: 'after', key: thing!.key })
    expect(seen.headers.get('etag')).toBe(changed.headers.get('etag'))
    expect(seen.headers.get('etag')).not.toBe(first)
    expect(thingsOf(await get('/things?name=after'))).toHaveLength(1)
    expect((await change('PUT', path, { metadata: { b: 2 } })).status).toBe(200)
    expect((await get(path)).json).toEqual({ id: thing!.id, name: '', key: thing!.key, metadata: { b: 2 } })
  })

  test('a change of a thing that has changed since it was read is a 412, and changes nothing', async () => {
    const [thing] = await create({ name: 'contended' })
    const path = `/things/${thing!.id}`
    const eTag = (await get(path)).headers.get('etag')!
    const answers = await Promise.all(['one', 'two', 'three'].map(name => change('PUT', path, { name }, { 'if-match': eTag })))
    expect(answers.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([200, 412, 412])
    for (const tag of [eTag, `W/${eTag}`, 'garbage', '"9999999999"']) {
      const refused = [
        await change('PUT', path, { name: 'late' }, { 'if-match': tag }),
        await change('PATCH', `${path}/key`, {}, { 'if-match': tag }),
        await change('DELETE', path, undefined, { 'if-match': tag }),
      ]
      expect(refused.map(({ status }) => status)).toEqual([412, 412, 412])
    }
    const now = (await get(path)).headers.get('etag')!
    expect((await change('DELETE', path, undefined, { 'if-match': `"77", ${now}` })).status).toBe(204)
  })

  test('a deleted thing is gone with its policies and connections, for everyone', async () => {
    const site = await makeSite(platform().url)
    const path = `/things/${site.thing}`
    const access = (): Promise<{ allowed: boolean }> =>
      platform().plane.access.authorize({
        credential: { scheme: 'Thing', secret: site.device.replace('Thing ', '') },
        channel: site.channel,
        action: 'publish',
      })
    expect((await access()).allowed).toBe(true)
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(told => ended.push(told))
    expect((await change('DELETE', path, undefined, { authorization: site.owner })).status).toBe(204)
    forget()
    expect(ended).toEqual([{ kind: 'thing', thing: site.thing }])
    expect(await access()).toEqual({ allowed: false, reason: 'unauthenticated' })
    expect((await get(path, site.owner)).status).toBe(403)
    expect((await change('DELETE', path, undefined, { authorization: site.owner })).status).toBe(403)
    expect((await get(path, await platform().administrator())).status).toBe(404)
    expect(await openRelationalPolicies(platform().database).list({ object: site.thing as never })).toEqual([])
    expect(await platform().database.query('SELECT FROM control_plane.connections WHERE thing = $1', [site.thing])).toEqual([])
  })

  test('a replaced key ends immediately, or after the requested grace period; an older one ends with the next rotation', async () => {
    const site = await makeSite(platform().url)
    const path = `/things/${site.thing}/key`
    const authorize = (secret: string) =>
      platform().plane.access.authorize({ credential: { scheme: 'Thing', secret }, channel: site.channel, action: 'read' })
    const rotate = async (body?: object): Promise<string> => {
      const answer = await change('PATCH', path, body, { authorization: site.owner })
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'no-store'])
      return answer.json!['key'] as string
    }
    const first = site.device.replace('Thing ', '')
    const second = await rotate({ grace_seconds: 3600 })
    expect((await get(`/things/${site.thing}`, site.owner)).json?.['key']).toBe(second)
    expect(await authorize(second)).toEqual({ allowed: true, publisher: site.thing, owner: expect.any(String) })
    const leftMs = ((await authorize(first)) as { endsMs: number }).endsMs - Date.now()
    expect(leftMs).toBeGreaterThan(3_300_000)
    expect(leftMs).toBeLessThanOrEqual(3_600_000)
    const third = await rotate({ grace_seconds: 600 })
    expect((await authorize(first)).allowed).toBe(false)
    expect((await authorize(second)).allowed).toBe(true)
    const later = `UPDATE control_plane.things SET previous_key_ends_at = previous_key_ends_at - interval '601 seconds' WHERE id = $1`
    await platform().database.query(later, [site.thing])
    expect((await authorize(second)).allowed).toBe(false)
    const fourth = await rotate()
    expect((await authorize(third)).allowed).toBe(false)
    expect((await authorize(fourth)).allowed).toBe(true)
    expect((await change('PATCH', path, { grace_seconds: -1 }, { authorization: site.owner })).status).toBe(400)
  })

  test.each<[string, string, object?]>([
    ['PUT', '', { name: 'stolen' }],
    ['DELETE', ''],
    ['PATCH', '/key', {}],
  ])("%s of another user's thing and of an absent one is the same 403", async (method, suffix, body) => {
    const [thing] = await create({ name: 'mine' })
    const refused = [
      await change(method, `/things/${thing!.id}${suffix}`, body, { authorization: stranger.token }),
      await change(method, `/things/${absentId}${suffix}`, body, { authorization: stranger.token }),
      await change(method, `/things/${thing!.id}${suffix}`, body, { authorization: await platform().administrator() }),
    ]
    for (const { status, json } of refused) expect([status, json?.error]).toEqual([403, 'failed to perform authorization over the entity'])
    expect((await change(method, `/things/${absentId}${suffix}`, body, { authorization: await platform().administrator() })).status).toBe(
      404,
    )
    expect((await get(`/things/${thing!.id}`)).json).toEqual(thing)
  })

  test('a user with write can change a thing but not delete it or replace its key; a user with delete can delete it', async () => {
    const [thing] = await create({ name: 'shared' })
    const policies = openRelationalPolicies(platform().database)
    const grant = (relation: 'write' | 'delete') =>
      policies.transaction((_, policyWriter) =>
        policyWriter.add([{ subject: stranger.id as UserId, relation, object: thing!.id as never }]),
      )
    const as = { authorization: stranger.token }
    await grant('write')
    expect((await change('PUT', `/things/${thing!.id}`, { name: 'by a friend' }, as)).status).toBe(200)
    expect((await change('PATCH', `/things/${thing!.id}/key`, {}, as)).status).toBe(403)
    expect((await change('DELETE', `/things/${thing!.id}`, undefined, as)).status).toBe(403)
    await grant('delete')
    expect((await change('DELETE', `/things/${thing!.id}`, undefined, as)).status).toBe(204)
  })
})
