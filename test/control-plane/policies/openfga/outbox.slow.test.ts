// What a process leaves that is killed between committing a change and delivering its policies, at each step, and what the next one makes of it.

import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../../../config/postgres/database.ts'
import { openServer } from '../../../../config/postgres/server.ts'
import { openAuditLog } from '../../../../control-plane/audit/store.ts'
import { openChanges } from '../../../../control-plane/changes.ts'
import type { ThingId, UserId } from '../../../../control-plane/ids.ts'
import { type OpenFgaClient, openClient } from '../../../../control-plane/policies/openfga/client.ts'
import { type OpenFgaRequests, openRequests } from '../../../../control-plane/policies/openfga/requests.ts'
import { type OpenFgaPolicies, openOpenFgaPolicies } from '../../../../control-plane/policies/openfga/store.ts'
import { openThingKeys } from '../../../../control-plane/things/keys.ts'
import { openThings, type Things } from '../../../../control-plane/things/store.ts'
import { type Caller, itself, openWrites } from '../../../../control-plane/writes.ts'
import { describeWithOpenFga } from '../../../servers/openfga.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { call } from '../../../up/operator.ts'
import { masterKey, openPlatform, type Platform, recordingLogger, type User } from '../../platform.ts'
import { optionsOf } from './openfga-options.ts'

/** What a killed process never does: everything from this step on waits for ever. */
type Step = 'before the delivery' | 'in the delivery' | 'behind the delivery' | 'before the undoing' | 'behind the undoing'

describeWithPostgres('outbox', postgres => {
  describeWithOpenFga('of OpenFGA', openfga => {
    let database: Database
    let platform: Platform
    let user: User
    beforeEach(async () => {
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      platform = await openPlatform(database, { policies: optionsOf(openfga) })
      user = await platform.user()
    }, 60_000)
    afterEach(async () => {
      await platform.close()
      await database.close()
    })
    const requests = () => openRequests(optionsOf(openfga).openfga)
    const ask = (method: string, path: string, body?: object) =>
      call(platform.url, method, path, { authorization: user.token, ...(body === undefined ? {} : { body }) })
    const make = async (path: string) => (await ask('POST', path, { name: 'x' })).headers.get('location')!.split('/').at(-1)!

    /** Changes things as a process does that dies at the step. */
    function changeThings(policies: OpenFgaPolicies, work: (things: Things, by: Caller) => Promise<unknown>): void {
      const changes = openChanges(recordingLogger().logger)
      const writes = openWrites({ policies, audit: openAuditLog(database, { retentionDays: 1 }), changes })
      void work(openThings({ database, policies, writes, keys: openThingKeys([masterKey]) }), { ...itself, user: user.id as UserId })
    }

    const makeThing = (policies: OpenFgaPolicies): void => changeThings(policies, (things, by) => things.create(by, [{ name: 'made' }]))

    /** What the next process does. */
    async function finish(asking: OpenFgaRequests): Promise<OpenFgaPolicies> {
      await database.execute('UPDATE control_plane.policy_outbox SET due_at = now()')
      const next = openOpenFgaPolicies({ database, client: openClient(asking), onFailure: () => undefined })
      await next.start()
      // The platform's own may have been quicker.
      await expect.poll(() => database.query('SELECT FROM control_plane.policy_outbox')).toEqual([])
      return next
    }

    const linesOf = async (action: string) => (await database.query('SELECT FROM control_plane.audit WHERE action = $1', [action])).length

    async function thingOnItsWay(): Promise<ThingId> {
      const [row] = await database.query<{ id: ThingId }>('SELECT id FROM control_plane.policy_outbox')
      return row!.id
    }

    /** A store of a process that stops for ever at the step; `reached` resolves when it has. */
    function dyingAt(step: Step, client: OpenFgaClient, part: 'add' | 'remove' = 'add'): { store: OpenFgaPolicies; reached: Promise<void> } {
      const { promise: reached, resolve } = Promise.withResolvers<void>()
      const dead = (): Promise<never> => {
        resolve()
        return new Promise(() => undefined)
      }
      const undoes = step.endsWith('undoing')
      const dying: OpenFgaClient = {
        ...client,
        async write(to, change) {
          if ((change[part] ?? []).length === 0) return client.write(to, change)
          if (step === 'before the delivery') return dead()
          if (step === 'in the delivery') {
            await client.write(to, { [part]: change[part]!.slice(0, 1) })
            return dead()
          }
          await client.write(to, change)
          if (undoes) throw new Error('no answer came')
          return step === 'behind the delivery' ? dead() : undefined
        },
      }
      const asked: Database = {
        ...database,
        query: (sql, values) => {
          if (step === 'before the undoing' && sql.includes('undone AS')) return dead()
          const answered = database.query(sql, values)
          return step === 'behind the undoing' && sql.includes('undone AS') ? answered.then(dead) : answered
        },
        transaction: (work, signal) => database.transaction(work, signal),
      } as Database
      return { store: openOpenFgaPolicies({ database: asked, client: dying, onFailure: () => undefined }), reached }
    }

    test.each<[Step, boolean]>([
      ['before the delivery', true],
      ['in the delivery', true],
      ['behind the delivery', true],
      ['before the undoing', true],
      ['behind the undoing', false],
    ])('killed %s: nobody sees the thing until the next process has finished it', async (step, isMade) => {
      const channel = await make('/channels')
      const asking = requests()
      const { store, reached } = dyingAt(step, openClient(asking))
      makeThing(store)
      await reached
      const thing = await thingOnItsWay()
      // Not listed, not connected, its key not replaced; and a right that reached the store is one to nothing.
      expect((await ask('GET', '/things')).json).toMatchObject({ total: 0 })
      expect((await ask('POST', '/things/search', {})).json).toMatchObject({ total: 0 })
      expect((await ask('POST', '/connect', { channel_ids: [channel], thing_ids: [thing] })).status).toBe(403)
      expect((await ask('PATCH', `/things/${thing}/key`, {})).status).toBe(403)
      expect((await ask('GET', `/things/${thing}`)).status).toBe(403)

      const next = await finish(asking)
      expect((await ask('GET', '/things')).json).toMatchObject({ total: isMade ? 1 : 0 })
      const left = await next.list({ object: thing })
      expect(left).toHaveLength(isMade ? 3 : 0)
      if (isMade) expect((await ask('PUT', `/things/${thing}`, { name: 'mine' })).status).toBe(200)
      await next.close()
      await asking.close()
    })

    test.each<[Step, boolean]>([
      ['before the delivery', true],
      ['in the delivery', true],
      ['behind the delivery', true],
      ['before the undoing', true],
      ['behind the undoing', false],
    ])('killed %s of a share: it holds with its line of the audit log, or is gone with it', async (step, holds) => {
      const [ann, bob] = [await platform.user(), await platform.user()]
      const thing = (await make('/things')) as ThingId
      await ask('POST', `/things/${thing}/share`, { user_ids: [ann.id], policies: ['read'] })
      const asking = requests()
      const { store, reached } = dyingAt(step, openClient(asking))
      changeThings(store, (things, by) => things.share(by, thing, [ann.id, bob.id] as UserId[], ['read', 'write']))
      await reached
      // It would come behind its own removal.
      const unshared = await ask('DELETE', `/things/${thing}/share`, { user_ids: [bob.id], policies: ['write'] })
      expect(unshared.status).toBe(step === 'behind the undoing' ? 204 : 503)

      const next = await finish(asking)
      const shared = (await next.list({ object: thing })).filter(({ subject }) => subject !== user.id)
      expect(shared).toHaveLength(holds ? 4 : 1)
      expect(shared).toContainEqual({ subject: ann.id, relation: 'read', object: thing })
      expect(await linesOf('thing.share')).toBe(holds ? 2 : 1)
      expect((await ask('DELETE', `/things/${thing}/share`, { user_ids: [bob.id], policies: ['write'] })).status).toBe(204)
      await next.close()
      await asking.close()
    })

    test.each<[Step]>([['before the delivery'], ['in the delivery'], ['behind the delivery']])(
      'killed %s of a removal: it is finished, with its line of the audit log',
      async step => {
        const [ann, bob] = [await platform.user(), await platform.user()]
        const thing = (await make('/things')) as ThingId
        const shared = { user_ids: [ann.id, bob.id], policies: ['read', 'write'] }
        await ask('POST', `/things/${thing}/share`, shared)
        const asking = requests()
        const { store, reached } = dyingAt(step, openClient(asking), 'remove')
        changeThings(store, (things, by) => things.unshare(by, thing, shared.user_ids as UserId[], ['read', 'write']))
        await reached
        // What is being removed does not come back meanwhile.
        expect((await ask('POST', `/things/${thing}/share`, shared)).status).toBe(503)
        const next = await finish(asking)
        expect(new Set((await next.list({ object: thing })).map(({ subject }) => subject))).toEqual(new Set([user.id]))
        expect(await linesOf('thing.unshare')).toBe(1)
        expect((await ask('POST', `/things/${thing}/share`, shared)).status).toBe(200)
        await next.close()
        await asking.close()
      },
    )

    test('what is made while a request is under way is left to it', async () => {
      const asking = requests()
      const { store, reached } = dyingAt('before the delivery', openClient(asking))
      makeThing(store)
      await reached
      const other = openOpenFgaPolicies({ database, client: openClient(asking), onFailure: () => undefined })
      await other.start()
      expect(await database.query('SELECT FROM control_plane.policy_outbox')).toHaveLength(1)
      await other.close()
      await asking.close()
    })
  })
})
