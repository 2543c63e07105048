// What a process leaves behind that is killed between creating an entity and delivering its policies, at each step, and how the next one finishes it.

import { afterEach, beforeEach, expect, test } from 'vitest'
import { openAccessChanges } from '../../../../control-plane/access-changes.ts'
import { openAuditLog } from '../../../../control-plane/audit/store.ts'
import type { ThingId, UserId } from '../../../../control-plane/ids.ts'
import { type OpenFgaClient, openClient } from '../../../../control-plane/policies/openfga/client.ts'
import { openRequests } from '../../../../control-plane/policies/openfga/requests.ts'
import { type OpenFgaPolicies, openOpenFgaPolicies } from '../../../../control-plane/policies/openfga/store.ts'
import { openThingKeys } from '../../../../control-plane/things/keys.ts'
import { openThings } from '../../../../control-plane/things/store.ts'
import { itself, openWrites } from '../../../../control-plane/writes.ts'
import type { Database } from '../../../../database/database.ts'
import { openServer } from '../../../../database/server.ts'
import { describeWithOpenFga } from '../../../servers/openfga.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { call } from '../../../up/operator.ts'
import { masterKey, openPlatform, type Platform, recordingLogger, type User } from '../../platform.ts'
import { optionsOf } from './openfga-options.ts'

/** A killed process never does this step: everything from it on waits forever. */
type Step = 'before the delivery' | 'in the delivery' | 'after the delivery' | 'before the undoing' | 'after the undoing'

describeWithPostgres('outbox', postgres => {
  describeWithOpenFga('of OpenFGA', openfga => {
    let database: Database
    let platform: Platform
    let user: User
    beforeEach(async () => {
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      platform = await openPlatform(database, { policies: optionsOf(openfga) })
      user = await platform.user()
    })
    afterEach(async () => {
      await platform.close()
      await database.close()
    })
    const requests = () => openRequests(optionsOf(openfga).openfga)
    /** Creates a thing like a process that dies at the step. */
    function makeThing(policies: OpenFgaPolicies): Promise<unknown> {
      const accessChanges = openAccessChanges(recordingLogger().logger)
      const writes = openWrites({ policies, audit: openAuditLog(database, { retentionDays: 1 }), accessChanges })
      const things = openThings({
        database,
        policies,
        writes,
        thingKeys: openThingKeys([masterKey]),
        certificates: { revoke: async () => undefined },
      })
      return things.create({ ...itself, user: user.id as UserId }, [{ name: 'made' }])
    }

    async function thingOnItsWay(): Promise<ThingId> {
      const [row] = await database.query<{ entity: ThingId }>('SELECT entity FROM control_plane.policy_outbox')
      return row!.entity
    }

    /** The store of a process that stops forever at the step; `reached` resolves when it has. */
    function dyingAt(step: Step, client: OpenFgaClient): { store: OpenFgaPolicies; reached: Promise<void> } {
      const { promise: reached, resolve } = Promise.withResolvers<void>()
      const dead = (): Promise<never> => {
        resolve()
        return new Promise(() => undefined)
      }
      const undoes = step.endsWith('undoing')
      const dying: OpenFgaClient = {
        ...client,
        async write(to, change) {
          if ((change.add ?? []).length === 0) return client.write(to, change)
          if (step === 'before the delivery') return dead()
          if (step === 'in the delivery') {
            await client.write(to, { add: change.add!.slice(0, 1) })
            return dead()
          }
          await client.write(to, change)
          if (undoes) throw new Error('no answer came')
          return step === 'after the delivery' ? dead() : undefined
        },
      }
      const asked: Database = {
        ...database,
        query: (sql, values) => {
          if (step === 'before the undoing' && sql.includes('undone AS')) return dead()
          const answered = database.query(sql, values)
          return step === 'after the undoing' && sql.includes('undone AS') ? answered.then(dead) : answered
        },
        transaction: (work, signal) => database.transaction(work, signal),
      } as Database
      return { store: openOpenFgaPolicies({ database: asked, client: dying, timeoutMs: 60_000, onFailure: () => undefined }), reached }
    }

    test.each<[Step, boolean]>([
      ['before the delivery', true],
      ['in the delivery', true],
      ['after the delivery', true],
      ['before the undoing', true],
      ['after the undoing', false],
    ])('killed %s: the thing is hidden until the next process has finished it', async (step, isMade) => {
      const ask = (method: string, path: string, body?: object) =>
        call(platform.url, method, path, { authorization: user.token, ...(body === undefined ? {} : { body }) })
      const channel = (await ask('POST', '/channels', { name: 'c' })).headers.get('location')!.replace('/channels/', '')
      const asking = requests()
      const { store, reached } = dyingAt(step, openClient(asking))
      void makeThing(store)
      await reached
      const thing = await thingOnItsWay()
      // Not listed, not connected, its key not replaced; and a right that reached the store gives access to nothing.
      expect((await ask('GET', '/things')).json).toMatchObject({ total: 0 })
      expect((await ask('POST', '/things/search', {})).json).toMatchObject({ total: 0 })
      expect((await ask('POST', '/connect', { channel_ids: [channel], thing_ids: [thing] })).status).toBe(403)
      expect((await ask('PATCH', `/things/${thing}/key`, {})).status).toBe(403)
      expect((await ask('DELETE', `/things/${thing}`)).status).toBe(403)
      expect((await ask('POST', `/things/${thing}/share`, { user_ids: [user.id], policies: ['read'] })).status).toBe(403)
      expect((await ask('GET', `/things/${thing}`)).status).toBe(403)

      await database.execute(`UPDATE control_plane.policy_outbox SET since = since - interval '1 hour'`)
      const next = openOpenFgaPolicies({ database, client: openClient(asking), timeoutMs: 60_000, onFailure: () => undefined })
      await next.start()
      expect(await database.query('SELECT FROM control_plane.policy_outbox')).toEqual([])
      expect((await ask('GET', '/things')).json).toMatchObject({ total: isMade ? 1 : 0 })
      const left = await next.list({ object: thing })
      expect(left).toHaveLength(isMade ? 3 : 0)
      if (isMade) expect((await ask('PUT', `/things/${thing}`, { name: 'mine' })).status).toBe(200)
      await next.close()
      await asking.close()
    })

    test('entities of a request under way are left to that request', async () => {
      const asking = requests()
      const { store, reached } = dyingAt('before the delivery', openClient(asking))
      void makeThing(store)
      await reached
      const other = openOpenFgaPolicies({ database, client: openClient(asking), timeoutMs: 60_000, onFailure: () => undefined })
      await other.start()
      expect(await database.query('SELECT FROM control_plane.policy_outbox')).toHaveLength(1)
      await other.close()
      await asking.close()
    })
  })
})
