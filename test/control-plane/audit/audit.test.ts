// The audit log over HTTP: each change adds its line, and nothing else does; it contains no secrets.

import { beforeAll, expect, test } from 'vitest'
import { auditActions, openAuditLog } from '../../../control-plane/audit/store.ts'
import { itself } from '../../../control-plane/writes.ts'
import { dateTimes, otherTexts } from '../../transformers/json/times/rfc3339-texts.ts'
import { type Answer, call } from '../../up/operator.ts'
import { makeCsr } from '../certificates/openssl.ts'
import { absentId, describePlatform, type User } from '../platform.ts'

interface Entry {
  readonly at: string
  readonly user_id?: string
  readonly address?: string
  readonly request_id?: string
  readonly action: string
  readonly objects: string[]
  readonly relations: string[]
}

describePlatform('audit', platform => {
  let administrator: string
  let user: User
  let other: User
  beforeAll(async () => {
    administrator = await platform().administrator()
    user = await platform().user()
    other = await platform().user()
  })
  const as = (authorization: string) => (method: string, path: string, body?: object) =>
    call(platform().url, method, path, { authorization, ...(body === undefined ? {} : { body }) })
  const read = async (query: string): Promise<{ total: number; entries: Entry[] }> => {
    const { status, json } = await as(administrator)('GET', `/audit?${query}`)
    expect(status).toBe(200)
    return json as never
  }
  const idOf = ({ headers }: Answer): string => headers.get('location')!.replace(/^\/\w+\//, '')

  test('every kind of change adds one line, in the order of the changes, and none contains a secret', async () => {
    const began = new Date().toISOString()
    const ask = as(user.token)
    const secrets: string[] = [user.password, 'secret name', 'secret@sluice.example', 'another horse battery', 'a third horse battery']
    const thing = idOf(await ask('POST', '/things', { name: 'secret name', metadata: { note: 'secret name' } }))
    const { json: key } = await ask('GET', `/things/${thing}`)
    const channel = idOf(await ask('POST', '/channels', { name: 'secret name' }))
    const [users, things] = [idOf(await ask('POST', '/groups', { name: 'secret name' })), idOf(await ask('POST', '/groups', { name: 'g' }))]
    const pair = { channel_ids: [channel], thing_ids: [thing] }
    const share = { user_ids: [other.id], policies: ['read'] }
    await ask('PUT', `/things/${thing}`, { name: 'secret name' })
    const { json: rotated } = await ask('PATCH', `/things/${thing}/key`, {})
    await ask('PUT', `/channels/${channel}`, { name: 'secret name' })
    await ask('PUT', `/groups/${users}`, { name: 'secret name' })
    await ask('POST', '/connect', pair)
    await ask('PUT', '/disconnect', pair)
    await ask('POST', `/things/${thing}/share`, share)
    await ask('DELETE', `/things/${thing}/share`, share)
    await ask('POST', `/groups/${users}/members`, { type: 'users', members: [other.id] })
    await ask('POST', `/groups/${users}/share`, { thing_group_id: things })
    await ask('DELETE', `/groups/${users}/share`, { thing_group_id: things })
    await ask('DELETE', `/groups/${users}/members`, { type: 'users', members: [other.id] })
    const { json: issued } = await ask('POST', '/keys', { name: 'secret name' })
    await ask('DELETE', `/keys/${issued!.id as string}`)
    const external = { external_id: 'secret name', external_key: 'a secret external key' }
    const configured = (await ask('POST', '/things/configs', { ...external, thing_id: thing, client_key: 'secret name' })).headers
    expect(configured.get('location')).toBe(`/things/configs/${thing}`)
    await ask('PUT', `/things/configs/${thing}`, { content: 'secret name' })
    await ask('PUT', `/things/configs/${thing}`, { enabled: false })
    await ask('PUT', `/things/configs/${thing}`, { enabled: true })
    await as(`Thing ${external.external_key}`)('GET', '/things/bootstrap/secret%20name')
    await as(`Thing ${external.external_key}`)('POST', '/things/bootstrap/secret%20name/ack')
    const { csr } = await makeCsr('/')
    const issuedToDevice = await as(`Thing ${external.external_key}`)('POST', '/things/bootstrap/secret%20name/csr', { csr })
    const deviceSerial = issuedToDevice.json!.Serial as string
    await ask('DELETE', '/certs/revoke', { thing_id: thing, serial: deviceSerial })
    await ask('DELETE', `/things/configs/${thing}`)
    const mapping = await ask('POST', '/mapping', external)
    const mapped = (kind: 'things' | 'channels') => (mapping.json![kind] as { id: string }[]).map(({ id }) => id)
    const [[gateway = ''], [control = '', data = '']] = [mapped('things'), mapped('channels')]
    await ask('DELETE', '/mapping/secret%20name')
    await ask('PUT', '/users', { metadata: { note: 'secret name' } })
    const { json: certified } = await ask('POST', '/certs', { thing_id: thing, key_type: 'ec' })
    const serial = certified!.Serial as string
    const { json: renewed } = await ask('POST', `/certs/${serial}/renew`, {})
    await ask('DELETE', '/certs/revoke', { thing_id: thing, serial })
    await ask('DELETE', `/groups/${users}`)
    await ask('DELETE', `/channels/${channel}`)
    await ask('DELETE', `/things/${thing}`)
    secrets.push(certified!.ClientKey as string, renewed!.ClientKey as string)
    secrets.push(external.external_key, key!.key as string, rotated!.key as string, issued!.value as string)
    const { status } = await ask('PATCH', '/password', { old_password: user.password, password: 'another horse battery' })
    expect(status).toBe(201)
    const registered = await as(administrator)('POST', '/users', { email: 'secret@sluice.example', password: 'a third horse battery' })
    const made = idOf(registered)
    const object = '0f8a6e7c-3c1b-4a55-9d0f-6f1f5a1f1c11'
    const policy = { subjects: [made], object: 'users', policies: ['create'] }
    const rule = as(administrator)
    await rule('POST', '/policies', policy)
    await rule('PUT', '/policies', policy)
    await rule('PUT', `/users/${made}/disabled`, { disabled: true })
    await rule('PUT', `/users/${made}/disabled`, { disabled: false })
    await rule('PUT', `/users/${made}/bounded`, { bounded: true })
    await rule('PUT', `/users/${made}/bounded`, { bounded: false })
    await rule('PUT', `/users/${made}/password`, { password: 'another horse battery' })

    const { total, entries } = await read(`from=${began}&limit=100`)
    const line = (action: string, objects: string[], relations: string[] = []) => ({ user_id: user.id, action, objects, relations })
    const byAdministrator = (action: string, objects: string[], relations: string[] = []) => ({ action, objects, relations })
    const wanted = [
      line('thing.create', [thing]),
      line('channel.create', [channel]),
      line('group.create', [users]),
      line('group.create', [things]),
      line('thing.update', [thing]),
      line('thing.rotate-key', [thing]),
      line('channel.update', [channel]),
      line('group.update', [users]),
      line('connect', [channel, thing]),
      line('disconnect', [channel, thing]),
      line('thing.share', [thing, other.id], ['read']),
      line('thing.unshare', [thing, other.id], ['read']),
      line('group.add-members', [users, other.id]),
      line('group.share', [users, things]),
      line('group.unshare', [users, things]),
      line('group.remove-members', [users, other.id]),
      line('key.issue', [issued!.id as string]),
      line('key.revoke', [issued!.id as string]),
      line('bootstrap.create', [thing]),
      line('bootstrap.update', [thing]),
      line('bootstrap.disable', [thing]),
      line('bootstrap.enable', [thing]),
      { action: 'bootstrap.acknowledge', objects: [thing], relations: [] },
      { action: 'certificate.issue', objects: [thing, deviceSerial], relations: [] },
      { action: 'bootstrap.certify', objects: [thing, deviceSerial], relations: [] },
      line('certificate.revoke', [thing, deviceSerial]),
      line('bootstrap.delete', [thing]),
      line('channel.create', [control, data]),
      line('thing.create', [gateway]),
      line('connect', [control, data, gateway]),
      line('bootstrap.create', [gateway]),
      line('mapping.create', [gateway, control, data]),
      line('channel.delete', [control]),
      line('channel.delete', [data]),
      line('thing.delete', [gateway]),
      line('mapping.delete', [gateway, control, data]),
      line('user.update', [user.id]),
      line('certificate.issue', [thing, serial]),
      line('certificate.issue', [thing, renewed!.Serial as string]),
      line('certificate.renew', [thing, serial, renewed!.Serial as string]),
      line('certificate.revoke', [thing, serial]),
      line('group.delete', [users]),
      line('channel.delete', [channel]),
      line('certificate.revoke', [thing, renewed!.Serial as string]),
      line('thing.delete', [thing]),
      line('user.change-password', [user.id]),
      byAdministrator('user.register', [made]),
      byAdministrator('policy.add', ['users', made], ['create']),
      byAdministrator('policy.remove', ['users', made], ['create']),
      byAdministrator('user.disable', [made]),
      byAdministrator('user.enable', [made]),
      byAdministrator('user.bound', [made]),
      byAdministrator('user.raise', [made]),
      byAdministrator('user.reset-password', [made]),
    ]
    expect(total).toBe(wanted.length)
    expect(entries.toReversed()).toEqual(wanted.map(entry => expect.objectContaining({ ...entry, address: '127.0.0.1' })))
    const elsewhere = /^(policy\.repair|secrets\.rotate|messages\.erase|user\.sign-in-by-code|dead-letters\..*|demo\..*)$/
    expect(auditActions.filter(action => !elsewhere.test(action) && !wanted.some(entry => entry.action === action))).toEqual([])
    expect(entries.every(({ request_id: request, at }) => request !== undefined && at >= began)).toBe(true)
    expect(registered.headers.get('x-request-id')).toBe(entries.find(({ action }) => action === 'user.register')!.request_id)
    const everything = JSON.stringify([entries, await rule('GET', `/audit?object=${object}`), platform().logged()])
    for (const secret of secrets) expect(everything, secret).not.toContain(secret)
    user = other
  })

  test('lines are found by user, object, action and time, and pages follow one another', async () => {
    const ask = as(other.token)
    const made: string[] = []
    for (let count = 0; count < 3; count++) made.push(idOf(await ask('POST', '/channels', { name: 'c' })))
    const mine = await read(`user_id=${other.id}&action=channel.create`)
    expect([mine.total, mine.entries.map(({ objects }) => objects[0])]).toEqual([3, made.toReversed()])
    expect((await read(`object=${made[1]!.toUpperCase()}`)).total).toBe(1)
    const [newest, middle] = mine.entries
    expect((await read(`user_id=${other.id}&action=channel.create&from=${newest!.at}`)).total).toBe(1)
    expect((await read(`user_id=${other.id}&action=channel.create&to=${middle!.at}`)).total).toBe(1)
    expect((await read(`user_id=${other.id}&action=channel.create&offset=1&limit=1`)).entries).toEqual([middle])
    // A day ahead of UTC, so the day before.
    const dayBefore = `${middle!.at.slice(0, 10)}T00:00:00.000001%2B23:59`
    expect((await read(`user_id=${other.id}&action=channel.create&from=${dayBefore}`)).total).toBe(3)
  })

  test('an instant is any text of RFC 3339, and no other', async () => {
    const [entry] = (await read(`user_id=${other.id}&action=channel.create`)).entries
    const at = new Date(entry!.at)
    const found = async (timestamp: string): Promise<boolean> =>
      (await read(`user_id=${other.id}&from=${encodeURIComponent(timestamp)}`)).total > 0
    const [ahead, behind] = [1, -1].map(sign => new Date(at.getTime() + sign * (23 * 60 + 59) * 60_000).toISOString().replace('Z', ''))
    expect(await found(`${ahead}+23:59`)).toBe(true)
    expect(await found(`${behind}-23:59`)).toBe(true)
    expect(await found(new Date(at.getTime() + 60_000).toISOString())).toBe(false)
    expect(await found('9999-12-31T23:59:59Z')).toBe(false)

    const statusOf = async (timestamp: string): Promise<number> => (await as(administrator)('GET', `/audit?from=${timestamp}`)).status
    for (const [text] of dateTimes) expect([text, await statusOf(encodeURIComponent(text))]).toEqual([text, 200])
    for (const text of otherTexts.filter(one => one !== '')) expect([text, await statusOf(encodeURIComponent(text))]).toEqual([text, 400])
    // A + that is not escaped.
    expect(await statusOf('2026-11-28T10:00:00+01:00')).toBe(200)
  })

  test('only the administrator can read it, and invalid filters are named', async () => {
    expect((await as(other.token)('GET', '/audit')).status).toBe(403)
    expect((await call(platform().url, 'GET', '/audit', {})).status).toBe(401)
    const outside = ['from=0000-01-01T00:00:00Z', 'to=9999-12-31T23:59:59-23:59', 'from=1970-01-01T00:00:00%2B00:01']
    for (const query of ['user_id=x', 'action=thing.stolen', 'from=yesterday', 'limit=0', 'offset=10001', ...outside])
      expect((await as(administrator)('GET', `/audit?${query}`)).status, query).toBe(400)
  })

  test('a refused or undone change adds no line', async () => {
    const thing = idOf(await as(other.token)('POST', '/things', { name: 't' }))
    const before = (await read('')).total
    const stranger = await platform().user()
    const began = (await read(`object=${thing}`)).total
    const ask = as(stranger.token)
    for (const [method, path, body] of [
      ['DELETE', `/things/${thing}`],
      ['PUT', `/things/${thing}`, { name: 'x' }],
      ['POST', '/connect', { channel_ids: [absentId], thing_ids: [thing] }],
      ['POST', `/things/${thing}/share`, { user_ids: [stranger.id], policies: ['read'] }],
    ] as const)
      expect((await ask(method, path, body)).status).toBe(403)
    expect((await as(other.token)('POST', `/things/${thing}/share`, { user_ids: [absentId], policies: ['read'] })).status).toBe(403)
    const stale = { authorization: other.token, headers: { 'if-match': '"99"' } }
    expect((await call(platform().url, 'DELETE', `/things/${thing}`, stale)).status).toBe(412)
    expect((await read(`object=${thing}`)).total).toBe(began)
    // Only the stranger's registration was added.
    expect((await read('')).total).toBe(before + 1)
  })

  test('a request that changes nothing adds no line, and a line names only what changed', async () => {
    const ask = as(other.token)
    const [thing, second] = [idOf(await ask('POST', '/things', { name: 't' })), idOf(await ask('POST', '/things', { name: 't' }))]
    const [channel, group] = [idOf(await ask('POST', '/channels', { name: 'c' })), idOf(await ask('POST', '/groups', { name: 'g' }))]
    const stranger = await platform().user()
    const began = new Date().toISOString()
    const pairs = (...things: string[]) => ({ channel_ids: [channel], thing_ids: things })
    const share = (...users: string[]) => ({ user_ids: users, policies: ['read'] })
    const policy = (...subjects: string[]) => ({ subjects, object: thing, policies: ['write'] })
    const users = (...members: string[]) => ({ type: 'users', members })
    const things = (...members: string[]) => ({ type: 'things', members })
    const steps: [string, string, object][] = [
      ['POST', '/connect', pairs(thing)],
      ['POST', '/connect', pairs(thing, second)],
      ['PUT', '/disconnect', pairs(thing)],
      ['PUT', '/disconnect', pairs(thing, second)],
      ['POST', `/things/${thing}/share`, share(stranger.id)],
      ['DELETE', `/things/${thing}/share`, share(absentId, stranger.id)],
      ['POST', `/groups/${group}/members`, users(other.id, stranger.id)],
      ['POST', `/groups/${group}/members`, things(thing)],
      ['POST', `/groups/${group}/members`, things(thing, second)],
      ['DELETE', `/groups/${group}/members`, { members: [absentId, stranger.id, second] }],
      ['POST', `/groups/${group}/share`, { thing_group_id: group }],
      ['DELETE', `/groups/${group}/share`, { thing_group_id: group }],
      ['POST', '/policies', policy(stranger.id)],
      ['PUT', '/policies', policy(absentId, stranger.id)],
    ]
    for (const [method, path, body] of steps) {
      const by = path === '/policies' ? as(administrator) : ask
      for (const time of ['first', 'again']) expect((await by(method, path, body)).status, `${method} ${path} ${time}`).toBeLessThan(300)
    }
    expect((await read(`from=${began}&limit=100`)).entries.toReversed().map(({ objects }) => objects)).toEqual([
      [channel, thing],
      [channel, second],
      [channel, thing],
      [channel, second],
      [thing, stranger.id],
      [thing, stranger.id],
      [group, stranger.id],
      [group, thing],
      [group, second],
      [group, stranger.id, second],
      [group, group],
      [group, group],
      [thing, stranger.id],
      [thing, stranger.id],
    ])
  })

  test('lines that are too old are no longer shown, and adding a line removes them', async () => {
    const { database } = platform()
    const count = async (): Promise<number> =>
      Number((await database.query<{ n: bigint }>(`SELECT count(*) AS n FROM control_plane.audit WHERE request = 'old'`))[0]!.n)
    await database.execute(`
      INSERT INTO control_plane.audit (at, request, action, objects, relations)
      SELECT now() - interval '366 days', 'old', 'connect', '{}', '{}' FROM generate_series(1, 5)`)
    const { total } = await read('')
    expect((await read(`to=${new Date(Date.now() - 366 * 86_400_000).toISOString()}`)).total).toBe(0)
    const left: number[] = []
    for (let added = 1; added <= 3; added++) {
      await as(other.token)('POST', '/channels', { name: 'c' })
      left.push(await count())
    }
    expect(left).toEqual([3, 1, 0])
    expect((await read('')).total).toBe(total + 3)
    const kept = openAuditLog(database, { retentionDays: 1 })
    await kept.add(database, itself, 'policy.repair', [])
    const by = { user: other.id as never, signal: new AbortController().signal }
    expect((await kept.list({ action: 'policy.repair' }, { offset: 0, limit: 1 }, by)).items).toEqual([
      { at: expect.any(String), actor: itself, action: 'policy.repair', objects: [], relations: [] },
    ])
  })
})
