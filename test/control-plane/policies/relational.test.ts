// The relational policy store: the conformance suite, and what only a store inside the database promises.

import { beforeAll, expect, test } from 'vitest'
import { newThingId, newUserId } from '../../../control-plane/ids.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { policyStoreConformance } from '../../conformance/policy-store.ts'
import { describeOnDatabases, openPlatform } from '../platform.ts'

describeOnDatabases('relational policies', database => {
  beforeAll(async () => {
    const platform = await openPlatform(database())
    await platform.close()
  })

  policyStoreConformance(() => ({ store: openRelationalPolicies(database()), database: database() }))

  test('policies of a transaction that is rolled back do not hold', async () => {
    const store = openRelationalPolicies(database())
    const [user, thing] = [newUserId(), newThingId()]
    const aborted = database().transaction(async transaction => {
      await store.add([{ subject: user, relation: 'read', object: thing }], transaction)
      throw new Error('aborted')
    })
    await expect(aborted).rejects.toThrow('aborted')
    expect(await store.allows(user, 'read', thing)).toBe(false)
  })
})
