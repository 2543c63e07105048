// Who may register when self-registration is closed, by option or by policy (SPEC §5), how often, and what users who registered themselves may own and change.

import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import type { Answer } from '../../up/operator.ts'
import { call } from '../../up/operator.ts'
import { startVaultStandIn } from '../certificates/authorities/vault-stand-in.ts'
import { administrator, describeOnDatabases, openPlatform, type Platform } from '../platform.ts'
import { fullLayout } from '../provisioning/steps.ts'
import { certificatesOf } from '../provisioning/vault.ts'

let serial = 0

describeOnDatabases('self-registration', database => {
  let platform: Platform
  afterEach(() => platform.close())

  function register(authorization?: string, { url = platform.url, address = '198.51.100.1' } = {}): Promise<Answer> {
    const body = { email: `closed-${serial++}@sluice.example`, password: 'correct horse battery' }
    const headers = { 'x-forwarded-for': address }
    return call(url, 'POST', '/users', authorization === undefined ? { body, headers } : { body, headers, authorization })
  }

  test('closed by option: 401 without a token, before the body is read; 403 for a user; the administrator may', async () => {
    platform = await openPlatform(database(), { allowSelfRegister: false })
    const anonymous = await register()
    expect(anonymous.status).toBe(401)
    expect(anonymous.headers.get('www-authenticate')).toBe('Bearer realm="sluice"')
    expect((await call(platform.url, 'POST', '/users', { body: '{"email":' })).status).toBe(401)
    expect((await register((await platform.user()).token)).status).toBe(403)
    expect((await register(await platform.administrator())).status).toBe(201)
  })

  test('opened again by option, everyone may register', async () => {
    platform = await openPlatform(database(), { allowSelfRegister: true })
    expect((await register()).status).toBe(201)
    expect((await register((await platform.user()).token)).status).toBe(201)
  })

  test('one network registers a number of users in an hour, at all instances together, whatever was refused, and a /48 four times as many; others, and the administrator, are not limited by that', async () => {
    platform = await openPlatform(database(), { registrationsPerHour: 3 })
    const { token } = await platform.user()
    const other = await openPlatform(database(), { registrationsPerHour: 3 })
    const address = (nth: number): string => `2001:db8:0:7::${nth}`
    expect((await register(undefined, { address: address(1) })).status).toBe(201)
    expect((await register(token, { address: address(2) })).status).toBe(201)
    const taken = { body: { email: administrator.email, password: 'correct horse battery' }, headers: { 'x-forwarded-for': address(4) } }
    const registerTaken = async (): Promise<number> => (await call(platform.url, 'POST', '/users', taken)).status
    for (let nth = 0; nth < 3; nth++) expect(await registerTaken()).toBe(409)
    expect((await register(undefined, { url: other.url, address: address(3) })).status).toBe(201)
    for (const { url } of [platform, other, platform]) {
      const refused = await register(undefined, { url, address: address(4) })
      expect([refused.status, refused.text]).toEqual([429, expect.stringMatching(/have registered 3 users within an hour/)])
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3_500)
      expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(3_600)
    }
    expect(await registerTaken()).toBe(429)
    expect((await register(await platform.administrator(), { address: address(4) })).status).toBe(201)
    // Three of this site have registered.
    for (let nth = 3; nth < 12; nth++) expect((await register(undefined, { address: `2001:db8:0:1${nth}::1` })).status).toBe(201)
    const fromSite = await register(undefined, { address: '2001:db8:0:8::1' })
    expect([fromSite.status, fromSite.text]).toEqual([429, expect.stringMatching(/have registered 12 users within an hour/)])
    expect(Number(fromSite.headers.get('retry-after'))).toBeGreaterThan(3_500)
    expect((await register(undefined, { address: '2001:db8:1:7::1' })).status).toBe(201)
    await database().query("UPDATE control_plane.failed_attempts SET ends_at = now() - interval '1 second'")
    const later = await openPlatform(database(), { registrationsPerHour: 3 })
    expect((await register(undefined, { url: later.url, address: address(4) })).status).toBe(201)
    await Promise.all([other.close(), later.close()])
  })

  /** A user who registered themselves. */
  async function strange(): Promise<{ path: string; email: string; token: string }> {
    const credentials = { email: `strange-${serial++}@sluice.example`, password: 'correct horse battery' }
    const { headers } = await call(platform.url, 'POST', '/users', { body: credentials })
    return { path: headers.get('location')!, email: credentials.email, token: await platform.signIn(credentials) }
  }

  /** @returns lets minutes pass for what is counted in memory */
  function openClock(): () => void {
    const now = performance.now.bind(performance)
    let passedMs = 0
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs)
    onTestFinished(() => clock.mockRestore())
    return () => void (passedMs += 240_000)
  }

  const named = (count: number): object[] => Array.from({ length: count }, () => ({ name: 'x' }))

  test('a user who registered themselves owns a bounded number of things, channels and API keys, until an administrator lifts that', async () => {
    platform = await openPlatform(database(), { boundSelfRegistered: true })
    const passMinutes = openClock()
    const { url, plane } = platform
    const { path, email, token } = await strange()
    const byAdministrator = await platform.administrator()
    const refusal = new RegExp(`at most \\d+ (things|channels|API keys), .*PUT ${path}/bounded`)
    const create = async (route: string, body: object = { name: 'x' }, authorization = token): Promise<number> => {
      passMinutes()
      const { status, text } = await call(url, 'POST', route, { authorization, body })
      if (status === 409) expect(text).toMatch(refusal)
      return status
    }
    expect([await create('/things/bulk', named(999)), await create('/things/bulk', named(2))]).toEqual([201, 409])
    expect([await create('/things'), await create('/things')]).toEqual([201, 409])
    expect([await create('/channels/bulk', named(101)), await create('/channels/bulk', named(100))]).toEqual([409, 201])
    expect(await create('/channels')).toBe(409)
    for (let nth = 0; nth < 100; nth++) expect(await create('/keys')).toBe(201)
    expect(await create('/keys')).toBe(409)
    const device = { external_id: `bounded-${serial++}`, external_key: 'a secret external key' }
    expect([await create('/mapping', device), await create('/mapping?dry_run=true', device)]).toEqual([409, 409])
    const other = await platform.user()
    expect([await create('/things/bulk', named(1_000), other.token), await create('/things', undefined, other.token)]).toEqual([201, 201])

    const view = async () => (await call(url, 'GET', path, { authorization: byAdministrator })).json
    const setBounded = async (bounded: boolean, authorization = byAdministrator): Promise<number> =>
      (await call(url, 'PUT', `${path}/bounded`, { authorization, body: { bounded } })).status
    expect(await view()).toMatchObject({ email, bounded: true })
    expect([await setBounded(false, token), await setBounded(false, other.token)]).toEqual([403, 403])
    const ended: unknown[] = []
    const forget = plane.access.onChange(change => ended.push(change))
    expect(await setBounded(false)).toBe(204)
    forget()
    expect(ended).toEqual([{ kind: 'user', user: path.replace('/users/', '') }])
    expect(await view()).not.toHaveProperty('bounded')
    for (const route of ['/things', '/channels', '/keys']) expect(await create(route)).toBe(201)
    expect(await create('/mapping', device)).toBe(201)
    expect([await setBounded(true), await create('/keys')]).toEqual([204, 409])
  })

  test('the changes of a user who registered themselves name a bounded number of ids a minute, until an administrator lifts that', async () => {
    platform = await openPlatform(database(), { boundSelfRegistered: true })
    const passMinutes = openClock()
    const { url } = platform
    const { path, token } = await strange()
    const create = (count: number, authorization = token): Promise<Answer> =>
      call(url, 'POST', '/things/bulk', { authorization, body: named(count) })
    expect((await create(400)).status).toBe(201)
    const refused = await create(1)
    expect([refused.status, refused.json!['detail']]).toEqual([
      429,
      expect.stringMatching(new RegExp(`name at most 300 ids a minute: retry after \\d+ s, .*PUT ${path}/bounded`)),
    ])
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(21)
    expect((await call(url, 'GET', '/things', { authorization: token })).json).toMatchObject({ total: 400 })
    const other = await platform.user()
    expect([(await create(400, other.token)).status, (await create(1, other.token)).status]).toEqual([201, 201])
    passMinutes()
    expect([(await create(400)).status, (await create(1)).status]).toEqual([201, 429])
    const lifted = { authorization: await platform.administrator(), body: { bounded: false } }
    expect((await call(url, 'PUT', `${path}/bounded`, lifted)).status).toBe(204)
    expect((await create(1)).status).toBe(201)
  })

  test('a mapping with certificates meets the bounds before anything is signed', async () => {
    const vault = await startVaultStandIn()
    onTestFinished(() => vault.stop())
    const provisioning = { layout: fullLayout, externalKeyBytesMin: 8 }
    platform = await openPlatform(database(), { boundSelfRegistered: true, provisioning, certificates: certificatesOf(vault) })
    const passMinutes = openClock()
    const { token: authorization } = await strange()
    const ask = async (route: string, body: object): Promise<number> => {
      passMinutes()
      return (await call(platform.url, 'POST', route, { authorization, body })).status
    }
    const map = (): Promise<number> => ask('/mapping', { external_id: `signed-${serial++}`, external_key: 'a secret external key' })
    expect([await ask('/things/bulk', named(997)), await map()]).toEqual([201, 201])
    // An authority that is asked now makes it a 503.
    vault.behaves('sealed')
    expect(await map()).toBe(409)
  })

  test('closed by removing the policy, it stays closed over the next start', async () => {
    platform = await openPlatform(database())
    const policies = openRelationalPolicies(database())
    await policies.transaction((_, policyWriter) => policyWriter.remove([{ subject: '*', relation: 'create', object: 'users' }]))
    expect((await register()).status).toBe(401)
    await platform.close()
    platform = await openPlatform(database())
    expect((await register()).status).toBe(401)
    expect((await register((await platform.user()).token)).status).toBe(403)
    expect((await register(await platform.administrator())).status).toBe(201)
  })
})
