// The relational policy store: what every policy store promises.

import { beforeAll } from 'vitest'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { policyStoreConformance } from '../../conformance/policy-store.ts'
import { describeOnDatabases, openPlatform } from '../platform.ts'

describeOnDatabases('relational policies', database => {
  beforeAll(async () => {
    const platform = await openPlatform(database())
    await platform.close()
  })

  policyStoreConformance(() => ({ store: openRelationalPolicies(database()), database: database() }))
})
