// The policy store in a real OpenFGA server: what every policy store promises, and lists longer than the server returns in one answer.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { newThingId, newUserId } from '../../../../control-plane/ids.ts'
import { openRequests } from '../../../../control-plane/policies/openfga/requests.ts'
import { type OpenFgaPolicies, openOpenFga } from '../../../../control-plane/policies/openfga/store.ts'
import type { Policy } from '../../../../control-plane/policies/policy-store.ts'
import type { Database } from '../../../../database/database.ts'
import { openServer } from '../../../../database/server.ts'
import { policyStoreConformance } from '../../../conformance/policy-store.ts'
import { describeWithOpenFga } from '../../../servers/openfga.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { call } from '../../../up/operator.ts'
import { openPlatform, type Platform, recordingLogger } from '../../platform.ts'
import { optionsOf } from './openfga-options.ts'

describeWithPostgres('OpenFGA store', postgres => {
  describeWithOpenFga('beside a control plane', openfga => {
    let database: Database
    let platform: Platform
    let store: OpenFgaPolicies
    const open = (): OpenFgaPolicies => openOpenFga(database, optionsOf(openfga).openfga, recordingLogger().logger)
    beforeAll(async () => {
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      platform = await openPlatform(database, { policies: optionsOf(openfga) })
      store = open()
    })
    afterAll(async () => {
      await store.close()
      await platform.close()
      await database.close()
    })

    policyStoreConformance(() => ({ store, database }))

    test('the list of shared things contains all 1,500 of them', async () => {
      const [owner, reader] = [await platform.user(), await platform.user()]
      const things: string[] = []
      for (let nth = 0; nth < 2; nth++) {
        const body = Array.from({ length: 750 }, () => ({}))
        const { json } = await call(platform.url, 'POST', '/things/bulk', { authorization: owner.token, body })
        things.push(...(json!['things'] as { id: string }[]).map(({ id }) => id))
      }
      const shared = things.map((object): Policy => ({ subject: reader.id, relation: 'read', object }) as Policy)
      await store.transaction((_, policyWriter) => policyWriter.add(shared))
      const { json } = await call(platform.url, 'GET', '/things?shared=true&limit=100', { authorization: reader.token })
      expect(json!['total']).toBe(1500)
    })

    test('a stream is read only up to its bound, and its error is one of the policy store', async () => {
      const user = newUserId()
      const policies = Array.from({ length: 300 }, (): Policy => ({ subject: user, relation: 'read', object: newThingId() }))
      await store.transaction((_, policyWriter) => policyWriter.add(policies))
      const requests = openRequests(optionsOf(openfga).openfga)
      const [row] = await database.query<{ store_id: string }>('SELECT store_id FROM control_plane.openfga_store')
      const path = `/stores/${row!.store_id}/streamed-list-objects`
      const body = { type: 'entity', relation: 'read', user: `user:${user}` }
      expect(await requests.stream(path, body, 7)).toHaveLength(7)
      const all = (await requests.stream(path, body, 1000)) as { object: string }[]
      expect(all.map(({ object }) => object)).toEqual(expect.arrayContaining(policies.map(({ object }) => `entity:${object}`)))
      await expect(requests.stream(path, { ...body, relation: 'none' }, 7)).rejects.toMatchObject({ code: 'unavailable' })
      await requests.close()
    })

    test('instances that start at once create one store', async () => {
      await database.execute('DELETE FROM control_plane.openfga_store')
      const stores = [1, 2, 3].map(open)
      await Promise.all(stores.map(each => each.start()))
      expect(await database.query('SELECT FROM control_plane.openfga_store')).toHaveLength(1)
      await Promise.all(stores.map(each => each.close()))
    })
  })
})
