// Channels over HTTP: created by every user, listed only to their owner.

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call, makeSite } from '../../up/operator.ts'
import { describePlatform, type User } from '../platform.ts'

const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/)

describePlatform('channels', platform => {
  let owner: User
  beforeAll(async () => {
    owner = await platform().user()
  })
  const create = (body: object | string, authorization = owner.token): Promise<Answer> =>
    call(platform().url, 'POST', '/channels/bulk', { authorization, body })
  const list = (query: string, authorization = owner.token): Promise<Answer> =>
    call(platform().url, 'GET', `/channels${query}`, { authorization })

  test('POST /channels returns the Location of the channel with an empty body, and says what replaces the route', async () => {
    const answer = await call(platform().url, 'POST', '/channels', {
      authorization: owner.token,
      body: { name: 'single', metadata: { type: 'data' } },
    })
    expect([answer.status, answer.text]).toEqual([201, ''])
    expect(answer.headers.get('location')).toMatch(/^\/channels\/[0-9a-f-]{36}$/)
    expect(answer.headers.get('deprecation')).toMatch(/^@\d+$/)
    expect(answer.headers.get('link')).toBe('</channels/bulk>; rel="successor-version"')
  })

  test('POST /channels/bulk returns id and name of each, in order, and exposes Location', async () => {
    const answer = await create([{ name: 'one', metadata: { type: 'control' } }, { name: 'two' }])
    expect(answer.status).toBe(201)
    expect(answer.headers.get('access-control-expose-headers')).toBe('Location')
    expect(answer.json).toEqual({
      channels: [
        { id: uuid, name: 'one', metadata: { type: 'control' } },
        { id: uuid, name: 'two' },
      ],
    })
  })

  test.each<[string, object]>([
    ['a name of the wrong type', { name: true }],
    ['a name of 1,025 bytes', { name: 'x'.repeat(1025) }],
    ['metadata of the wrong type', { name: 'x', metadata: 'data' }],
    ['metadata of 17 levels', { name: 'x', metadata: JSON.parse(`${'{"a":'.repeat(17)}1${'}'.repeat(17)}`) }],
  ])('a bulk with %s creates none', async (_name, bad) => {
    const user = await platform().user()
    expect((await create([{ name: 'good' }, bad], user.token)).status).toBe(400)
    expect((await list('', user.token)).json?.total).toBe(0)
  })

  test('a thousand and one channels are refused', async () => {
    expect((await create(Array.from({ length: 1001 }, () => ({ name: 'x' })))).status).toBe(400)
  })

  test.each<[string, number, string, string?]>([
    ['malformed JSON', 400, '[{'],
    ['a body of 2 MiB', 413, 'x'.repeat(2 * 1024 * 1024)],
    ['a text', 415, 'hello', 'text/plain'],
  ])('%s is answered %i', async (_name, status, body, type = 'application/json') => {
    expect((await call(platform().url, 'POST', '/channels/bulk', { authorization: owner.token, type, body })).status).toBe(status)
  })

  test("a list contains the caller's own channels in the order of creation, with the total, and no others", async () => {
    const user = await platform().user()
    await create(
      Array.from({ length: 12 }, (_, index) => ({ name: `c${index}` })),
      user.token,
    )
    const answer = await list('?offset=10', user.token)
    expect(answer.json).toEqual({
      total: 12,
      offset: 10,
      limit: 10,
      order: '',
      direction: 'asc',
      channels: [
        { id: uuid, name: 'c10' },
        { id: uuid, name: 'c11' },
      ],
    })
    expect((await list('?offset=12', user.token)).json).toMatchObject({ total: 12, offset: 12, limit: 10, channels: [] })
    expect((await list('', await platform().administrator())).json?.total).toBe(0)
  })

  test.each(['limit=-1', 'limit=0', 'limit=101', 'limit=abc', 'limit=1&limit=2', 'offset=-1'])(
    'a list with %s is malformed',
    async query => {
      expect((await list(`?${query}`)).status).toBe(400)
    },
  )

  test.each([
    ['POST', '/channels'],
    ['POST', '/channels/bulk'],
    ['GET', '/channels'],
  ])('%s %s needs a token', async (method, path) => {
    expect((await call(platform().url, method, path, method === 'POST' ? { body: '{' } : {})).status).toBe(401)
  })

  const change = (method: string, path: string, body?: object, { authorization = owner.token, ...headers }: Record<string, string> = {}) =>
    call(platform().url, method, path, { authorization, headers, ...(body === undefined ? {} : { body }) })
  const make = async (name: string): Promise<string> => ((await create([{ name }])).json!['channels'] as { id: string }[])[0]!.id

  test('a list is filtered by a part of the name and of the metadata, and ordered by name', async () => {
    const user = await platform().user()
    await create([{ name: 'North', metadata: { type: 'data' } }, { name: 'south' }, { name: 'northwest' }], user.token)
    const names = async (query: string): Promise<unknown> =>
      ((await list(query, user.token)).json!['channels'] as { name: string }[]).map(({ name }) => name)
    expect(await names('?name=NORTH')).toEqual(['North', 'northwest'])
    expect(await names('?metadata=%7B%22type%22%3A%22data%22%7D')).toEqual(['North'])
    expect(await names('?name=&order=name&dir=desc')).toEqual(['south', 'northwest', 'North'])
  })

  test('the owner views a channel, and replaces it under the version that was read', async () => {
    const path = `/channels/${await make('before')}`
    const eTag = (await change('GET', path)).headers.get('etag')!
    expect((await change('PUT', path, { name: 'after', metadata: { type: 'data' } }, { 'if-match': eTag })).status).toBe(200)
    const seen = await change('GET', path)
    expect(seen.json).toEqual({ id: path.replace('/channels/', ''), name: 'after', metadata: { type: 'data' } })
    expect((await change('PUT', path, { name: 'late' }, { 'if-match': eTag })).status).toBe(412)
    expect((await change('DELETE', path, undefined, { 'if-match': eTag })).status).toBe(412)
    expect((await change('DELETE', path, undefined, { 'if-match': seen.headers.get('etag')! })).status).toBe(204)
    expect((await change('GET', path)).status).toBe(403)
  })

  test('a deleted channel is refused to its things immediately', async () => {
    const site = await makeSite(platform().url)
    const access = async (): Promise<unknown> =>
      platform().plane.access.authorize({
        credential: { scheme: 'Thing', secret: site.device.replace('Thing ', '') },
        channel: site.channel,
        action: 'publish',
      })
    expect(await access()).toMatchObject({ allowed: true })
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(told => ended.push(told))
    expect((await change('DELETE', `/channels/${site.channel}`, undefined, { authorization: site.owner })).status).toBe(204)
    forget()
    expect(ended).toEqual([{ kind: 'channel', channel: site.channel }])
    expect(await access()).toMatchObject({ allowed: false, reason: 'forbidden', publisher: site.thing })
  })
})
