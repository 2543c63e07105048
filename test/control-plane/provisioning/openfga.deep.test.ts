// Mappings whose policies are in OpenFGA: if these cannot be delivered nothing is left, and until they are delivered the mapping is hidden.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ChannelId } from '../../../control-plane/ids.ts'
import type { Layout } from '../../../control-plane/provisioning/layout.ts'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { describeWithOpenFga } from '../../servers/openfga.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { type Answer, call } from '../../up/operator.ts'
import { startVaultStandIn, type VaultStandIn } from '../certificates/authorities/vault-stand-in.ts'
import { openPlatform, type Platform } from '../platform.ts'
import { fullLayout, snapshot } from './steps.ts'
import { certificatesOf } from './vault.ts'

describeWithPostgres('a mapping', postgres => {
  describeWithOpenFga('with its policies in OpenFGA', openfga => {
    let database: Database
    let open: (layout?: Layout) => Promise<Platform>
    let platform: Platform
    let other: Platform
    let vault: VaultStandIn
    let front: Server
    let token: string
    /** Before a write of policies reaches the store. */
    let beforeWrite: () => Promise<void> = () => Promise.resolve()
    beforeAll(async () => {
      front = createServer((request, response) => {
        void (async () => {
          const body = await buffer(request)
          if (request.url!.endsWith('/write') && body.includes('"writes"')) await beforeWrite()
          const headers = { 'content-type': 'application/json', authorization: request.headers.authorization! }
          const answer = await fetch(openfga.url + request.url!, { method: 'POST', headers, body })
          response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
        })().catch((error: unknown) => response.writeHead(500).end(String(error)))
      })
      await new Promise<void>(resolve => void front.listen(0, '127.0.0.1', resolve))
      const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      vault = await startVaultStandIn()
      open = (layout = fullLayout) =>
        openPlatform(database, {
          policies: { store: 'openfga', openfga: { url, key: openfga.key, timeoutMs: 60_000 } },
          provisioning: { layout, externalKeyBytesMin: 8 },
          certificates: certificatesOf(vault),
        })
      platform = await open()
      other = await open()
      token = await platform.administrator()
    })
    afterAll(async () => {
      await platform.close()
      await other.close()
      await database.close()
      await vault.stop()
      front.close()
    })
    const map = (external_id: string, on = platform): Promise<Answer> =>
      call(on.url, 'POST', '/mapping', { authorization: token, body: { external_id, external_key: 'external key' } })
    const fetchBy = (external_id: string): Promise<Answer> =>
      call(platform.url, 'GET', `/things/bootstrap/${external_id}`, { authorization: 'Thing external key' })

    test('if policies are refused, only rows for their removal are left, and the same request then succeeds', async () => {
      // Rows of the outbox stay until the policies that may have arrived are removed, and revoked certificates stay for the CRL.
      const left = ['control_plane.policy_outbox', 'control_plane.certificates']
      const before = await snapshot(database, left)
      beforeWrite = () => Promise.reject(new Error('no policies are taken'))
      expect((await map('refused')).status).toBe(503)
      beforeWrite = () => Promise.resolve()
      expect(await snapshot(database, left)).toEqual(before)
      await expect.poll(() => vault.valid()).toEqual([])
      const valid = 'SELECT FROM control_plane.certificates WHERE revoked_at IS NULL'
      expect(await database.query(valid)).toEqual([])
      const made = await map('refused')
      expect([made.status, (await map('refused')).json]).toMatchObject([201, { things: made.json!['things'] }])
      expect((await fetchBy('refused')).status).toBe(200)
      const [thing] = made.json!['things'] as [{ id: string }]
      expect((await call(platform.url, 'GET', `/things/${thing.id}`, { authorization: token })).status).toBe(200)
    })

    test('if policies are refused, a channel that was there before stays', async () => {
      const made = await call(platform.url, 'POST', '/channels/bulk', { authorization: token, body: [{ name: 'shared' }] })
      const [{ id }] = made.json!['channels'] as [{ id: ChannelId }]
      const sharing = await open({ ...fullLayout, channels: [{ id, name: '', metadata: {} }] })
      beforeWrite = () => Promise.reject(new Error('no policies are taken'))
      expect((await map('sharing', sharing)).status).toBe(503)
      beforeWrite = () => Promise.resolve()
      await sharing.close()
      expect((await call(platform.url, 'GET', `/channels/${id}`, { authorization: token })).status).toBe(200)
    })

    test('until they are delivered the device cannot fetch, and the same request gets 503', async () => {
      const arrived = Promise.withResolvers<void>()
      const release = Promise.withResolvers<void>()
      beforeWrite = () => {
        arrived.resolve()
        return release.promise
      }
      const first = map('slow')
      await arrived.promise
      // From another process: in the same one the request would wait.
      const again = await map('slow', other)
      expect([again.status, again.headers.get('retry-after')]).toEqual([503, '1'])
      expect((await fetchBy('slow')).status).toBe(401)
      release.resolve()
      expect((await first).status).toBe(201)
      expect([(await map('slow')).status, (await fetchBy('slow')).status]).toEqual([200, 200])
    })

    test('a deletion removes the policies too', async () => {
      const made = await map('deleted')
      const [owner] = await database.query<{ id: string }>('SELECT id FROM control_plane.users')
      const remove = () => call(platform.url, 'DELETE', '/mapping/deleted', { authorization: token })
      const allowed = async (): Promise<unknown[]> => {
        const answers: unknown[] = []
        for (const { id } of made.json!['things'] as { id: string }[]) {
          const query = `subject=${owner!.id}&relation=read&object=${id}`
          answers.push((await call(platform.url, 'GET', `/policies/explain?${query}`, { authorization: token })).json?.['allowed'])
        }
        return answers
      }
      expect(await allowed()).toEqual([true, true])
      expect((await remove()).status).toBe(204)
      expect(await allowed()).toEqual([false, false])
      expect((await remove()).status).toBe(404)
    })
  })
})
