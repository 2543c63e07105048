// What devices fetch: the answer under both names; wrong keys, which all get the same answer; private keys, which are erased.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { failuresMax } from '../../../control-plane/access/failed-attempts.ts'
import { type Answer, call } from '../../up/operator.ts'
import { type Answered, recording } from '../plans.ts'
import { describeOnDatabases, openPlatform, type Platform, type User } from '../platform.ts'

const pem = (kind: string, of: string): string => `-----BEGIN ${kind}-----\n${of}\n-----END ${kind}-----\n`

interface Device {
  readonly id: string
  readonly key: string
  readonly thing: string
  readonly channels: { id: string; name: string; metadata?: object }[]
}

describeOnDatabases('fetching', database => {
  let platform: Platform
  let user: User
  let sent: Answered[] = []
  beforeAll(async () => {
    platform = await openPlatform(recording(database(), statement => sent.push(statement)))
    user = await platform.user()
  })
  afterAll(() => platform?.close())
  const ask = (method: string, path: string, body?: object): Promise<Answer> =>
    call(platform.url, method, path, { authorization: user.token, ...(body === undefined ? {} : { body }) })
  const fetch = (id: string, key: string, headers: Record<string, string> = {}): Promise<Answer> =>
    call(platform.url, 'GET', `/things/bootstrap/${id}`, { authorization: `Thing ${key}`, headers })
  let serial = 0
  async function device(more: object = {}): Promise<Device> {
    const [id, key] = [`fetching-${++serial}`, `external key ${serial}`]
    const body = [{ name: 'data', metadata: { type: 'data' } }, { name: 'control' }]
    const { json } = await ask('POST', '/channels/bulk', body)
    const channels = json!['channels'] as Device['channels']
    const made = await ask('POST', '/things/configs', {
      external_id: id,
      external_key: key,
      channels: channels.map(channel => channel.id),
      ...more,
    })
    return { id, key, thing: made.headers.get('location')!.replace('/things/configs/', ''), channels }
  }
  const move = (thing: string, hours: number) =>
    database().query(
      'UPDATE control_plane.bootstrap_configs SET client_key_fetched_at = client_key_fetched_at - make_interval(hours => $2::int4) WHERE thing = $1',
      [thing, hours],
    )
  async function stored(thing: string): Promise<{ client_key: unknown; fetched_at: unknown }> {
    const sql = 'SELECT client_key, fetched_at FROM control_plane.bootstrap_configs WHERE thing = $1'
    return (await database().query<{ client_key: null; fetched_at: null }>(sql, [thing]))[0]!
  }
  const acknowledge = (id: string, key: string): Promise<Answer> =>
    call(platform.url, 'POST', `/things/bootstrap/${id}/ack`, { authorization: `Thing ${key}` })

  test('thing, key, channels in their order and content are returned under both names', async () => {
    const content = '{"agent":{"mqtt":{"qos":1}}}'
    const { id, key, thing, channels } = await device({ content })
    const answer = await fetch(id, key)
    const thingKey = (await ask('GET', `/things/${thing}`)).json?.['key']
    expect([answer.status, answer.json]).toEqual([
      200,
      {
        thing_id: thing,
        thing_key: thingKey,
        channels: channels.map(channel => channel.id),
        channel_details: channels,
        mainflux_id: thing,
        mainflux_key: thingKey,
        mainflux_channels: channels,
        content,
      },
    ])
    expect(answer.headers.get('cache-control')).toBe('private, no-cache')
    expect(answer.headers.get('vary')).toBe('Authorization')
  })

  test('without content there is an empty object, which agents parse a second time', async () => {
    const { id, key } = await device()
    expect((await fetch(id, key)).json).toMatchObject({ content: '{}' })
  })

  test('an unchanged configuration is a 304, only for its device; the last fetch is recorded either way', async () => {
    const { id, key, thing } = await device({ content: '{}' })
    expect((await stored(thing)).fetched_at).toBeNull()
    const etag = (await fetch(id, key)).headers.get('etag')!
    const first = (await stored(thing)).fetched_at
    expect(etag).toMatch(/^"[\w-]{43}"$/)
    for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await fetch(id, key, { 'if-none-match': tags })
      expect([again.status, again.text, again.headers.get('etag')]).toEqual([304, '', etag])
    }
    expect((await stored(thing)).fetched_at).not.toEqual(first)
    expect((await fetch(id, 'a wrong key', { 'if-none-match': etag })).status).toBe(401)
    await ask('PUT', `/things/configs/${thing}`, { content: '{"changed":1}' })
    const changed = await fetch(id, key, { 'if-none-match': etag })
    expect([changed.status, changed.headers.get('etag') === etag]).toEqual([200, false])
    expect((await ask('GET', `/things/configs/${thing}`)).json?.['fetched_at']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  })

  test('an unknown id and a wrong key get the same answer after the same statements', async () => {
    const { id, key } = await device()
    const seen: { answer: unknown; statements: string[] }[] = []
    for (const [externalId, externalKey] of [
      [id, `${key}?`],
      ['unknown', key],
      ['x'.repeat(300), key],
      ['a%00b', key],
    ] as const) {
      sent = []
      const { status, json, headers } = await fetch(externalId, externalKey)
      const kept = Object.fromEntries([...headers].filter(([name]) => !['date', 'x-request-id'].includes(name)))
      seen.push({ answer: { status, json: { ...json, request_id: '' }, kept }, statements: sent.map(({ sql }) => sql) })
    }
    expect(seen[0]!.answer).toMatchObject({ status: 401, kept: { 'www-authenticate': 'Thing realm="sluice"' } })
    expect(seen[0]!.statements).toHaveLength(3)
    for (const other of seen) expect(other).toEqual(seen[0])
  })

  test('after twenty failures an id is limited in its network; the right key and other networks are delayed, and other ids are not', async () => {
    const [{ id, key }, other] = [await device(), await device()]
    const from = (address: string) => ({ 'x-forwarded-for': address })
    const tries = Array.from({ length: failuresMax + 1 }, (_, attempt) => fetch(id, `wrong key ${attempt}`, from('198.51.100.7')))
    const statuses = (await Promise.all(tries)).map(({ status }) => status)
    expect(statuses.sort((one, other) => one - other)).toEqual([...Array.from({ length: failuresMax }, () => 401), 429])
    const startedMs = performance.now()
    const [limited, right, otherNetwork, otherId, acknowledged] = await Promise.all([
      fetch(id, 'wrong key', from('198.51.100.7')),
      fetch(id, key, from('198.51.100.7')),
      fetch(id, 'wrong key', from('198.51.100.8')),
      fetch(other.id, 'wrong key', from('198.51.100.7')),
      acknowledge(id, key),
    ])
    expect([limited.status, Number(limited.headers.get('retry-after')) > 20]).toEqual([429, true])
    expect([right, otherNetwork, otherId, acknowledged].map(({ status }) => status)).toEqual([200, 401, 401, 204])
    // Each is looked up two seconds later, otherwise a key could be found by trying.
    expect(performance.now() - startedMs).toBeGreaterThan(1_900)
  })

  test.each<[string, Record<string, string>]>([
    ['no header', {}],
    ['an empty one', { authorization: '' }],
    ['the scheme alone', { authorization: 'Thing' }],
    ['another scheme', { authorization: 'Bearer external key 1' }],
    ['none', { authorization: 'external key 1' }],
  ])('%s is a 401', async (_name, headers) => {
    const { id } = await device()
    const answer = await call(platform.url, 'GET', `/things/bootstrap/${id}`, { headers })
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Thing realm="sluice"'])
  })

  test('a disabled configuration, and one of a disabled owner, is 403 only for its device', async () => {
    const { id, key, thing } = await device()
    await ask('PUT', `/things/configs/${thing}`, { enabled: false })
    const fetchedAt = (await stored(thing)).fetched_at
    expect([(await fetch(id, key)).status, (await acknowledge(id, key)).status, (await fetch(id, 'a wrong key')).status]).toEqual([
      403, 403, 401,
    ])
    expect((await stored(thing)).fetched_at).toEqual(fetchedAt)
    await ask('PUT', `/things/configs/${thing}`, { enabled: true })
    expect((await fetch(id, key)).status).toBe(200)
    const disable = async (disabled: boolean) =>
      call(platform.url, 'PUT', `/users/${user.id}/disabled`, { authorization: await platform.administrator(), body: { disabled } })
    await disable(true)
    expect((await fetch(id, key)).status).toBe(403)
    await disable(false)
    const { json } = await call(platform.url, 'POST', '/tokens', { body: { email: user.email, password: user.password } })
    user = { ...user, token: `Bearer ${json!['token'] as string}` }
    expect((await fetch(id, key)).status).toBe(200)
  })

  test('each fetch returns a private key until it is acknowledged, and then it is erased everywhere', async () => {
    const certificates = {
      client_cert: pem('CERTIFICATE', 'client'),
      client_key: pem('PRIVATE KEY', 'its secret'),
      ca_cert: pem('CERTIFICATE', 'ca'),
    }
    const { id, key, thing } = await device(certificates)
    const rows = await database().query<{ text: string }>('SELECT t::text AS text FROM control_plane.bootstrap_configs AS t')
    const dump = rows.map(({ text }) => text).join()
    for (const form of ['its secret', Buffer.from('its secret').toString('hex')]) expect(dump).not.toContain(form)
    for (let times = 0; times < 2; times++) expect((await fetch(id, key)).json).toMatchObject(certificates)
    expect((await acknowledge(id, 'a wrong key')).status).toBe(401)
    expect((await fetch(id, key)).json).toMatchObject(certificates)
    const answer = await acknowledge(id, key)
    expect([answer.status, answer.text, (await stored(thing)).client_key]).toEqual([204, '', null])
    const { client_key: _, ...others } = certificates
    const { json } = await fetch(id, key)
    expect([json?.['client_key'], json]).toMatchObject([undefined, others])
    expect((await acknowledge(id, key)).status).toBe(204)
  })

  test('a private key is returned for a day from its first fetch, and erased by any later fetch', async () => {
    const [one, other, unfetched] = [
      await device({ client_key: 'k' }),
      await device({ client_key: 'k' }),
      await device({ client_key: 'k' }),
    ]
    for (const { id, key, thing } of [one, other]) {
      expect((await fetch(id, key)).json).toHaveProperty('client_key')
      await move(thing, 23)
      expect((await fetch(id, key)).json).toHaveProperty('client_key')
      await move(thing, 1)
    }
    await move(unfetched.thing, 1000)
    expect((await fetch(one.id, one.key)).json).not.toHaveProperty('client_key')
    for (const { thing } of [one, other]) expect((await stored(thing)).client_key).toBeNull()
    expect((await fetch(unfetched.id, unfetched.key)).json).toHaveProperty('client_key')
  })

  test.each(['a new configuration', 'a start'] as const)('a private key whose day is over is erased by %s, without a fetch', async by => {
    const devices = await Promise.all(Array.from({ length: by === 'a start' ? 11 : 1 }, () => device({ client_key: 'k' })))
    for (const { id, key, thing } of devices) {
      await fetch(id, key)
      await move(thing, 25)
    }
    if (by === 'a start') await (await openPlatform(database())).close()
    else await device()
    for (const { thing } of devices) expect((await stored(thing)).client_key).toBeNull()
  })

  test('an acknowledgement erases the private key that was fetched, but not a newer one', async () => {
    const { id, key, thing } = await device({ client_key: 'first' })
    const replace = (clientKey: string) => ask('PATCH', `/things/configs/certs/${thing}`, { client_key: clientKey })
    await acknowledge(id, key)
    expect((await call(platform.url, 'HEAD', `/things/bootstrap/${id}`, { authorization: `Thing ${key}` })).status).toBe(200)
    await acknowledge(id, key)
    expect((await fetch(id, key)).json).toMatchObject({ client_key: 'first' })
    await replace('second')
    await acknowledge(id, key)
    expect((await fetch(id, key)).json).toMatchObject({ client_key: 'second' })
    await acknowledge(id, key)
    expect((await fetch(id, key)).json).not.toHaveProperty('client_key')
  })

  test('another private key has a day of its own', async () => {
    const { id, key, thing } = await device({ client_key: 'first' })
    await fetch(id, key)
    await move(thing, 25)
    await ask('PATCH', `/things/configs/certs/${thing}`, { client_key: 'second' })
    expect((await fetch(id, key)).json).toMatchObject({ client_key: 'second' })
    await move(thing, 25)
    expect((await fetch(id, key)).json).not.toHaveProperty('client_key')
  })

  test('if private keys are kept, only an acknowledgement erases them', async () => {
    const keeping = await openPlatform(database(), { compatibility: '0.13' })
    const { id, key, thing } = await device({ client_key: 'kept' })
    const fetchThere = () => call(keeping.url, 'GET', `/things/bootstrap/${id}`, { authorization: `Thing ${key}` })
    await fetchThere()
    await move(thing, 1000)
    await (await openPlatform(database(), { compatibility: '0.13' })).close()
    expect((await fetchThere()).json).toMatchObject({ client_key: 'kept' })
    await call(keeping.url, 'POST', `/things/bootstrap/${id}/ack`, { authorization: `Thing ${key}` })
    expect((await fetchThere()).json).not.toHaveProperty('client_key')
    await keeping.close()
  })

  test('older clients fetch with the key as Bearer or without a scheme, on paths without /things', async () => {
    const older = await openPlatform(database(), { compatibility: '0.13' })
    const external = { external_id: 'older', external_key: 'looks.like.a-token' }
    const made = await call(older.url, 'POST', '/configs', { authorization: user.token, body: external })
    expect([made.status, made.headers.get('location')]).toEqual([201, expect.stringMatching(/^\/things\/configs\//)])
    const { id, key, thing } = await device()
    for (const [path, authorization] of [
      [`/things/bootstrap/${id}`, `Thing ${key}`],
      [`/bootstrap/${id}`, `Bearer ${key}`],
      [`/http/bootstrap/${id}`, key],
      ['/bootstrap/older', `Bearer ${external.external_key}`],
      ['/bootstrap/older', external.external_key],
    ] as const)
      expect([authorization, (await call(older.url, 'GET', path, { authorization })).status]).toEqual([authorization, 200])
    expect((await call(older.url, 'GET', `/bootstrap/${id}`, { authorization: 'Bearer a wrong key' })).status).toBe(401)
    expect((await call(older.url, 'GET', `/configs/${thing}`, { authorization: user.token })).status).toBe(200)
    expect((await call(older.url, 'PUT', `/state/${thing}`, { authorization: user.token, body: {} })).status).toBe(200)
    await older.close()
    for (const path of [`/bootstrap/${id}`, `/configs/${thing}`]) {
      expect((await call(platform.url, 'GET', path, { authorization: user.token })).status).toBe(404)
    }
  })

  test('a replaced thing key is returned as the new one, and the configuration is deleted with its thing', async () => {
    const { id, key, thing, channels } = await device()
    const { json } = await ask('PATCH', `/things/${thing}/key`, {})
    await ask('DELETE', `/channels/${channels[0]!.id}`)
    expect((await fetch(id, key)).json).toMatchObject({ thing_key: json!['key'], channels: [channels[1]!.id] })
    await ask('DELETE', `/things/${thing}`)
    expect((await fetch(id, key)).status).toBe(401)
  })
})
