// Who may register when self-registration is closed, by option or by policy (SPEC §5), and how often.

import { afterEach, expect, test } from 'vitest'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import type { Answer } from '../../up/operator.ts'
import { call } from '../../up/operator.ts'
import { administrator, describeOnDatabases, openPlatform, type Platform } from '../platform.ts'

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

  test('one network registers a number of users in an hour, at all instances together, whatever was refused; others, and the administrator, are not limited by that', async () => {
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
    expect((await register(undefined, { address: '2001:db8:0:8::1' })).status).toBe(201)
    await database().query("UPDATE control_plane.failed_attempts SET ends_at = now() - interval '1 second'")
    const later = await openPlatform(database(), { registrationsPerHour: 3 })
    expect((await register(undefined, { url: later.url, address: address(4) })).status).toBe(201)
    await Promise.all([other.close(), later.close()])
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
