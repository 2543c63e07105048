// The policy store in a real OpenFGA server: what every policy store promises.

import { describe, expect, test } from 'vitest'
import { openOpenFga } from '../../../../control-plane/policies/openfga/index.ts'
import type { OpenFgaPolicies } from '../../../../control-plane/policies/openfga/store.ts'
import { policyStoreConformance } from '../../../conformance/policy-store.ts'
import { describeWithOpenFga } from '../../../servers/openfga.ts'
import { describeOnDatabases, openPlatform, recordingLogger } from '../../platform.ts'
import { optionsOf } from './openfga-options.ts'

describeWithOpenFga('OpenFGA', openfga => {
  describeOnDatabases('store', database => {
    describe('beside a control plane', () => {
      let store: OpenFgaPolicies | undefined
      const open = async (): Promise<void> => {
        if (store !== undefined) return
        const platform = await openPlatform(database(), { policies: optionsOf(openfga) })
        await platform.close()
        store = openOpenFga(database(), optionsOf(openfga).openfga, recordingLogger().logger)
      }
      policyStoreConformance(async () => {
        await open()
        return { store: store!, database: database() }
      })

      test('instances that start at once make one store', async () => {
        await open()
        await database().execute('DELETE FROM control_plane.openfga_store')
        const stores = [1, 2, 3].map(() => openOpenFga(database(), optionsOf(openfga).openfga, recordingLogger().logger))
        await Promise.all(stores.map(each => each.start()))
        expect(await database().query('SELECT FROM control_plane.openfga_store')).toHaveLength(1)
        await Promise.all(stores.map(each => each.close()))
      })
    })
  })
})
