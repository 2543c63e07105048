// Users after their registration: profiles, passwords, and the administrator's routes.

import { beforeAll, expect, test } from 'vitest'
import { type Answer, call, makeSite } from '../../up/operator.ts'
import { absentId, describePlatform, failedSignIns, failSignIns, type User } from '../platform.ts'

describePlatform('users', platform => {
  let administrator: string
  let user: User
  let stranger: User
  beforeAll(async () => {
    administrator = await platform().administrator()
    user = await platform().user()
    stranger = await platform().user()
  })
  const ask = (method: string, path: string, body?: object, authorization = user.token): Promise<Answer> =>
    call(platform().url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
  const signIn = (email: string, password: string): Promise<Answer> =>
    call(platform().url, 'POST', '/tokens', { body: { email, password } })

  test('a user can view themselves, and replace their metadata', async () => {
    const own = { id: user.id, email: user.email }
    for (const path of ['/users/profile', `/users/${user.id}`]) expect((await ask('GET', path)).json).toEqual(own)
    const headers = { authorization: user.token, 'content-type': 'text/plain' }
    const body = JSON.stringify({ metadata: { city: 'Ulm' }, email: 'ignored' })
    const changed = await fetch(`${platform().url}/users`, { method: 'PUT', headers, body })
    expect([changed.status, await changed.text()]).toEqual([200, ''])
    const whole = { ...own, metadata: { city: 'Ulm' } }
    expect((await ask('GET', '/users')).json).toEqual({ ...whole, total: 1, offset: 0, limit: 10, users: [whole] })
    expect((await ask('GET', '/users?offset=1&email=')).json).toMatchObject({ total: 1, users: [] })
    expect((await ask('PUT', '/users', { metadata: [] })).status).toBe(400)
  })

  test('a user may be registered with metadata', async () => {
    const body = {
      email: 'with-metadata@sluice.example',
      password: 'correct horse battery',
      metadata: { a: 'x'.repeat(60_000) },
      role: 'ignored',
    }
    const { headers } = await ask('POST', '/users', body, administrator)
    expect((await ask('GET', headers.get('location')!, undefined, administrator)).json).toMatchObject({ metadata: body.metadata })
  })

  test('the administrator finds users by a part of their email, and by metadata, in its order', async () => {
    const emails = async (query: string): Promise<string[]> =>
      ((await ask('GET', `/users?${query}`, undefined, administrator)).json!['users'] as User[]).map(({ email }) => email)
    expect(await emails(`email=${user.email.toUpperCase()}`)).toEqual([user.email])
    const all = await emails('limit=100&email=user-')
    expect(all.length).toBeGreaterThan(1)
    expect(all).toEqual(all.toSorted((one, other) => (one < other ? -1 : 1)))
    await ask('PUT', '/users', { metadata: { vip: user.id } }, stranger.token)
    expect(await emails(`metadata=${encodeURIComponent(JSON.stringify({ vip: user.id }))}`)).toEqual([stranger.email])
    expect((await ask('GET', `/users/${user.id}`, undefined, administrator)).json).toMatchObject({ email: user.email })
  })

  test.each<[string, string, object?]>([
    ['GET', ''],
    ['PUT', '/password', { password: 'another horse battery' }],
    ['PUT', '/disabled', { disabled: true }],
    ['PUT', '/bounded', { bounded: false }],
  ])(
    '%s /users/<id>%s is for the administrator, and an absent user looks like another user to everyone else',
    async (method, suffix, body) => {
      const answers = [
        await ask(method, `/users/${stranger.id}${suffix}`, body),
        await ask(method, `/users/${absentId}${suffix}`, body),
        await ask(method, `/users/${absentId}${suffix}`, body, administrator),
      ]
      expect(answers.map(({ status }) => status)).toEqual([403, 403, 404])
    },
  )

  test('a user changes their password with the old one, which ends all tokens and their access to channels', async () => {
    const { id, email, password, token } = await platform().user()
    const access = () =>
      platform().plane.access.authorize({ credential: { scheme: 'Bearer', secret: token.slice(7) }, channel: id, action: 'read' })
    expect(await access()).toEqual({ allowed: false, reason: 'forbidden' })
    const change = (old: string, next: string) => ask('PATCH', '/password', { old_password: old, password: next }, token)
    expect((await change('wrong horse battery', 'another horse battery')).status).toBe(401)
    expect((await change('', 'another horse battery')).status).toBe(400)
    expect((await change(password, 'short')).json?.errors).toEqual([{ pointer: '/body/password', detail: expect.any(String) }])
    const changed = await change(password, 'another horse battery')
    expect([changed.status, changed.text]).toEqual([201, '{}'])
    expect(await access()).toEqual({ allowed: false, reason: 'unauthenticated' })
    expect((await ask('GET', '/users/profile', undefined, token)).status).toBe(401)
    expect((await signIn(email, password)).status).toBe(401)
    expect((await signIn(email, 'another horse battery')).status).toBe(201)
  })

  test('wrong old passwords count as failed logins of the account', async () => {
    const { email, token } = await platform().user()
    const guess = () => ask('PATCH', '/password', { old_password: 'wrong horse battery', password: 'another horse' }, token)
    const { database } = platform()
    // The delays of nineteen real ones would take 22 s.
    await failSignIns(database, 19, email, '127.0.0.1')
    expect((await guess()).status).toBe(401)
    expect([await failedSignIns(database, email, '127.0.0.1'), await failedSignIns(database, email)]).toEqual([20, 1])
    expect((await guess()).status).toBe(429)
    expect((await signIn(email, 'correct horse battery')).status).toBe(429)
  })

  test('the administrator sets a password, which ends all tokens', async () => {
    const { id, email, token } = await platform().user()
    expect((await ask('PUT', `/users/${id}/password`, { password: 'set by the chief' }, administrator)).status).toBe(204)
    expect((await ask('GET', '/users/profile', undefined, token)).status).toBe(401)
    expect((await signIn(email, 'set by the chief')).status).toBe(201)
    expect((await ask('PUT', `/users/${id}/password`, { password: 'short' }, administrator)).status).toBe(400)
  })

  test('a disabled user is refused immediately, with their things and keys, until they are enabled', async () => {
    const site = await makeSite(platform().url)
    const { id, email } = (await ask('GET', '/users/profile', undefined, site.owner)).json as { id: string; email: string }
    const apiKey = `Bearer ${(await ask('POST', '/keys', { name: 'k' }, site.owner)).json!['value'] as string}`
    const publish = async (): Promise<unknown> => {
      const credential = { scheme: 'Thing', secret: site.device.replace('Thing ', '') } as const
      return platform().plane.access.authorize({ credential, channel: site.channel, action: 'publish' })
    }
    expect(await publish()).toMatchObject({ allowed: true })
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(change => ended.push(change))
    expect((await ask('PUT', `/users/${id}/disabled`, { disabled: true }, administrator)).status).toBe(204)
    forget()
    expect(ended).toEqual([{ kind: 'user', user: id }])
    expect(await publish()).toMatchObject({ allowed: false, reason: 'forbidden', publisher: site.thing })
    expect(await platform().plane.issueToken(email)).toBeUndefined()
    for (const authorization of [site.owner, apiKey])
      expect((await ask('GET', '/users/profile', undefined, authorization)).status).toBe(401)
    expect((await signIn(email, 'correct horse battery')).json).toMatchObject({ detail: 'the email or the password is wrong' })
    expect((await ask('PUT', `/users/${id}/disabled`, { disabled: false }, administrator)).status).toBe(204)
    expect(await publish()).toMatchObject({ allowed: true })
    expect((await ask('GET', '/users/profile', undefined, site.owner)).status).toBe(401)
    expect((await ask('GET', '/users/profile', undefined, apiKey)).status).toBe(200)
    expect((await signIn(email, 'correct horse battery')).status).toBe(201)
    const issued = `Bearer ${(await platform().plane.issueToken(email.toUpperCase()))!.token}`
    expect((await ask('GET', '/users/profile', undefined, issued)).json).toMatchObject({ id })
    expect(await platform().plane.issueToken('unknown@sluice.example')).toBeUndefined()
  })

  test('a state that a user has already leaves no line, and ends no token and no grant', async () => {
    const { id, token } = await platform().user()
    const set = async (what: 'disabled' | 'bounded', value: boolean): Promise<number> =>
      (await ask('PUT', `/users/${id}/${what}`, { [what]: value }, administrator)).status
    const actions = async (): Promise<string[]> => {
      const { json } = await ask('GET', `/audit?object=${id}`, undefined, administrator)
      return (json!['entries'] as { action: string }[]).map(({ action }) => action)
    }
    const ended: unknown[] = []
    const forget = platform().plane.access.onChange(change => ended.push(change))
    expect([await set('disabled', false), await set('bounded', false)]).toEqual([204, 204])
    expect([ended, await actions()]).toEqual([[], ['user.register']])
    expect((await ask('GET', '/users/profile', undefined, token)).status).toBe(200)
    for (const what of ['bounded', 'disabled'] as const) expect([await set(what, true), await set(what, true)]).toEqual([204, 204])
    forget()
    expect([ended.length, await actions()]).toEqual([2, ['user.disable', 'user.bound', 'user.register']])
  })

  test('the administrator cannot disable themselves', async () => {
    const { id } = (await ask('GET', '/users/profile', undefined, administrator)).json as { id: string }
    expect((await ask('PUT', `/users/${id}/disabled`, { disabled: true }, administrator)).status).toBe(409)
  })

  test('an administrator who can sign in always remains, also if two disable each other at once', async () => {
    const second = await platform().user()
    const { id } = (await ask('GET', '/users/profile', undefined, administrator)).json as { id: string }
    const authorities = (subject: string) => ({ subjects: [subject], object: 'authorities', policies: ['member'] })
    const disable = (user: string, disabled: boolean, by: string) => ask('PUT', `/users/${user}/disabled`, { disabled }, by)
    await ask('POST', '/policies', authorities(second.id), administrator)
    expect((await disable(second.id, true, administrator)).status).toBe(204)
    expect((await ask('PUT', '/policies', authorities(id), administrator)).status).toBe(409)
    expect((await disable(second.id, false, administrator)).status).toBe(204)
    const token = `Bearer ${(await signIn(second.email, second.password)).json!['token'] as string}`
    await Promise.all([disable(second.id, true, administrator), disable(id, true, token)])
    const sql = `
      SELECT users.id FROM control_plane.users JOIN control_plane.tuples ON tuples.subject = users.id::text
      WHERE tuples.object = 'authorities' AND disabled_at IS NULL`
    expect(await platform().database.query(sql)).toHaveLength(1)
    await platform().database.query('UPDATE control_plane.users SET disabled_at = NULL')
    administrator = await platform().administrator()
    await ask('PUT', '/policies', authorities(second.id), administrator)
  })
})
