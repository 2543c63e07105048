// Connecting and disconnecting over HTTP: only for the owner of thing and channel, without revealing what others have.

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call, makeSite, type Site } from '../../up/operator.ts'
import { absentId, describePlatform, type Platform } from '../platform.ts'

async function make(platform: Platform, kind: 'things' | 'channels', owner: string, count: number): Promise<string[]> {
  const body = Array.from({ length: count }, (_, index) => ({ name: `${kind} ${index}` }))
  const answer = await call(platform.url, 'POST', `/${kind}/bulk`, { authorization: owner, body })
  return (answer.json![kind] as { id: string }[]).map(({ id }) => id)
}

describePlatform('connections', platform => {
  let owner: string
  let site: Site
  beforeAll(async () => {
    owner = (await platform().user()).token
    site = await makeSite(platform().url)
  })
  const connect = (channels: unknown, things: unknown, authorization = owner): Promise<Answer> =>
    call(platform().url, 'POST', '/connect', { authorization, body: { channel_ids: channels, thing_ids: things } })
  const disconnect = (channel: string, thing: string, authorization = owner): Promise<Answer> =>
    call(platform().url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization })
  async function connected(things: readonly string[]): Promise<number> {
    return (await platform().database.query('SELECT FROM control_plane.connections WHERE thing = ANY($1::uuid[])', [things])).length
  }

  test('each thing is connected to each channel, and connecting again is a success', async () => {
    const things = await make(platform(), 'things', owner, 3)
    const channels = await make(platform(), 'channels', owner, 2)
    const answer = await connect(channels, things)
    expect([answer.status, answer.text]).toEqual([200, '{}'])
    expect(await connected(things)).toBe(6)
    expect((await connect([channels[0], channels[0]], [things[0]!.toUpperCase(), things[0]])).status).toBe(200)
    expect(await connected(things)).toBe(6)
  })

  test('concurrent requests that connect the same pairs all succeed', async () => {
    const things = await make(platform(), 'things', owner, 20)
    const channels = await make(platform(), 'channels', owner, 5)
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        index % 2 === 0 ? connect(channels, things) : connect(channels.toReversed(), things.toReversed()),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200))
    expect(await connected(things)).toBe(100)
  })

  test.each<[string, unknown, string]>([
    ['no channels', { thing_ids: [absentId] }, '/body/channel_ids'],
    ['no things', { channel_ids: [absentId] }, '/body/thing_ids'],
    ['an empty list', { channel_ids: [], thing_ids: [absentId] }, '/body/channel_ids'],
    ['an id in place of a list', { channel_ids: absentId, thing_ids: [absentId] }, '/body/channel_ids'],
    ['an invalid id', { channel_ids: [absentId], thing_ids: [absentId, 'x'] }, '/body/thing_ids/1'],
    ['a number as id', { channel_ids: [5], thing_ids: [absentId] }, '/body/channel_ids/0'],
    ['more than a thousand things', { channel_ids: [absentId], thing_ids: Array(1001).fill(absentId) }, '/body/thing_ids'],
    ['more than 5,000 pairs', { channel_ids: Array(6).fill(absentId), thing_ids: Array(1000).fill(absentId) }, '/body'],
  ])('%s is malformed, and says where', async (_name, body, pointer) => {
    const answer = await call(platform().url, 'POST', '/connect', { authorization: owner, body: body as object })
    expect(answer.status).toBe(400)
    expect(answer.json?.errors).toEqual([{ pointer, detail: expect.any(String) }])
  })

  test('one request connects 5,000 pairs, and the error for more says how to split it', async () => {
    const things = await make(platform(), 'things', owner, 1000)
    const channels = await make(platform(), 'channels', owner, 6)
    const refused = await connect(channels, things)
    expect(refused.json?.errors).toEqual([
      { pointer: '/body', detail: expect.stringMatching(/at most 5 of the channels for these 1000 things/) },
    ])
    expect(await connected(things)).toBe(0)
    expect((await connect(channels.slice(0, 5), things)).status).toBe(200)
    expect((await connect(channels.slice(5), things)).status).toBe(200)
    expect(await connected(things)).toBe(6000)
  })

  test('a thing is disconnected with 204 and no body; a second time it is 404, because the owner may know', async () => {
    const [thing] = await make(platform(), 'things', owner, 1)
    const [channel] = await make(platform(), 'channels', owner, 1)
    await connect([channel], [thing])
    const answer = await disconnect(channel!, thing!)
    expect([answer.status, answer.text]).toEqual([204, ''])
    expect(await connected([thing!])).toBe(0)
    expect((await disconnect(channel!, thing!)).status).toBe(404)
    expect((await connect([channel], [thing])).status).toBe(200)
  })

  test('a path with an invalid id is malformed', async () => {
    expect((await disconnect('x', absentId)).status).toBe(400)
    expect((await disconnect(absentId, 'x')).status).toBe(400)
  })

  test('without a token, both are 401 before anything else is checked', async () => {
    expect((await call(platform().url, 'POST', '/connect', { body: '{' })).status).toBe(401)
    expect((await call(platform().url, 'DELETE', '/channels/x/things/x')).status).toBe(401)
  })

  const get = (path: string, authorization = owner): Promise<Answer> => call(platform().url, 'GET', path, { authorization })
  const idsOf = (answer: Answer, kind: 'things' | 'channels'): string[] => (answer.json![kind] as { id: string }[]).map(({ id }) => id)

  test('PUT of a pair connects it, also again, and says what replaces the route', async () => {
    const [[thing], [channel]] = [await make(platform(), 'things', owner, 1), await make(platform(), 'channels', owner, 1)]
    const put = (authorization = owner): Promise<Answer> =>
      call(platform().url, 'PUT', `/channels/${channel}/things/${thing}`, { authorization })
    for (const answer of [await put(), await put()]) {
      expect([answer.status, answer.text, answer.headers.get('link')]).toEqual([200, '', '</connect>; rel="successor-version"'])
    }
    expect(await connected([thing!])).toBe(1)
    expect((await put((await platform().user()).token)).status).toBe(403)
  })

  test('PUT /disconnect disconnects each pair immediately, all or none, and skips pairs that are not connected', async () => {
    const things = await make(platform(), 'things', owner, 3)
    const channels = await make(platform(), 'channels', owner, 2)
    await connect(channels, things.slice(0, 2))
    const put = (channelIds: readonly unknown[], thingIds: readonly unknown[]): Promise<Answer> =>
      call(platform().url, 'PUT', '/disconnect', { authorization: owner, body: { channel_ids: channelIds, thing_ids: thingIds } })
    expect((await put([...channels, site.channel], things)).status).toBe(403)
    expect((await put(channels, [...things, absentId])).status).toBe(403)
    expect(await connected(things)).toBe(4)
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(change => ended.push(change))
    const answer = await put(channels, things.slice(1))
    forget()
    expect([answer.status, answer.text]).toEqual([200, '{}'])
    const pairs = channels.map(channel => ({ kind: 'disconnected', thing: things[1], channel }))
    expect(new Set(ended)).toEqual(new Set(pairs))
    expect(await connected(things)).toBe(2)
    expect((await put(channels, things)).status).toBe(200)
    expect(await connected(things)).toBe(0)
    expect((await put([], things)).status).toBe(400)
    expect((await put(Array(6).fill(absentId), Array(1000).fill(absentId))).status).toBe(400)
  })

  test('a disconnect of more than 500 pairs is one change for each of its things, or channels, whichever are fewer', async () => {
    const many = 501
    for (const [kind, things, channels] of [
      ['thing', await make(platform(), 'things', owner, 1), await make(platform(), 'channels', owner, many)],
      ['channel', await make(platform(), 'things', owner, many), await make(platform(), 'channels', owner, 1)],
    ] as const) {
      await connect(channels, things)
      const ended: unknown[] = []
      const forget = platform().plane.access.onChange(change => ended.push(change))
      const body = { channel_ids: channels, thing_ids: things }
      expect((await call(platform().url, 'PUT', '/disconnect', { authorization: owner, body })).status).toBe(200)
      forget()
      expect(ended).toEqual([{ kind, [kind]: kind === 'thing' ? things[0] : channels[0] }])
    }
  })

  test('the things of a channel and the channels of a thing, connected and not, page by page', async () => {
    const user = (await platform().user()).token
    const things = await make(platform(), 'things', user, 5)
    const channels = await make(platform(), 'channels', user, 3)
    await connect([channels[0]], things.slice(0, 3), user)
    await connect(channels.slice(0, 2), [things[0]], user)
    for (const yes of ['', 'connected=true', 'connected=1', 'disconnected=false', 'connected=T&disconnected=f']) {
      expect(idsOf(await get(`/channels/${channels[0]}/things?${yes}`, user), 'things')).toEqual(things.slice(0, 3))
      expect(idsOf(await get(`/things/${things[0]}/channels?${yes}`, user), 'channels')).toEqual(channels.slice(0, 2))
    }
    for (const no of ['connected=false', 'disconnected=true', 'connected=0&disconnected=TRUE']) {
      expect(idsOf(await get(`/channels/${channels[0]}/things?${no}`, user), 'things')).toEqual(things.slice(3))
      expect(idsOf(await get(`/things/${things[0]}/channels?${no}`, user), 'channels')).toEqual(channels.slice(2))
    }
    const page = await get(`/channels/${channels[0]}/things?offset=1&limit=1&order=name&dir=desc`, user)
    expect(page.json).toMatchObject({ total: 3, offset: 1, limit: 1, order: 'name', direction: 'desc', things: [{ id: things[1] }] })
    expect(page.headers.get('cache-control')).toBe('no-store')
    for (const bad of [
      'connected=true&disconnected=true',
      'connected=false&disconnected=0',
      'connected=2',
      'limit=0',
      'metadata_as=xml',
      'connected=',
    ])
      expect((await get(`/channels/${channels[0]}/things?${bad}`, user)).status, bad).toBe(400)
  })

  test('listed metadata is an object, or its text on request', async () => {
    const body = [{ name: 'a', metadata: { n: 1 } }, { name: 'b' }]
    const bulk = async (kind: 'things' | 'channels'): Promise<string[]> =>
      idsOf(await call(platform().url, 'POST', `/${kind}/bulk`, { authorization: owner, body }), kind)
    const [things, channels] = [await bulk('things'), await bulk('channels')]
    await connect(channels, things)
    for (const [path, kind] of [
      [`/channels/${channels[0]}/things`, 'things'],
      [`/things/${things[0]}/channels`, 'channels'],
    ] as const) {
      const metadata = async (query: string): Promise<unknown[]> =>
        ((await get(path + query)).json![kind] as { metadata?: unknown }[]).map(item => item.metadata)
      expect(await metadata('')).toEqual([{ n: 1 }, undefined])
      expect(await metadata('?metadata_as=string')).toEqual(['{"n":1}', '{}'])
    }
  })
})
