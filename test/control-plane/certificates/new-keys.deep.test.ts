// RSA keys take long to generate: other requests continue meanwhile, and users are served in turn.

import { expect, test } from 'vitest'
import { openNewCsrs } from '../../../control-plane/certificates/csr.ts'
import { newThingId, newUserId } from '../../../control-plane/ids.ts'
import { itself } from '../../../control-plane/writes.ts'
import { openFreshEmbedded } from '../../servers/embedded.ts'
import { call } from '../../up/operator.ts'
import { openPlatform } from '../platform.ts'

const caller = { ...itself, user: newUserId() }

test('RSA keys of one user wait for each other, up to a bound, and another user is served meanwhile', async () => {
  const csrs = openNewCsrs()
  const make = (user: typeof caller.user, address: string) =>
    csrs.make({ ...caller, user, address }, newThingId(), { type: 'rsa', bits: 2048 })
  const ended: string[] = []
  const flood = Array.from({ length: 15 }, () => make(caller.user, '192.0.2.1').finally(() => ended.push('flood')))
  await expect(make(caller.user, '192.0.2.1')).rejects.toMatchObject({
    code: 'too_many_requests',
    message: expect.stringContaining('keys of this account'),
  })
  await make(newUserId(), '192.0.2.2')
  expect(ended.length).toBeLessThanOrEqual(2)
  // An EC key does not wait for them.
  await csrs.make(caller, newThingId(), { type: 'ec' })
  expect(ended.length).toBeLessThan(15)
  await Promise.all(flood)
})

test('the process is not blocked while an RSA key of 4096 bits is generated', async () => {
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  await openNewCsrs().make(caller, newThingId(), { type: 'rsa', bits: 4096 })
  clearInterval(timer)
  expect(turns).toBeGreaterThan(10)
})

test('over HTTP too many concurrent RSA keys are a 429, and an EC key is generated all the same', async () => {
  const platform = await openPlatform(await openFreshEmbedded())
  const { token: authorization } = await platform.user()
  const ask = (path: string, body: object) => call(platform.url, 'POST', path, { authorization, body })
  const thing = ((await ask('/things/bulk', [{ name: 'device' }])).json!['things'] as [{ id: string }])[0].id
  const flood = Array.from({ length: 30 }, () => ask('/certs', { thing_id: thing, rsa_bits: 2048 }))
  expect((await ask('/certs', { thing_id: thing, key_type: 'ec' })).status).toBe(201)
  const answers = await Promise.all(flood)
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 429]))
  expect(Number(answers.find(({ status }) => status === 429)!.headers.get('retry-after'))).toBeGreaterThan(0)
  await platform.close()
  await platform.database.close()
})
