// RSA keys that are made here take long: what else goes on meanwhile, and for whom.

import { expect, test } from 'vitest'
import { openNewCsrs } from '../../../control-plane/certificates/csr.ts'
import { newThingId, newUserId } from '../../../control-plane/ids.ts'
import { itself } from '../../../control-plane/writes.ts'

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
  // A key of a curve waits for none of them.
  await csrs.make(caller, newThingId(), { type: 'ec' })
  expect(ended.length).toBeLessThan(15)
  await Promise.all(flood)
})

test('while an RSA key of 4096 bits is made the process goes on', async () => {
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  await openNewCsrs().make(caller, newThingId(), { type: 'rsa', bits: 4096 })
  clearInterval(timer)
  expect(turns).toBeGreaterThan(10)
})
