// Mappings over HTTP: what one request creates, what the same request finds again, and who may send it.

import { beforeAll, expect, test } from 'vitest'
import { failuresMax } from '../../../control-plane/access/failed-attempts.ts'
import { type Answer, call } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

interface Made {
  readonly things: { id: string; name: string; key: string; metadata: Record<string, unknown> }[]
  readonly channels: { id: string; name: string; metadata: Record<string, unknown> }[]
  readonly whitelisted: Record<string, boolean>
}

let serial = 0
const device = (more: object = {}) => ({ external_id: `gw-${++serial}`, external_key: `external key ${serial}`, ...more })

describePlatform('mapping', platform => {
  let user: User
  beforeAll(async () => {
    user = await platform().user()
  })
  const ask = (method: string, path: string, body?: object, authorization = user.token): Promise<Answer> =>
    call(platform().url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
  const map = (body: object, authorization = user.token): Promise<Answer> => ask('POST', '/mapping', body, authorization)
  const madeBy = ({ json }: Answer): Made => json as never
  const total = async (kind: 'things' | 'channels', by = user): Promise<unknown> =>
    (await ask('GET', `/${kind}`, undefined, by.token)).json?.total

  test('one request creates a thing, two channels, their connections and the configuration of the device', async () => {
    const body = device({ name: 'gateway' })
    const answer = await map(body)
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([201, 'no-store'])
    const { things, channels, whitelisted } = madeBy(answer)
    const [thing] = things as [Made['things'][0]]
    const [control, data] = channels as [Made['channels'][0], Made['channels'][0]]
    const metadata = {
      external_id: body.external_id,
      type: 'gateway',
      cfg_id: thing.id,
      ctrl_channel_id: control.id,
      data_channel_id: data.id,
    }
    expect(answer.json).toEqual({
      things: [{ id: thing.id, name: 'gateway', key: thing.key, metadata }],
      channels: [
        { id: control.id, name: 'control-channel', metadata: { type: 'control' } },
        { id: data.id, name: 'data-channel', metadata: { type: 'data' } },
      ],
      whitelisted: { [thing.id]: true },
    })
    expect(whitelisted).toEqual({ [thing.id]: true })
    expect((await ask('GET', `/things/${thing.id}`)).json).toEqual(things[0])
    expect((await ask('GET', `/things/${thing.id}/channels?order=name`)).json?.channels).toEqual(channels)
    const access = { credential: { scheme: 'Thing', secret: thing.key }, channel: data.id, action: 'publish' } as const
    expect(await platform().plane.access.authorize(access)).toMatchObject({ allowed: true, publisher: thing.id })
    const fetched = await call(platform().url, 'GET', `/things/bootstrap/${body.external_id}`, {
      authorization: `Thing ${body.external_key}`,
    })
    expect([fetched.status, fetched.json]).toMatchObject([
      200,
      { thing_id: thing.id, thing_key: thing.key, channels: [control.id, data.id] },
    ])
    expect((await ask('GET', `/things/configs/${thing.id}`)).json).toMatchObject({ name: 'gateway', state: 1, enabled: true })
  })

  test('the same request again finds the same mapping, whatever its name', async () => {
    const body = device()
    const first = await map(body)
    const [things, channels] = [await total('things'), await total('channels')]
    const again = await map({ ...body, name: 'other' })
    expect([again.status, again.json]).toEqual([200, first.json])
    expect([await total('things'), await total('channels')]).toEqual([things, channels])
  })

  test('an external id that is mapped and removed again and again is limited: a success reveals that no other owner has the key', async () => {
    const { external_id: externalId } = device()
    const make = async (nth: number) => (await map({ external_id: externalId, external_key: `guessed key ${nth}` })).status
    for (let nth = 0; nth < failuresMax; nth++) {
      expect(await make(nth)).toBe(201)
      await ask('DELETE', `/mapping/${externalId}`)
    }
    expect(await make(failuresMax)).toBe(429)
    const config = { external_id: externalId, external_key: 'guessed key' }
    expect((await ask('POST', '/things/configs', config)).status).toBe(429)
  })

  test('50 equal concurrent requests create one set, and all return it', async () => {
    const by = await platform().user()
    const body = device()
    const answers = await Promise.all(Array.from({ length: 50 }, () => map(body, by.token)))
    expect(answers.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      ...Array.from({ length: 49 }, () => 200),
      201,
    ])
    for (const { json } of answers) expect(json).toEqual(answers[0]!.json)
    expect([await total('things', by), await total('channels', by)]).toEqual([1, 2])
  })

  test('another key for an external id that the caller already has is a conflict, and changes nothing', async () => {
    const body = device()
    await map(body)
    const answer = await map({ ...body, external_key: 'another external key' })
    expect([answer.status, answer.json?.detail]).toEqual([409, expect.stringContaining('with another external key')])
    expect((await ask('POST', '/mapping?dry_run=true', { ...body, external_key: 'another external key' })).status).toBe(409)
    expect((await map(body)).status).toBe(200)
  })

  test('two tenants can use one external id with different keys; the same key is a conflict, counted as a failed fetch', async () => {
    const other = await platform().user()
    const body = device()
    expect((await map(body)).status).toBe(201)
    expect((await map({ ...body, external_key: 'key of the other one' }, other.token)).status).toBe(201)
    const third = await platform().user()
    const statuses: number[] = []
    for (let attempt = 0; attempt < 11; attempt++) {
      statuses.push((await map(body, third.token)).status, (await ask('POST', '/mapping?dry_run=1', body, third.token)).status)
    }
    // Creations count too.
    expect(statuses).toEqual([...Array.from({ length: 18 }, () => 409), 429, 429, 429, 429])
    expect([await total('things', third), await total('channels', third)]).toEqual([0, 0])
    const fetch = (key: string) => call(platform().url, 'GET', `/things/bootstrap/${body.external_id}`, { authorization: `Thing ${key}` })
    const fetched = await Promise.all(['a wrong key', body.external_key, 'key of the other one'].map(fetch))
    expect(fetched.map(({ status }) => status)).toEqual([429, 200, 200])
  })

  test('of two tenants who request one external id and key at once, one gets it', async () => {
    const users = [user, await platform().user(), await platform().user()]
    const body = device()
    const statuses = (await Promise.all(users.map(({ token }) => map(body, token)))).map(({ status }) => status)
    expect(statuses.toSorted((one, other) => one - other)).toEqual([201, 409, 409])
  })

  test('a dry run returns names and metadata without ids and keys, and creates nothing', async () => {
    const body = device({ name: 'gateway' })
    const [things, channels] = [await total('things'), await total('channels')]
    const answer = await ask('POST', '/mapping?dry_run=true', body)
    expect([answer.status, answer.json]).toEqual([
      200,
      {
        things: [{ name: 'gateway', metadata: { external_id: body.external_id, type: 'gateway' } }],
        channels: [
          { name: 'control-channel', metadata: { type: 'control' } },
          { name: 'data-channel', metadata: { type: 'data' } },
        ],
      },
    ])
    expect([await total('things'), await total('channels')]).toEqual([things, channels])
    await map(body)
    expect((await ask('POST', '/mapping?dry_run=true', body)).json).toEqual({ things: [], channels: [] })
  })

  test('dry runs cannot be used to try any number of keys', async () => {
    const { external_id } = device()
    const statuses: number[] = []
    for (let attempt = 0; attempt < 21; attempt++)
      statuses.push((await ask('POST', '/mapping?dry_run=true', { external_id, external_key: `guessed ${attempt}` })).status)
    expect(statuses).toEqual([...Array.from({ length: 20 }, () => 200), 429])
  })

  test('a deletion removes things, channels, connections and configuration, and the mapping can be created again', async () => {
    const by = await platform().user()
    const body = device()
    const { things, channels } = madeBy(await map(body, by.token))
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(change => ended.push(change))
    const answer = await ask('DELETE', `/mapping/${body.external_id}`, undefined, by.token)
    forget()
    expect([answer.status, answer.text]).toEqual([204, ''])
    expect(ended).toEqual([
      ...channels.map(({ id }) => ({ kind: 'channel', channel: id })),
      ...things.map(({ id }) => ({ kind: 'thing', thing: id })),
    ])
    expect([await total('things', by), await total('channels', by)]).toEqual([0, 0])
    const fetched = await call(platform().url, 'GET', `/things/bootstrap/${body.external_id}`, {
      authorization: `Thing ${body.external_key}`,
    })
    expect(fetched.status).toBe(401)
    expect((await ask('DELETE', `/mapping/${body.external_id}`, undefined, by.token)).status).toBe(403)
    expect((await map(body, by.token)).status).toBe(201)
  })

  test('parts that were deleted separately are left out, and without its thing the mapping is created again', async () => {
    const body = device()
    const { things, channels } = madeBy(await map(body))
    await ask('DELETE', `/channels/${channels[0]!.id}`)
    expect(madeBy(await map(body)).channels).toEqual([channels[1]])
    await ask('DELETE', `/things/${things[0]!.id}`)
    const again = await map(body)
    expect([again.status, madeBy(again).channels.length]).toEqual([201, 2])
  })

  test("only its owner can delete it; an absent one and another owner's are the same 403, and an absent one is 404 for the administrator", async () => {
    const body = device()
    await map(body)
    const stranger = await platform().user()
    const administrator = await platform().administrator()
    const remove = (id: string, authorization: string) => ask('DELETE', `/mapping/${encodeURIComponent(id)}`, undefined, authorization)
    const refused = [await remove(body.external_id, stranger.token), await remove('absent', stranger.token)]
    expect(refused.map(({ status }) => status)).toEqual([403, 403])
    expect(refused.map(({ json }) => ({ ...json, request_id: '' }))[0]).toEqual({ ...refused[1]!.json, request_id: '' })
    expect((await remove(body.external_id, administrator)).status).toBe(403)
    expect((await remove('absent', administrator)).status).toBe(404)
    for (const id of ['x'.repeat(255), 'a\nb']) expect((await remove(id, user.token)).status).toBe(400)
    expect((await map(body)).status).toBe(200)
  })

  test('a deletion needs the right to delete each thing', async () => {
    const body = device()
    const { things } = madeBy(await map(body))
    const policy = { subjects: [user.id], object: things[0]!.id, policies: ['delete'] }
    await ask('PUT', '/policies', policy, await platform().administrator())
    expect((await ask('DELETE', `/mapping/${body.external_id}`)).status).toBe(403)
    expect((await map(body)).status).toBe(200)
  })

  test('without a token 401; without member on users 403, also for a dry run and the content', async () => {
    for (const [method, path] of [
      ['POST', '/mapping'],
      ['POST', '/mapping?dry_run=true'],
      ['GET', '/mapping'],
      ['DELETE', '/mapping/x'],
    ] as const) {
      const answer = await call(platform().url, method, path, method === 'POST' ? { body: {} } : {})
      expect([path, answer.status, answer.headers.get('www-authenticate')]).toEqual([path, 401, expect.stringContaining('Bearer')])
    }
    const by = await platform().user()
    await ask('PUT', '/policies', { subjects: [by.id], object: 'users', policies: ['member'] }, await platform().administrator())
    const body = device()
    expect((await map(body, by.token)).status).toBe(403)
    expect((await ask('POST', '/mapping?dry_run=true', body, by.token)).status).toBe(403)
    expect((await ask('GET', '/mapping', undefined, by.token)).status).toBe(403)
    expect((await ask('GET', '/mapping')).json).toEqual({})
  })

  test.each<[string, object, string]>([
    ['no external id', { external_id: undefined }, '/body/external_id'],
    ['an empty external id', { external_id: '' }, '/body/external_id'],
    ['a long external id', { external_id: 'é'.repeat(128) }, '/body/external_id'],
    ['a control character in the external id', { external_id: 'a\tb' }, '/body/external_id'],
    ['no external key', { external_key: undefined }, '/body/external_key'],
    ['a short external key', { external_key: '1234567' }, '/body/external_key'],
    ['a long external key', { external_key: 'x'.repeat(257) }, '/body/external_key'],
    ['a control character in the external key', { external_key: '12345678\r\n90' }, '/body/external_key'],
    ['an external key that ends in a blank', { external_key: '12345678 ' }, '/body/external_key'],
    ['a long name', { name: 'x'.repeat(1025) }, '/body/name'],
    ['a number as external id', { external_id: 5 }, '/body/external_id'],
  ])('%s is malformed, says where, and repeats no key', async (_name, wrong, pointer) => {
    const answer = await map(device(wrong))
    expect([answer.status, answer.json?.errors]).toEqual([400, [{ pointer, detail: expect.any(String) }]])
    expect(answer.text).not.toContain('1234567')
  })

  test('an external id is any text within 254 bytes, and a key within 8 and 256', async () => {
    for (const [external_id, external_key] of [
      ['é'.repeat(127), 'x'.repeat(256)],
      ['a/b?c#d%20', '12345678'],
      ['MAC 02:42', 'schlüssel mit leerzeichen'],
    ] as const) {
      expect((await map({ external_id, external_key })).status).toBe(201)
      const fetched = await call(platform().url, 'GET', `/things/bootstrap/${encodeURIComponent(external_id)}`, {
        authorization: `Thing ${Buffer.from(external_key).toString('latin1')}`,
      })
      expect([external_id, fetched.status]).toEqual([external_id, 200])
    }
  })

  test('no external key is in the database, the log or the metadata', async () => {
    const body = device()
    const answer = await map(body)
    await call(platform().url, 'GET', `/things/bootstrap/${body.external_id}`, { authorization: `Thing ${body.external_key}` })
    expect(answer.text + platform().logged()).not.toContain(body.external_key)
    for (const table of ['things', 'mappings', 'bootstrap_configs', 'audit', 'failed_attempts']) {
      const rows = await platform().database.query<{ text: string }>(`SELECT t::text AS text FROM control_plane.${table} AS t`)
      for (const form of [body.external_key, Buffer.from(body.external_key).toString('hex')])
        expect(rows.map(({ text }) => text).join('\n')).not.toContain(form)
    }
    expect((await map({ ...device(), thing_id: absentId })).status).toBe(201)
  })
})
