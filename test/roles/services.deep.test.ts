// `sluice api --services …` as separate processes: each serves only the requested services, and together they are one platform.

import { expect, test } from 'vitest'
import { describeWithPostgres } from '../servers/postgres.ts'
import { call } from '../up/operator.ts'
import { administrator, apiEnvironment, apiWords, type Role, spawnRole, whenReady } from './processes.ts'

describeWithPostgres('separate services', postgres => {
  test('a device fetches from a bootstrap-only process what another one created; mappings, certificates and users are 404 there', async () => {
    const environment = apiEnvironment(await postgres.createDatabase())
    const start = (services: string): Promise<Role> => whenReady(spawnRole([...apiWords, '--services', services], environment))
    const core = await start('core')
    const [bootstrap, provision, certs] = await Promise.all(['bootstrap', 'provision', 'certs'].map(start))
    const { json } = await call(core.url, 'POST', '/tokens', { body: administrator })
    const authorization = `Bearer ${json!['token'] as string}`
    const device = { external_id: 'gateway', external_key: 'external key' }

    const requests = {
      core: ['GET', '/things'],
      provision: ['POST', '/mapping', device],
      bootstrap: ['GET', '/things/bootstrap/gateway'],
      certs: ['GET', '/certs/crl'],
    } as const
    const roles = { core, provision, bootstrap, certs }
    const statuses: Record<string, unknown> = {}
    for (const [service, role] of Object.entries(roles)) {
      const answers = Object.values(requests).map(([method, path, body]) =>
        call(role!.url, method, path, { authorization, ...(body && { body }) }),
      )
      statuses[service] = (await Promise.all(answers)).map(({ status }) => status)
    }
    expect(statuses).toEqual({
      core: [200, 404, 404, 404],
      provision: [404, 201, 404, 404],
      // A token is not an external key.
      bootstrap: [404, 404, 401, 404],
      certs: [404, 404, 404, 200],
    })
    const fetched = await call(bootstrap!.url, 'GET', '/things/bootstrap/gateway', { authorization: `Thing ${device.external_key}` })
    expect([fetched.status, fetched.json]).toMatchObject([200, { thing_id: expect.any(String), thing_key: expect.any(String) }])
    for (const role of Object.values(roles)) expect(await role!.stop()).toBe(0)
  })
})
