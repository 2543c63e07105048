// Bootstrap configurations over HTTP, for their owners: the bodies that older clients send and read, states, and who may do what.

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

describePlatform('bootstrap configurations', platform => {
  let user: User
  let stranger: User
  let administrator: string
  beforeAll(async () => {
    user = await platform().user()
    stranger = await platform().user()
    administrator = await platform().administrator()
  })
  const as =
    (authorization: string) =>
    (method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> =>
      call(platform().url, method, path, { authorization, headers, ...(body === undefined ? {} : { body }) })
  const ask = (...request: Parameters<ReturnType<typeof as>>) => as(user.token)(...request)
  async function channels(count: number): Promise<{ id: string; name: string }[]> {
    const body = Array.from({ length: count }, (_, nth) => ({ name: `channel ${nth}` }))
    return (await ask('POST', '/channels/bulk', body)).json!['channels'] as { id: string; name: string }[]
  }
  const idsOf = (entities: readonly { id: string }[]): string[] => entities.map(({ id }) => id)
  let serial = 0
  const external = () => ({ external_id: `config-${++serial}`, external_key: `external key ${serial}` })
  const thingOf = ({ headers }: Answer): string => headers.get('location')!.replace('/things/configs/', '')
  const create = async (body: object = {}): Promise<string> => thingOf(await ask('POST', '/things/configs', { ...external(), ...body }))
  const view = async (thing: string) => (await ask('GET', `/things/configs/${thing}`)).json!
  async function connected(thing: string): Promise<string[]> {
    const sql = 'SELECT channel FROM control_plane.connections WHERE thing = $1'
    return (await database().query<{ channel: string }>(sql, [thing])).map(({ channel }) => channel).sort()
  }
  const database = () => platform().database

  test('a configuration is created with a new thing, and shown under both names, without external key and certificates', async () => {
    const made = await channels(2)
    const body = { ...external(), channels: idsOf(made), name: 'Gateway', content: '{"a":1}' }
    const certificates = { client_cert: 'cert', client_key: 'private', ca_cert: 'ca' }
    const answer = await ask('POST', '/things/configs', { ...body, ...certificates })
    expect([answer.status, answer.text]).toEqual([201, ''])
    const thing = thingOf(answer)
    const shown = await ask('GET', `/things/configs/${thing}`)
    const { key, name } = (await ask('GET', `/things/${thing}`)).json as { key: string; name: string }
    expect(name).toBe('Gateway')
    expect([shown.headers.get('etag'), shown.headers.get('cache-control')]).toEqual(['"1"', 'no-store'])
    expect(shown.json).toEqual({
      thing_id: thing,
      thing_key: key,
      channels: body.channels,
      channel_details: made,
      mainflux_id: thing,
      mainflux_key: key,
      mainflux_channels: made,
      external_id: body.external_id,
      name: 'Gateway',
      content: '{"a":1}',
      state: 0,
      enabled: true,
    })
    expect(await connected(thing)).toEqual([])
  })

  test('an existing thing and an external id each get one configuration', async () => {
    const [thing] = (await ask('POST', '/things/bulk', [{ name: 'own' }])).json!['things'] as [{ id: string }]
    const body = external()
    expect(thingOf(await ask('POST', '/things/configs', { ...body, thing_id: thing.id.toUpperCase() }))).toBe(thing.id)
    for (const again of [{ ...external(), thing_id: thing.id }, body, { ...body, external_key: 'another external key' }])
      expect((await ask('POST', '/things/configs', again)).status).toBe(409)
    expect((await ask('POST', '/mapping', body)).status).toBe(409)
    expect((await as(stranger.token)('POST', '/things/configs', { ...body, external_key: 'of the stranger' })).status).toBe(201)
  })

  test('the external id and key of another owner are a conflict, counted as a failed fetch, and nothing is created', async () => {
    const body = external()
    await create(body)
    const total = async () => (await as(stranger.token)('GET', '/things')).json?.['total']
    const before = await total()
    const statuses: number[] = []
    for (let attempt = 0; attempt < 21; attempt++) statuses.push((await as(stranger.token)('POST', '/things/configs', body)).status)
    // Creations count too.
    expect(statuses).toEqual([...Array.from({ length: 19 }, () => 409), 429, 429])
    expect(await total()).toBe(before)
  })

  test('concurrent requests for one external id create one', async () => {
    const body = external()
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask('POST', '/things/configs', body)))
    expect(answers.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      201,
      ...Array.from({ length: 7 }, () => 409),
    ])
  })

  test.each<[string, object, string]>([
    ['no external id', { external_id: undefined }, '/body/external_id'],
    ['a short key', { external_key: 'short' }, '/body/external_key'],
    ['an invalid thing id', { thing_id: 'x' }, '/body/thing_id'],
    ['an invalid channel id', { channels: ['x'] }, '/body/channels/0'],
    ['content as an object', { content: {} }, '/body/content'],
    ['long content', { content: 'x'.repeat(65_537) }, '/body/content'],
    ['a long certificate', { client_cert: 'x'.repeat(65_537) }, '/body/client_cert'],
    ['a long name', { name: 'é'.repeat(513) }, '/body/name'],
  ])('%s is malformed, and says where', async (_name, wrong, pointer) => {
    const answer = await ask('POST', '/things/configs', { ...external(), ...wrong })
    expect([answer.status, answer.json?.['errors']]).toEqual([400, [{ pointer, detail: expect.any(String) }]])
  })

  test('state 1 connects the thing to the channels and 0, or no state, disconnects it; its other connections stay', async () => {
    const [a, b, other] = idsOf(await channels(3)) as [string, string, string]
    const thing = await create({ channels: [a, b] })
    await ask('POST', '/connect', { channel_ids: [other], thing_ids: [thing] })
    const set = (body: object) => ask('PUT', `/things/state/${thing}`, body)
    expect([(await set({ state: 1 })).status, await connected(thing), (await view(thing))['state']]).toEqual([200, [a, b, other].sort(), 1])
    await ask('DELETE', `/channels/${a}/things/${thing}`)
    await set({ state: 1 })
    expect(await connected(thing)).toEqual([a, b, other].sort())
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(change => ended.push(change))
    const answer = await set({})
    forget()
    expect([answer.status, answer.text, await connected(thing), (await view(thing))['state']]).toEqual([200, '', [other], 0])
    expect(ended).toHaveLength(2)
    expect((await set({ state: 2 })).status).toBe(400)
  })

  test('new channels replace the previous ones, and are connected only in state 1', async () => {
    const [a, b, c] = idsOf(await channels(3)) as [string, string, string]
    const thing = await create({ channels: [a, b] })
    const put = (ids: string[]) => ask('PUT', `/things/configs/connections/${thing}`, { channels: ids })
    expect([(await put([c, b, c])).status, await connected(thing), (await view(thing))['channels']]).toEqual([200, [], [c, b]])
    await ask('PUT', `/things/state/${thing}`, { state: 1 })
    await put([a, c])
    expect([await connected(thing), (await view(thing))['channels']]).toEqual([[a, c].sort(), [a, c]])
    await put([])
    expect([await connected(thing), (await view(thing))['channels']]).toEqual([[], []])
  })

  test('disabling disconnects the thing, enabling connects it as it was, and a state set meanwhile takes effect then', async () => {
    const [a, b] = idsOf(await channels(2)) as [string, string]
    const thing = await create({ channels: [a, b], name: 'kept', content: '{}' })
    const enable = (enabled: boolean) => ask('PUT', `/things/configs/${thing}`, { enabled })
    await ask('PUT', `/things/state/${thing}`, { state: 1 })
    expect((await enable(false)).status).toBe(200)
    expect([await connected(thing), await view(thing)]).toMatchObject([[], { enabled: false, state: 1, name: 'kept', content: '{}' }])
    await enable(true)
    expect(await connected(thing)).toEqual([a, b].sort())
    await ask('DELETE', `/channels/${a}/things/${thing}`)
    await enable(true)
    expect(await connected(thing)).toEqual([b])
    await enable(false)
    await ask('PUT', `/things/state/${thing}`, { state: 0 })
    await ask('PUT', `/things/state/${thing}`, { state: 1 })
    expect(await connected(thing)).toEqual([])
    await enable(true)
    expect(await connected(thing)).toEqual([a, b].sort())
  })

  test('disabling also disconnects a thing that was connected separately, and enabling connects it again, unless state 0 was requested meanwhile', async () => {
    const [channel] = idsOf(await channels(1)) as [string]
    const thing = await create({ channels: [channel] })
    await ask('PUT', `/channels/${channel}/things/${thing}`)
    expect(await connected(thing)).toEqual([channel])
    await ask('PUT', `/things/configs/${thing}`, { enabled: false })
    expect(await connected(thing)).toEqual([])
    await ask('PUT', `/things/configs/${thing}`, { enabled: true })
    expect(await connected(thing)).toEqual([channel])
    await ask('PUT', `/things/configs/${thing}`, { enabled: false })
    await ask('PUT', `/things/state/${thing}`, { state: 0 })
    await ask('PUT', `/things/configs/${thing}`, { enabled: true })
    expect(await connected(thing)).toEqual([])
  })

  test('a channel that is deleted is left out of it', async () => {
    const [a, b] = idsOf(await channels(2)) as [string, string]
    const thing = await create({ channels: [a, b] })
    await ask('DELETE', `/channels/${a}`)
    expect((await view(thing))['channels']).toEqual([b])
    expect((await ask('PUT', `/things/state/${thing}`, { state: 1 })).status).toBe(200)
    expect(await connected(thing)).toEqual([b])
  })

  test('name, content and certificates are changed separately; fields that are left out stay, and an empty text removes one', async () => {
    const thing = await create({ name: 'one', content: '{}', client_cert: 'c', ca_cert: 'a' })
    const put = (body: object) => ask('PUT', `/things/configs/${thing}`, body)
    const sdk = { mainflux_id: thing, mainflux_channels: [], external_id: 'ignored', state: 1, name: 'Two', content: '{"b":2}' }
    const answer = await put(sdk)
    expect([answer.status, answer.text, answer.headers.get('etag')]).toEqual([200, '', '"2"'])
    expect(await view(thing)).toMatchObject({ name: 'Two', content: '{"b":2}', state: 0, external_id: expect.stringMatching(/^config-/) })
    await put({ content: '' })
    expect([(await view(thing))['content'], (await view(thing))['name']]).toEqual([undefined, 'Two'])
    expect((await ask('PATCH', `/things/configs/certs/${thing}`, { client_cert: 'new', ca_cert: '' })).status).toBe(200)
    const [row] = await database().query('SELECT client_cert, ca_cert FROM control_plane.bootstrap_configs WHERE thing = $1', [thing])
    expect(row).toEqual({ client_cert: 'new', ca_cert: null })
  })

  test('a change of a configuration that has changed since it was read is a 412, and changes nothing', async () => {
    const thing = await create({ name: 'one' })
    const stale = { 'if-match': '"9"' }
    for (const [method, path, body] of [
      ['PUT', `/things/configs/${thing}`, { name: 'x' }],
      ['PATCH', `/things/configs/certs/${thing}`, { ca_cert: 'x' }],
      ['PUT', `/things/configs/connections/${thing}`, { channels: [] }],
      ['PUT', `/things/state/${thing}`, { state: 1 }],
      ['DELETE', `/things/configs/${thing}`],
    ] as const)
      expect([path, (await ask(method, path, body, stale)).status]).toEqual([path, 412])
    expect(await view(thing)).toMatchObject({ name: 'one', state: 0 })
    expect((await ask('PUT', `/things/configs/${thing}`, { name: 'x' }, { 'if-match': '"1"' })).status).toBe(200)
  })

  test('a deletion removes only the configuration', async () => {
    const [a] = idsOf(await channels(1)) as [string]
    const thing = await create({ channels: [a] })
    await ask('PUT', `/things/state/${thing}`, { state: 1 })
    const answer = await ask('DELETE', `/things/configs/${thing}`)
    expect([answer.status, answer.text, await connected(thing)]).toEqual([204, '', [a]])
    expect((await ask('GET', `/things/configs/${thing}`)).status).toBe(403)
    expect((await ask('DELETE', `/things/configs/${thing}`)).status).toBe(403)
  })

  test("a list contains the caller's own ones, filtered as requested, and no filter is in the log", async () => {
    const by = await platform().user()
    const made: string[] = []
    for (const name of ['Alpha', 'beta', 'ALPHABET'])
      made.push(thingOf(await as(by.token)('POST', '/things/configs', { ...external(), name })))
    await as(by.token)('PUT', `/things/state/${made[1]!}`, { state: 1 })
    const list = async (query: string) =>
      (await as(by.token)('GET', `/things/configs?${query}`)).json as { total: number; configs: object[] }
    const things = async (query: string) => (await list(query)).configs.map(config => (config as { thing_id: string }).thing_id)
    const page = await list('offset=1&limit=1')
    expect(page).toMatchObject({ total: 3, offset: 1, limit: 1, configs: [{ mainflux_id: made[1], state: 1 }] })
    const key = (page.configs[0] as { mainflux_key: string }).mainflux_key
    const id = (page.configs[0] as { external_id: string }).external_id
    expect(await things('')).toEqual(made)
    expect(await things('state=0&mainflux_id=')).toEqual([made[0], made[2]])
    expect(await things('name=alpha')).toEqual([made[0], made[2]])
    expect(await things(`mainflux_key=${key}`)).toEqual([made[1]])
    expect(await things('mainflux_key=unknown')).toEqual([])
    expect(await things(`external_id=${id}`)).toEqual([made[1]])
    expect(await things(`mainflux_id=${made[2]!.toUpperCase()}&state=0&name=BET`)).toEqual([made[2]])
    expect(platform().logged()).not.toContain(key)
    for (const query of ['mainflux_id=x', 'state=2', 'state=', 'limit=0', `mainflux_key=${key}&mainflux_key=x`]) {
      const refused = await as(by.token)('GET', `/things/configs?${query}`)
      expect([query, refused.status, refused.text.includes(key)]).toEqual([query, 400, false])
    }
    expect(platform().logged()).not.toContain(key)
    expect((await as(administrator)('GET', '/things/configs')).json?.['total']).toBe(0)
  })

  test("an absent one and another owner's look the same on every route, and an absent one is 404 for the administrator", async () => {
    const thing = await create({ name: 'mine' })
    const [channel] = idsOf(await channels(1))
    const routes = (of: string): [string, string, object?][] => [
      ['GET', `/things/configs/${of}`],
      ['PUT', `/things/configs/${of}`, { name: 'x', enabled: false }],
      ['PATCH', `/things/configs/certs/${of}`, { client_key: 'x' }],
      ['PUT', `/things/configs/connections/${of}`, { channels: [] }],
      ['PUT', `/things/state/${of}`, { state: 1 }],
      ['DELETE', `/things/configs/${of}`],
      ['POST', '/things/configs', { ...external(), thing_id: of }],
    ]
    for (const [method, path, body] of [...routes('nonsense').slice(0, -1), ['GET', '/things/configs'] as const]) {
      const { status, headers } = await call(platform().url, method, path, body === undefined ? {} : { body })
      expect([path, status, headers.get('www-authenticate')]).toEqual([path, 401, 'Bearer realm="sluice"'])
    }
    for (const [method, path, body] of routes('nonsense')) expect([path, (await ask(method, path, body)).status]).toEqual([path, 400])
    const answers = async (authorization: string, of: string): Promise<unknown[]> => {
      const all: unknown[] = []
      for (const [method, path, body] of routes(of)) {
        const { status, json } = await as(authorization)(method, path, body)
        all.push([method, path.replace(of, '<thing>'), status, { ...json, request_id: '' }])
      }
      return all
    }
    const foreign = await answers(stranger.token, thing)
    expect(await answers(stranger.token, absentId)).toEqual(foreign)
    expect(foreign.map(answer => (answer as unknown[])[2])).toEqual(Array(7).fill(403))
    expect((await answers(administrator, thing)).map(answer => (answer as unknown[])[2])).toEqual(Array(7).fill(403))
    expect((await answers(administrator, absentId)).map(answer => (answer as unknown[])[2])).toEqual(Array(7).fill(404))
    expect(await view(thing)).toMatchObject({ name: 'mine', enabled: true, state: 0 })

    const own = thingOf(await as(stranger.token)('POST', '/things/configs', external()))
    for (const channels of [[channel], [absentId]]) {
      expect((await as(stranger.token)('PUT', `/things/configs/connections/${own}`, { channels })).status).toBe(403)
      expect((await as(stranger.token)('POST', '/things/configs', { ...external(), channels })).status).toBe(403)
    }
    expect((await as(administrator)('POST', '/things/configs', { ...external(), channels: [absentId] })).status).toBe(404)
  })

  test('only members of users can have a thing created', async () => {
    const by = await platform().user()
    await as(administrator)('PUT', '/policies', { subjects: [by.id], object: 'users', policies: ['member'] })
    expect((await as(by.token)('POST', '/things/configs', external())).status).toBe(403)
  })
})
