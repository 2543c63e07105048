// Things over HTTP: who may create, list and view them, and what is refused.

import { beforeAll, expect, test } from 'vitest'
import type { UserId } from '../../../control-plane/ids.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { takeFaults } from '../../described-answers/faults.ts'
import { type Answer, call } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

interface Thing {
  id: string
  name: string
  key: string
  metadata?: object
}

const uuid = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
const thingsOf = (answer: Answer): Thing[] => answer.json?.things as Thing[]

describePlatform('things', platform => {
  let owner: User
  beforeAll(async () => {
    owner = await platform().user()
  })
  const create = (things: unknown, authorization = owner.token): Promise<Answer> =>
    call(platform().url, 'POST', '/things/bulk', { authorization, body: typeof things === 'string' ? things : JSON.stringify(things) })
  const get = (path: string, authorization = owner.token): Promise<Answer> => call(platform().url, 'GET', path, { authorization })

  test('answers with keys must not be cached', async () => {
    const created = await create([{ name: 'cached' }])
    const answers = [created, await get('/things'), await get(`/things/${thingsOf(created)[0]!.id}`)]
    expect(answers.map(({ headers }) => headers.get('cache-control'))).toEqual(['no-store', 'no-store', 'no-store'])
  })

  test('POST /things returns the Location of the thing with an empty body, and says what replaces the route', async () => {
    const answer = await call(platform().url, 'POST', '/things', { authorization: owner.token, body: { name: 'single' } })
    expect([answer.status, answer.text]).toEqual([201, ''])
    expect(answer.headers.get('deprecation')).toMatch(/^@\d+$/)
    expect(answer.headers.get('link')).toBe('</things/bulk>; rel="successor-version"')
    const seen = await get(answer.headers.get('location')!)
    expect(seen.json).toEqual({ id: uuid, name: 'single', key: uuid })
  })

  test('a refusal of a deprecated endpoint says what replaces it too', async () => {
    const answer = await call(platform().url, 'POST', '/things', { authorization: owner.token, body: { name: 1 } })
    expect([answer.status, answer.headers.has('deprecation')]).toEqual([400, true])
  })

  test('POST /things/bulk returns id, name and key of each, in order, and exposes Location', async () => {
    const answer = await create([{ name: 'one', metadata: { a: 1 } }, { name: 'two' }])
    expect(answer.status).toBe(201)
    expect(answer.headers.get('access-control-expose-headers')).toBe('Location')
    expect(answer.headers.has('deprecation')).toBe(false)
    expect(answer.json).toEqual({
      things: [
        { id: uuid, name: 'one', key: uuid, metadata: { a: 1 } },
        { id: uuid, name: 'two', key: uuid },
      ],
    })
    const [one, two] = thingsOf(answer)
    expect(new Set([one!.id, one!.key, two!.id, two!.key]).size).toBe(4)
  })

  test('their creator has read, write and delete on each thing (SPEC §5, rule 3)', async () => {
    const [thing] = thingsOf(await create([{ name: 'granted' }]))
    const policies = await openRelationalPolicies(platform().database).list({ object: thing!.id as never })
    expect(new Set(policies)).toEqual(
      new Set(['read', 'write', 'delete'].map(relation => ({ subject: owner.id, relation, object: thing!.id }))),
    )
  })

  test('a thousand things can be created in one request, and a thousand and one are refused', async () => {
    const many = Array.from({ length: 1000 }, (_, index) => ({ name: `many ${index}` }))
    const user = await platform().user()
    const answer = await create(many, user.token)
    expect(thingsOf(answer).map(({ name }) => name)).toEqual(many.map(({ name }) => name))
    expect((await create([...many, { name: 'one more' }], user.token)).status).toBe(400)
    expect((await get('/things', user.token)).json?.total).toBe(1000)
  })

  test('a user who is not a member of users cannot create things', async () => {
    const user = await platform().user()
    const policies = openRelationalPolicies(platform().database)
    await policies.transaction((_, policyWriter) =>
      policyWriter.remove([{ subject: user.id as UserId, relation: 'member', object: 'users' }]),
    )
    const answers = [
      await create([{ name: 'no' }], user.token),
      await call(platform().url, 'POST', '/things', { authorization: user.token, body: { name: 'no' } }),
    ]
    for (const answer of answers) {
      expect(answer.status).toBe(403)
      expect(answer.json).toMatchObject({ error: 'failed to perform authorization over the entity', code: 'forbidden' })
    }
    expect((await get('/things', user.token)).json?.total).toBe(0)
  })

  test.each<[string, unknown, string]>([
    ['a name of the wrong type', { name: 5 }, '/body/1/name'],
    ['a name of 1,025 bytes', { name: `${'é'.repeat(512)}x` }, '/body/1/name'],
    ['a name with NUL', { name: 'a\0b' }, '/body/1/name'],
    ['metadata that is a list', { name: 'x', metadata: [] }, '/body/1/metadata'],
    ['metadata that is null', { name: 'x', metadata: null }, '/body/1/metadata'],
    ['metadata that is a text', { name: 'x', metadata: '{}' }, '/body/1/metadata'],
    [
      'metadata of 17 levels',
      { name: 'x', metadata: JSON.parse(`${'{"a":'.repeat(17)}1${'}'.repeat(17)}`) },
      `/body/1/metadata${'/a'.repeat(16)}`,
    ],
    ['metadata of more than 64 KiB', { name: 'x', metadata: { a: 'x'.repeat(65_529) } }, '/body/1/metadata'],
    [
      'metadata whose numbers take more than 64 KiB written out',
      { name: 'x', metadata: { a: Array(300).fill(1e-300) } },
      '/body/1/metadata',
    ],
    ['metadata with NUL in a key', { name: 'x', metadata: { 'a\0': 1 } }, '/body/1/metadata/a\0'],
  ])('a bulk with %s creates none, and says where', async (_name, bad, pointer) => {
    const user = await platform().user()
    const answer = await create([{ name: 'good' }, bad, { name: 'also good' }], user.token)
    expect(answer.status).toBe(400)
    expect(answer.json?.errors).toEqual([{ pointer, detail: expect.any(String) }])
    expect((await get('/things', user.token)).json?.total).toBe(0)
  })

  test.each(['12345678901234567891', '-9007199254740993', '1e300'])(
    'the number %s, of which not every digit could be kept, is refused with its place',
    async number => {
      const answer = await create(`[{"name":"x"},{"name":"y","metadata":{"box":[0,{"a/b":${number}}]}}]`)
      expect(answer.status).toBe(400)
      expect(answer.json?.errors).toEqual([
        { pointer: '/body/1/metadata/box/1/a~1b', detail: expect.stringMatching(/beyond 9007199254740991.*as a string/) },
      ])
      const filtered = await get(`/things?metadata=${encodeURIComponent(`{"serial":${number}}`)}`)
      expect(filtered.json?.errors).toEqual([{ pointer: '/query/metadata/serial', detail: expect.any(String) }])
    },
  )

  test('a number too large for JSON readers is refused and not turned into null', async () => {
    const answer = await create('[{"name":"x","metadata":{"a":1e400}}]')
    expect([answer.status, answer.text.includes('too large to keep')]).toEqual([400, true])
  })

  test('a bulk that the database refuses creates none, and reveals nothing about the database', async () => {
    const user = await platform().user()
    await platform().database.execute(`ALTER TABLE control_plane.things ADD CONSTRAINT refuses CHECK (name <> 'refused')`)
    const answer = await create([{ name: 'good' }, { name: 'refused' }], user.token)
    await platform().database.execute('ALTER TABLE control_plane.things DROP CONSTRAINT refuses')
    expect([answer.status, takeFaults()]).toEqual([500, [expect.stringContaining('answers 500')]])
    expect(answer.text).not.toContain('refuses')
    expect((await get('/things', user.token)).json?.total).toBe(0)
    expect(await openRelationalPolicies(platform().database).list({ subject: user.id as UserId })).toHaveLength(1)
  })

  test('values at the limits are accepted, and returned unchanged', async () => {
    const metadata = {
      text: 'x'.repeat(65_000),
      '√ é "\\': [null, true, -0.5, 9_007_199_254_740_991, { '': {} }],
      deep: JSON.parse(`${'['.repeat(15)}${']'.repeat(15)}`),
    }
    const [thing] = thingsOf(await create([{ name: 'é'.repeat(512), metadata }]))
    expect((await get(`/things/${thing!.id}`)).json).toEqual({ ...thing, metadata })
  })

  test.each<[string, number, unknown, string?]>([
    ['malformed JSON', 400, '[{"name":'],
    ['an empty list', 400, []],
    ['an object', 400, { name: 'x' }],
    ['an empty body', 400, ''],
    ['a body of 2 MiB', 413, JSON.stringify([{ name: 'x'.repeat(2 * 1024 * 1024) }])],
    ['a text', 415, 'hello', 'text/plain'],
    ['a form', 415, 'name=x', 'application/x-www-form-urlencoded'],
  ])('%s is answered %i with a sentence', async (_name, status, body, type = 'application/json') => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const answer = await call(platform().url, 'POST', '/things/bulk', { authorization: owner.token, type, body: text })
    expect([answer.status, typeof answer.json?.detail]).toEqual([status, 'string'])
  })

  test.each([
    ['POST', '/things', '{"name":'],
    ['POST', '/things/bulk', 'x'.repeat(2 * 1024 * 1024)],
    ['GET', '/things?limit=abc', undefined],
    ['GET', '/things/no-id', undefined],
  ])('without a token, %s %s is 401 before anything else is checked', async (method, path, body) => {
    const answer = await call(platform().url, method, path, body === undefined ? {} : { body })
    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="sluice"')
  })

  test('a content type with parameters is JSON all the same', async () => {
    const answer = await call(platform().url, 'POST', '/things/bulk', {
      authorization: owner.token,
      type: 'application/json; charset=utf-8; v=1',
      body: '[{"name":"x"}]',
    })
    expect(answer.status).toBe(201)
  })

  test("a list contains the caller's own things in the order of creation, page by page, with the total", async () => {
    const user = await platform().user()
    await create(
      Array.from({ length: 12 }, (_, index) => ({ name: `t${index}` })),
      user.token,
    )
    await create([{ name: 't12', metadata: { a: 1 } }], user.token)
    const page = async (query: string): Promise<unknown[]> => {
      const { json } = await get(`/things${query}`, user.token)
      return [json?.total, json?.offset, json?.limit, (json!.things as Thing[]).map(({ name }) => name).join(' ')]
    }
    expect(await page('')).toEqual([13, 0, 10, 't0 t1 t2 t3 t4 t5 t6 t7 t8 t9'])
    expect(await page('?offset=10')).toEqual([13, 10, 10, 't10 t11 t12'])
    expect(await page('?offset=11&limit=1')).toEqual([13, 11, 1, 't11'])
    expect(await page('?limit=100')).toEqual([13, 0, 100, Array.from({ length: 13 }, (_, index) => `t${index}`).join(' ')])
    expect(await page('?offset=1000000')).toEqual([13, 1_000_000, 10, ''])
    const last = thingsOf(await get('/things?offset=12', user.token))[0]!
    expect(last).toEqual({ id: uuid, name: 't12', key: uuid, metadata: { a: 1 } })
  })

  test('a thing needs no name, and unknown properties are ignored: clients send more than is read', async () => {
    const answer = await create([{}, { name: '', id: absentId, key: 'k', meta: 1 }])
    expect(answer.status).toBe(201)
    expect(thingsOf(answer)).toEqual([
      { id: uuid, name: '', key: uuid },
      { id: uuid, name: '', key: uuid },
    ])
  })

  test('a name selects things with it in their names, case ignored; an empty one selects all', async () => {
    const user = await platform().user()
    await create([{ name: 'pump' }, { name: 'pump 2' }, { name: 'Ölpumpe' }, { name: 'a&b=% é' }], user.token)
    const names = async (name: string): Promise<string[]> =>
      thingsOf(await get(`/things?name=${encodeURIComponent(name)}`, user.token)).map(({ name }) => name)
    expect(await names('PUMP')).toEqual(['pump', 'pump 2', 'Ölpumpe'])
    expect(await names('ölp')).toEqual(['Ölpumpe'])
    expect(await names('%')).toEqual(['a&b=% é'])
    expect(await names('_')).toEqual([])
    expect(await names('')).toHaveLength(4)
    expect((await get('/things?name=pump&limit=1', user.token)).json?.total).toBe(3)
  })

  test('metadata selects things that contain it (SPEC §2)', async () => {
    const user = await platform().user()
    await create(
      [
        { name: 'a', metadata: { place: { room: 'attic', floor: 3 }, tags: ['x', 'y'] } },
        { name: 'b', metadata: { place: { room: 'attic' }, n: 1 } },
        { name: 'c' },
        { name: 'd', metadata: {} },
      ],
      user.token,
    )
    const names = async (filter: string): Promise<string> =>
      thingsOf(await get(`/things?metadata=${encodeURIComponent(filter)}`, user.token))
        .map(({ name }) => name)
        .join(' ')
    expect(await names('{"place":{"room":"attic"}}')).toBe('a b')
    expect(await names('{"place":{"floor":3}}')).toBe('a')
    expect(await names('{"tags":["y"]}')).toBe('a')
    expect(await names('{"n":"1"}')).toBe('')
    expect(await names('{}')).toBe('a b d')
    expect((await get(`/things?name=b&metadata=${encodeURIComponent('{"place":{}}')}`, user.token)).json?.total).toBe(1)
  })

  test('a key of metadata that is written with an escape is that key, whatever key came before', async () => {
    const user = await platform().user()
    const written = ['{"!":1,"\\\\":2}', '{"!":1,"\\"":2}']
    for (const metadata of written) await create(`[{"name":"escaped","metadata":${metadata}}]`, user.token)
    for (const metadata of written) {
      const { text, json } = await get(`/things?metadata=${encodeURIComponent(metadata)}`, user.token)
      expect(text).toContain(`"metadata":${metadata}}]}`)
      expect(json?.total).toBe(1)
    }
  })

  test.each([
    ['limit=-1', 'limit'],
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=abc', 'limit'],
    ['limit=', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=5&limit=6', 'limit'],
    ['offset=-1', 'offset'],
    ['offset=x', 'offset'],
    ['offset=99999999999999999999', 'offset'],
    ['name=a&name=b', 'name'],
    ['name=%00', 'name'],
    ['metadata=%7B', 'metadata'],
    ['metadata=%5B%5D', 'metadata'],
    ['metadata=null', 'metadata'],
    ['metadata=%7B%22a%22%3A%22%5Cu0000%22%7D', 'metadata/a'],
    ['metadata=%7B%22a%22%3A%22%5Cud800%22%7D', 'metadata/a'],
    ['unknown=1&unknown=2', 'unknown'],
  ])('a list with %s is malformed and names the parameter', async (query, parameter) => {
    const answer = await get(`/things?${query}`)
    expect(answer.status).toBe(400)
    expect(answer.json?.errors).toEqual([{ pointer: `/query/${parameter}`, detail: expect.any(String) }])
  })

  test('an unknown parameter is ignored', async () => {
    expect((await get('/things?unknown=1&limit=1')).status).toBe(200)
  })

  test('a user with read can view a thing, but it is not in their list', async () => {
    const [thing] = thingsOf(await create([{ name: 'shared' }]))
    const policies = openRelationalPolicies(platform().database)
    const user = await platform().user()
    await policies.transaction((_, policyWriter) =>
      policyWriter.add([{ subject: user.id as UserId, relation: 'read', object: thing!.id as never }]),
    )
    expect((await get(`/things/${thing!.id}`, user.token)).json).toEqual(thing)
    expect((await get('/things', user.token)).json?.total).toBe(0)
  })

  test('an id in upper case is the same id (RFC 9562 §4), and an invalid id is malformed', async () => {
    const [thing] = thingsOf(await create([{ name: 'id' }]))
    expect((await get(`/things/${thing!.id.toUpperCase()}`)).json).toEqual(thing)
    for (const id of ['x', `${thing!.id}0`, thing!.id.replaceAll('-', ''), `{${thing!.id}}`, '%00', '..%2F..']) {
      const answer = await get(`/things/${id}`)
      expect([id, answer.status, answer.json?.code]).toEqual([id, 400, 'malformed_request'])
    }
  })

  const make = async (user: User, ...names: string[]): Promise<Thing[]> =>
    thingsOf(
      await create(
        names.map(name => ({ name })),
        user.token,
      ),
    )

  test.each([
    ['', ['b', 'C', 'a']],
    ['order=name', ['C', 'a', 'b']],
    ['order=name&dir=desc', ['b', 'a', 'C']],
    ['dir=desc', ['a', 'C', 'b']],
    ['order=name&offset=1&limit=1', ['a']],
    ['order=&dir=&name=&metadata=', ['b', 'C', 'a']],
  ])('a list with %s has that order', async (query, names) => {
    const user = await platform().user()
    await make(user, 'b', 'C', 'a')
    const answer = await get(`/things?${query}`, user.token)
    expect(thingsOf(answer).map(({ name }) => name)).toEqual(names)
    const asked = new URLSearchParams(query)
    expect(answer.json).toMatchObject({ total: 3, order: asked.get('order') ?? '', direction: asked.get('dir') || 'asc' })
  })

  test('a list in the order of ids', async () => {
    const user = await platform().user()
    const ids = (await make(user, ...Array.from({ length: 5 }, () => 'x'))).map(({ id }) => id)
    expect(thingsOf(await get('/things?order=id', user.token)).map(({ id }) => id)).toEqual(ids.toSorted())
    expect(thingsOf(await get('/things?order=id&dir=desc', user.token)).map(({ id }) => id)).toEqual(ids.toSorted().toReversed())
  })

  test.each(['order=key', 'dir=up', 'metadata=%7B'])('a list with %s is malformed', async query => {
    expect((await get(`/things?${query}`)).status).toBe(400)
  })
})
