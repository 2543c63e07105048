// API keys over HTTP: issued and shown once, used in place of a token, limited in what they may do, and refused once revoked.

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call, makeSite } from '../../up/operator.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

describePlatform('API keys', platform => {
  let user: User
  beforeAll(async () => {
    user = await platform().user()
  })
  const ask = (method: string, path: string, body?: object, authorization = user.token): Promise<Answer> =>
    call(platform().url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
  const issue = async (body: object = {}, authorization = user.token) =>
    (await ask('POST', '/keys', body, authorization)).json as { id: string; value: string; issued_at: string; expires_at?: string }

  test('a key is shown once, and authenticates its user wherever a token does, until it is revoked', async () => {
    const answer = await ask('POST', '/keys', { name: 'export' })
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([201, 'no-store'])
    const { id, value } = answer.json as { id: string; value: string }
    expect(value).toMatch(/^sluice_[\w-]{43}$/)
    expect((await ask('GET', '/users/profile', undefined, `Bearer ${value}`)).json).toMatchObject({ id: user.id })
    const shown = { id, name: 'export', access: 'all', type: 2, issuer_id: user.id, subject: user.email, issued_at: expect.any(String) }
    expect((await ask('GET', `/keys/${id}`)).json).toEqual(shown)
    expect((await ask('GET', '/keys')).json).toMatchObject({ total: 1, keys: [shown] })
    const other = await platform().user()
    expect((await ask('GET', `/keys/${id}`, undefined, other.token)).status).toBe(403)
    expect((await ask('DELETE', `/keys/${id}`, undefined, other.token)).status).toBe(204)
    expect((await ask('GET', `/keys/${id}`)).status).toBe(200)
    expect((await ask('DELETE', `/keys/${id}`)).status).toBe(204)
    expect((await ask('GET', '/users/profile', undefined, `Bearer ${value}`)).status).toBe(401)
    expect((await ask('DELETE', `/keys/${absentId}`)).status).toBe(204)
  })

  test('the administrator lists and revokes the keys of a user, and the audit log records it', async () => {
    const [{ token, id: owner, email }, other] = [await platform().user(), await platform().user()]
    const { id, value } = await issue({ name: 'lost' }, token)
    const administrator = await platform().administrator()
    const asAdministrator = (method: string, path: string) => ask(method, path, undefined, administrator)
    const { json } = await asAdministrator('GET', `/users/${owner}/keys`)
    expect(json).toMatchObject({ total: 1, offset: 0, limit: 10, keys: [{ id, name: 'lost', issuer_id: owner, subject: email }] })
    const opens = async (): Promise<boolean> => (await ask('GET', '/users/profile', undefined, `Bearer ${value}`)).status === 200
    expect((await asAdministrator('DELETE', `/users/${other.id}/keys/${id}`)).status).toBe(204)
    expect(await opens()).toBe(true)
    expect((await asAdministrator('DELETE', `/users/${owner}/keys/${id}`)).status).toBe(204)
    expect(await opens()).toBe(false)
    const { json: recorded } = await asAdministrator('GET', `/audit?action=key.revoke&object=${owner}`)
    expect(recorded).toMatchObject({ total: 1, entries: [{ objects: [id, owner] }] })
  })

  test.each([
    ['their own', true],
    ['by the administrator', false],
  ])('a changed password, %s, leaves keys valid, unless it revokes them in the same step', async (_whose, isOwn) => {
    const [{ id, email, ...rest }, other] = [await platform().user(), await platform().user()]
    const keys = [await issue({}, rest.token), await issue({}, rest.token)]
    const foreign = await issue({}, other.token)
    const administrator = await platform().administrator()
    let { password } = rest
    async function change(next: string, query: string, old = password): Promise<boolean> {
      const { status } = isOwn
        ? await ask('PATCH', `/password${query}`, { old_password: old, password: next }, await platform().signIn({ email, password }))
        : await ask('PUT', `/users/${id}/password${query}`, { password: next }, administrator)
      if (status < 300) password = next
      return status < 300
    }
    const opened = async (): Promise<boolean[]> => {
      const statuses: boolean[] = []
      for (const { value } of [...keys, foreign])
        statuses.push((await ask('GET', '/users/profile', undefined, `Bearer ${value}`)).status === 200)
      return statuses
    }

    const revoking = '?revoke_keys=true'
    for (const query of ['', '?revoke_keys=false'])
      expect([await change(`horse battery ${query}`, query), await opened()]).toEqual([true, [true, true, true]])
    if (isOwn) expect([await change('another horse', revoking, 'wrong horse'), await opened()]).toEqual([false, [true, true, true]])
    expect([await change('a third horse battery', revoking), await opened()]).toEqual([true, [false, false, true]])
    const { json } = await ask('GET', `/audit?action=key.revoke&object=${keys[0]!.id}`, undefined, administrator)
    const [entry, ...more] = json!.entries as { objects: string[] }[]
    expect([entry!.objects.toSorted(), more]).toEqual([[...keys.map(key => key.id), ...(isOwn ? [] : [id])].toSorted(), []])
    expect((await ask('GET', '/users/profile', undefined, await platform().signIn({ email, password }))).status).toBe(200)
  })

  test.each<[string, object, number | undefined]>([
    ['nothing', {}, undefined],
    ['a duration of 0', { type: 2, duration: 0 }, undefined],
    ['seconds', { duration: 3600 }, 3600],
    ['nanoseconds', { type: 2, duration: 7_200_000_000_000 }, 7200],
    ['an instant', { expires_at: new Date(Date.now() + 3_600_000).toISOString() }, 3600],
  ])('with %s it expires in time', async (_name, body, seconds) => {
    const { expires_at: end } = await issue(body)
    if (seconds === undefined) expect(end).toBeUndefined()
    else expect(Math.abs(Date.parse(end!) - Date.now() - seconds * 1000)).toBeLessThan(300_000)
  })

  test('an expired key is refused', async () => {
    const { id, value } = await issue({ duration: 3600 })
    const status = async (): Promise<number> => (await ask('GET', '/users/profile', undefined, `Bearer ${value}`)).status
    expect(await status()).toBe(200)
    const later = `UPDATE control_plane.api_keys SET expires_at = expires_at - interval '3601 seconds' WHERE id = $1`
    await platform().database.query(later, [id])
    expect(await status()).toBe(401)
  })

  test('a scope is shown with the key, and the audit log names its channels', async () => {
    const { owner, channel } = await makeSite(platform().url)
    const scope = { access: 'publish', channels: [channel] }
    const { id } = await issue({ ...scope, channels: [channel.toUpperCase()], duration: 3600 }, owner)
    const shown = { id, ...scope, expires_at: expect.any(String) as string }
    expect((await ask('GET', `/keys/${id}`, undefined, owner)).json).toMatchObject(shown)
    const whole = await issue({}, owner)
    const { json } = await ask('GET', '/keys', undefined, owner)
    expect(json).toMatchObject({ keys: [shown, { id: whole.id, access: 'all' }] })
    expect((json!.keys as object[])[1]).not.toHaveProperty('channels')
    const administrator = await platform().administrator()
    expect((await ask('GET', `/audit?object=${id}`, undefined, administrator)).json).toMatchObject({
      entries: [{ objects: [id, channel] }],
    })
  })

  test("channels are the user's own, up to a hundred: another user's, absent and deleted ones get one refusal, and no key is made", async () => {
    const [site, foreign, administrator] = [
      await makeSite(platform().url),
      await makeSite(platform().url),
      await platform().administrator(),
    ]
    const names = Array.from({ length: 100 }, () => ({ name: 'many' }))
    const { json } = await ask('POST', '/channels/bulk', names, site.owner)
    const many = (json!.channels as { id: string }[]).map(({ id }) => id)
    await ask('DELETE', `/channels/${many[99]!}`, undefined, site.owner)
    const refused = async (channels: readonly string[], authorization = site.owner) => {
      const answer = await ask('POST', '/keys', { channels }, authorization)
      return { status: answer.status, body: { ...answer.json, request_id: '' } }
    }
    const [first, ...others] = await Promise.all([[foreign.channel], [absentId], [site.channel, absentId], many].map(one => refused(one)))
    expect(first).toMatchObject({ status: 403, body: { code: 'forbidden' } })
    for (const other of others) expect(other).toEqual(first)
    expect([await refused([absentId], administrator), await refused([site.channel], administrator)]).toMatchObject([
      { status: 404 },
      { status: 403 },
    ])
    expect((await ask('GET', '/keys', undefined, site.owner)).json).toMatchObject({ total: 0 })
    expect((await ask('POST', '/keys', { channels: [site.channel, ...many.slice(0, 99)] }, site.owner)).status).toBe(201)
  })

  test.each<[string, object, string]>([
    ['an unknown access', { access: 'write' }, '/body/access'],
    ['no channel', { channels: [] }, '/body/channels'],
    ['a channel twice', { channels: [absentId, 'FFFFFFFF-FFFF-4FFF-8FFF-FFFFFFFFFFFF', absentId] }, '/body/channels/2'],
    ['too many', { channels: Array.from({ length: 101 }, () => absentId) }, '/body/channels'],
    ['what is no id', { channels: ['greenhouse'] }, '/body/channels/0'],
    ['one id', { channels: absentId }, '/body/channels'],
  ])('a scope of %s is malformed, with its place', async (_what, body, pointer) => {
    const { status, json } = await ask('POST', '/keys', body)
    expect([status, (json!.errors as { pointer: string }[])[0]!.pointer]).toEqual([400, pointer])
  })

  test.each([
    { type: 1 },
    { type: 0 },
    { duration: -1 },
    { duration: 1, expires_at: '2099-01-01T00:00:00Z' },
    { expires_at: '2020-01-01T00:00:00Z' },
    { expires_at: 'tomorrow' },
    { expires_at: '9999-12-31T23:59:59-23:59' },
    { name: 'x'.repeat(255) },
  ])('%o is malformed', async body => {
    expect((await ask('POST', '/keys', body)).status).toBe(400)
  })

  test('a key can neither issue keys nor change a password, so its effect ends with its revocation', async () => {
    const authorization = `Bearer ${(await issue()).value}`
    for (const [method, path, body] of [
      ['POST', '/keys', {}],
      ['PATCH', '/password', { old_password: user.password, password: 'another horse battery' }],
    ] as const) {
      const { status, json } = await ask(method, path, body, authorization)
      expect([status, json?.detail]).toEqual([403, expect.stringContaining('an API key is not accepted here')])
    }
  })

  test.each<[access: string, channels: 'own' | 'other' | undefined, read: boolean, publish: boolean]>([
    ['all', undefined, true, true],
    ['read', undefined, true, false],
    ['publish', undefined, false, true],
    ['all', 'own', true, true],
    ['read', 'own', true, false],
    ['publish', 'own', false, true],
    ['all', 'other', false, false],
  ])('with access %s to %s channels it reads: %s, and publishes: %s', async (access, channels, read, publish) => {
    const site = await makeSite(platform().url)
    const foreign = await makeSite(platform().url)
    const { json } = await ask('POST', '/channels/bulk', [{ name: 'other' }], site.owner)
    const [other] = json!.channels as [{ id: string }]
    const scope = channels === undefined ? {} : { channels: [channels === 'own' ? site.channel : other.id] }
    const { id, value } = await issue({ access, ...scope }, site.owner)
    const credential = { scheme: 'Bearer', secret: value } as const
    const on = (channel: string, action: 'read' | 'publish') => platform().plane.access.authorize({ credential, channel, action })
    const refused = { allowed: false, reason: 'forbidden' }
    for (const channel of [site.channel, site.channel.toUpperCase()]) {
      expect(await on(channel, 'read')).toEqual(read ? { allowed: true, publisher: null, owner: expect.any(String) } : refused)
      expect(await on(channel, 'publish')).toEqual(publish ? { allowed: true, publisher: id, owner: expect.any(String) } : refused)
    }
    for (const channel of [foreign.channel, absentId, 'x', '']) {
      expect(await on(channel, 'read')).toEqual(refused)
      expect(await on(channel, 'publish')).toEqual(refused)
    }
    if (channels !== 'own') return
    await ask('DELETE', `/channels/${site.channel}`, undefined, site.owner)
    expect([await on(site.channel, 'read'), await on(site.channel, 'publish')]).toEqual([refused, refused])
  })

  test("an administrator's key of some channels reads none that others have, and one to read may not administer", async () => {
    const authorization = await platform().administrator()
    const { json } = await ask('POST', '/channels/bulk', [{ name: 'own' }], authorization)
    const [{ id: channel }] = json!.channels as [{ id: string }]
    const read = async (secret: string, channel: string): Promise<boolean> =>
      (await platform().plane.access.authorize({ credential: { scheme: 'Bearer', secret }, channel, action: 'read' })).allowed
    const some = await issue({ channels: [channel] }, authorization)
    const reading = await issue({ access: 'read' }, authorization)
    expect([await read(some.value, 'plant/1'), await read(some.value, channel)]).toEqual([false, true])
    expect([await read(reading.value, 'plant/1'), await read(reading.value, channel)]).toEqual([true, true])
    for (const { value } of [some, reading]) {
      expect((await ask('GET', '/users', undefined, `Bearer ${value}`)).status).toBe(403)
      await expect(platform().plane.isAdministrator(value)).rejects.toMatchObject({ code: 'forbidden' })
      await expect(platform().plane.userOf(value)).rejects.toMatchObject({ code: 'forbidden' })
    }
    expect((await ask('GET', `/channels/${absentId}`, undefined, `Bearer ${some.value}`)).status).toBe(403)
  })

  test('it may read the channels of its user until it expires, and publishes within their bounds', async () => {
    const site = await makeSite(platform().url)
    const { id, value } = await issue({ duration: 3600 }, site.owner)
    const access = (action: 'read' | 'publish') =>
      platform().plane.access.authorize({
        credential: { scheme: 'Bearer', secret: value },
        channel: site.channel,
        action,
        address: '10.1.1.1',
      })
    const granted = (await access('read')) as { endsMs: number }
    expect(granted).toMatchObject({ allowed: true, publisher: null })
    expect(Math.abs(granted.endsMs - Date.now() - 3_600_000)).toBeLessThan(300_000)
    const publishing = { allowed: true, publisher: id, endsMs: expect.any(Number) as number }
    expect(await access('publish')).not.toHaveProperty('isBounded')
    const { json } = await ask('GET', '/users/profile', undefined, site.owner)
    await ask('PUT', `/users/${String(json!.id)}/bounded`, { bounded: true }, await platform().administrator())
    expect(await access('publish')).toMatchObject({ ...publishing, isBounded: true })
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(change => ended.push(change))
    await ask('DELETE', `/keys/${id}`, undefined, site.owner)
    forget()
    expect(ended).toMatchObject([{ kind: 'user' }])
    expect(await access('read')).toEqual({ allowed: false, reason: 'unauthenticated' })
  })

  test('an unknown key is limited at its address, on every route; a valid one is not', async () => {
    const wrong = `sluice_${'x'.repeat(43)}`
    const { value } = await issue()
    const status = async (key: string): Promise<number> => (await ask('GET', '/users/profile', undefined, `Bearer ${key}`)).status
    for (let attempt = 0; attempt < 20; attempt++) expect(await status(wrong)).toBe(401)
    expect((await ask('GET', '/users/profile', undefined, `Bearer ${wrong}`)).json).toMatchObject({
      status: 429,
      detail: expect.stringContaining('invalid API key') as string,
    })
    expect(await status(value)).toBe(200)
    const asked = { credential: { scheme: 'Bearer', secret: wrong }, channel: absentId, action: 'read', address: '127.0.0.1' } as const
    expect(await platform().plane.access.authorize(asked)).toMatchObject({ reason: 'limited' })
  })

  test('no value is in the database or the log', async () => {
    const { value } = await issue({ name: 'secret' })
    await ask('GET', '/users/profile', undefined, `Bearer ${value}`)
    await ask('GET', '/users/profile', undefined, `Bearer ${value}x`)
    const rows = await platform().database.query<{ text: string }>('SELECT api_keys::text AS text FROM control_plane.api_keys')
    expect(rows.map(({ text }) => text).join()).not.toContain(value.slice(7))
    expect(platform().logged()).not.toContain(value.slice(7))
  })
})
