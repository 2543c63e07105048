// Who may register when self-registration is closed, by option or by policy (SPEC §5).

import { afterEach, expect, test } from 'vitest'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import type { Answer } from '../../up/operator.ts'
import { call } from '../../up/operator.ts'
import { describeOnDatabases, openPlatform, type Platform } from '../platform.ts'

let serial = 0

describeOnDatabases('self-registration', database => {
  let platform: Platform
  afterEach(() => platform.close())

  function register(authorization?: string): Promise<Answer> {
    const body = { email: `closed-${serial++}@sluice.example`, password: 'correct horse battery' }
    return call(platform.url, 'POST', '/users', authorization === undefined ? { body } : { body, authorization })
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
