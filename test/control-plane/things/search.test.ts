// POST /things/search: by name and metadata, in the requested order, whatever the body's content type. And the filters that all lists share.

import { beforeAll, describe, expect, test } from 'vitest'
import { type Answer, call } from '../../up/operator.ts'
import { describePlatform, type User } from '../platform.ts'

const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/)

describePlatform('search of things', platform => {
  const create = (user: User, body: object[]): Promise<Answer> =>
    call(platform().url, 'POST', '/things/bulk', { authorization: user.token, body })
  const search = (user: User, body?: object): Promise<Answer> =>
    call(platform().url, 'POST', '/things/search', { authorization: user.token, ...(body === undefined ? {} : { body }) })

  test.each<[string, string | undefined]>([
    ['as JSON', 'application/json'],
    ['as a form, like curl', 'application/x-www-form-urlencoded'],
    ['as nothing', undefined],
  ])('a search sent %s finds by name and metadata, in the requested order', async (_name, type) => {
    const user = await platform().user()
    const items = [
      { name: 'Pump', metadata: { at: { roof: 1 } } },
      { name: 'a pump', metadata: { at: { roof: 1 }, b: 2 } },
      { name: 'pumps' },
    ]
    await create(user, items)
    const body = JSON.stringify({ name: 'pump', metadata: { at: { roof: 1 } }, order: 'name', dir: 'desc', limit: 1, unknown: true })
    const headers = { authorization: user.token, ...(type === undefined ? {} : { 'content-type': type }) }
    // For bytes, fetch sets no content type.
    const response = await fetch(`${platform().url}/things/search`, { method: 'POST', headers, body: Buffer.from(body) })
    expect([response.status, await response.json()]).toEqual([
      200,
      { total: 2, offset: 0, limit: 1, order: 'name', direction: 'desc', things: [{ id: uuid, key: uuid, ...items[1] }] },
    ])
  })

  test('a search without a body, or with an empty one, lists all of one owner', async () => {
    const user = await platform().user()
    await create(user, [{ name: 'one' }, { name: 'two' }])
    for (const body of [undefined, {}]) {
      const answer = await search(user, body)
      expect(answer.json).toMatchObject({ total: 2, offset: 0, limit: 10, order: '', direction: 'asc' })
    }
    expect((await search(await platform().user(), {})).json?.total).toBe(0)
  })

  test('an external id finds the things of its mapping and of its configuration, and no others', async () => {
    const user = await platform().user()
    const ask = (path: string, body: object): Promise<Answer> => call(platform().url, 'POST', path, { authorization: user.token, body })
    const [one, other] = (await create(user, [{ name: 'one' }, { name: 'other' }])).json!['things'] as [{ id: string }, { id: string }]
    await ask('/things/configs', { thing_id: one.id, external_id: 'é/1', external_key: 'external key' })
    const { things } = (await ask('/mapping', { external_id: 'gateway', external_key: 'external key' })).json as {
      things: { id: string }[]
    }
    const found = async (externalId: string): Promise<unknown> => {
      const body = await search(user, { external_id: externalId, order: 'id' })
      const path = `/things?order=id&external_id=${encodeURIComponent(externalId)}`
      const query = await call(platform().url, 'GET', path, { authorization: user.token })
      expect(query.json).toEqual(body.json)
      return (body.json!['things'] as { id: string }[]).map(({ id }) => id)
    }
    expect(await found('é/1')).toEqual([one.id])
    expect(await found('gateway')).toEqual(things.map(({ id }) => id))
    for (const unknown of ['gate', 'GATEWAY', one.id, 'x'.repeat(1_000)]) expect([unknown, await found(unknown)]).toEqual([unknown, []])
    expect(await found('')).toEqual([one, other, ...things].map(({ id }) => id).sort())
    expect((await search(user, { external_id: 'gateway', name: 'one' })).json).toMatchObject({ total: 0 })
  })

  test.each([
    { limit: 101 },
    { limit: '5' },
    { offset: -1 },
    { order: 'key' },
    { dir: 'up' },
    { metadata: [] },
    { name: 1 },
    { external_id: 1 },
    { metadata: { a: '\0' } },
  ])('a search with %o is malformed', async body => {
    expect((await search(await platform().user(), body)).status).toBe(400)
  })

  const elements = (count: number) => ({ a: { b: [Array.from({ length: count - 1 }, (_, nth) => nth)] } })
  test.each([
    ['16 array elements', elements(16), 200],
    ['17 array elements', elements(17), 422],
    ['4,096 bytes', { a: 'x'.repeat(4_096 - 8) }, 200],
    ['4,097 bytes', { a: 'x'.repeat(4_097 - 8) }, 422],
  ])('a metadata filter of %s is compared if that is fast, in every list', async (_name, metadata, status) => {
    const user = await platform().user()
    const query = `metadata=${encodeURIComponent(JSON.stringify(metadata))}`
    const answers = [await search(user, { metadata })]
    for (const path of ['things', 'channels', 'groups'])
      answers.push(await call(platform().url, 'GET', `/${path}?${query}`, { authorization: user.token }))
    expect(answers.map(answer => answer.status)).toEqual(answers.map(() => status))
    if (status === 422) expect(answers[0]!.json).toMatchObject({ code: 'query_too_large', errors: [{ pointer: '/body/metadata' }] })
    // Stored metadata may be larger.
    expect((await create(user, [{ metadata }])).status).toBe(201)
  })

  describe('a name filter of every list', () => {
    const names = [
      'ΟΔΟΣΑ 7',
      'οδος',
      'Straße',
      'Hauptstrasse',
      'STRAẞE',
      'Caf\u00e9',
      'Cafe\u0301',
      'IZMIR',
      'ızmır',
      'İzmir',
      'ﬁlter',
      '100% a_b',
    ]
    const lists = ['/things', '/channels', '/groups', '/things/configs']
    let user: User
    const ask = (method: string, path: string, body?: object): Promise<Answer> =>
      call(platform().url, method, path, { authorization: user.token, ...(body === undefined ? {} : { body }) })
    beforeAll(async () => {
      user = await platform().user()
      const entities = names.map(name => ({ name }))
      for (const path of ['/things/bulk', '/channels/bulk']) await ask('POST', path, entities)
      for (const entity of entities) await ask('POST', '/groups', entity)
      const { things } = (await search(user, { limit: 100 })).json as { things: { id: string; name: string }[] }
      for (const { id, name } of things)
        await ask('POST', '/things/configs', { thing_id: id, name, external_id: `named ${id}`, external_key: 'external key' })
    })
    const found = ({ json }: Answer) =>
      (Object.values(json!).find(value => Array.isArray(value)) as { name: string }[]).map(({ name }) => name)

    test.each([
      ['ΟΔΟΣ', ['ΟΔΟΣΑ 7', 'οδος']],
      ['οδος', ['ΟΔΟΣΑ 7', 'οδος']],
      ['οδοσα', ['ΟΔΟΣΑ 7']],
      ['strasse', ['Straße', 'Hauptstrasse', 'STRAẞE']],
      ['STRASSE', ['Straße', 'Hauptstrasse', 'STRAẞE']],
      ['straße', ['Straße', 'Hauptstrasse', 'STRAẞE']],
      ['STRAẞE', ['Straße', 'Hauptstrasse', 'STRAẞE']],
      ['CAF\u00c9', ['Caf\u00e9', 'Cafe\u0301']],
      ['cafe\u0301', ['Caf\u00e9', 'Cafe\u0301']],
      ['cafe', []],
      ['izmir', ['IZMIR', 'ızmır']],
      ['İZMIR', ['İzmir']],
      ['i\u0307zmir', ['İzmir']],
      ['FILTER', ['ﬁlter']],
      ['%', ['100% a_b']],
      ['_', ['100% a_b']],
      ['\\', []],
    ])('by %s finds what Unicode case folding says', async (name, expected) => {
      const answers = await Promise.all(lists.map(path => ask('GET', `${path}?limit=100&name=${encodeURIComponent(name)}`)))
      answers.push(await search(user, { name, limit: 100 }))
      expect(answers.map(found)).toEqual(answers.map(() => expected))
    })

    test('is the same on each page', async () => {
      for (const path of lists) {
        const pages = await Promise.all([0, 1, 2, 3].map(offset => ask('GET', `${path}?limit=1&offset=${offset}&name=STRASSE`)))
        expect(pages.map(found)).toEqual([['Straße'], ['Hauptstrasse'], ['STRAẞE'], []])
        expect(pages.map(({ json }) => json!['total'])).toEqual([3, 3, 3, 3])
      }
    })

    test('finds a name of 1,024 bytes that is three times as long when it is folded', async () => {
      const name = '\u{1d160}'.repeat(256)
      for (const path of ['/things', '/channels']) {
        expect((await ask('POST', path, { name })).status).toBe(201)
        expect(found(await ask('GET', `${path}?name=${encodeURIComponent(name)}`))).toEqual([name])
      }
    })
  })
})
