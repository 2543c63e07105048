// Changes of policies that OpenFGA refuses, whose answer is lost, or whose process is killed: they are kept, and take effect in the end, in their order.

import { afterEach, beforeEach, expect, test } from 'vitest'
import { openAccessChanges } from '../../../../control-plane/access-changes.ts'
import { openAuditLog } from '../../../../control-plane/audit/store.ts'
import { newThingId, newUserId, type ThingId, type UserId } from '../../../../control-plane/ids.ts'
import { OutsideError } from '../../../../control-plane/outside/requests.ts'
import { openPolicyAdministration } from '../../../../control-plane/policies/administration.ts'
import { openClient } from '../../../../control-plane/policies/openfga/client.ts'
import { type OpenFgaRequests, openRequests } from '../../../../control-plane/policies/openfga/requests.ts'
import { type OpenFgaPolicies, openOpenFgaPolicies } from '../../../../control-plane/policies/openfga/store.ts'
import type { Relation } from '../../../../control-plane/policies/policy-store.ts'
import { openThingKeys } from '../../../../control-plane/things/keys.ts'
import { openThings, type Things } from '../../../../control-plane/things/store.ts'
import { type Caller, itself, openWrites, type Writes } from '../../../../control-plane/writes.ts'
import type { Database } from '../../../../database/database.ts'
import { openServer } from '../../../../database/server.ts'
import { HttpError } from '../../../../http/errors.ts'
import { describeWithOpenFga } from '../../../servers/openfga.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { masterKey, openPlatform, recordingLogger } from '../../platform.ts'
import { optionsOf } from './openfga-options.ts'

type Outcome = 'passes' | 'is refused' | 'loses its answer'

describeWithPostgres('queue', postgres => {
  describeWithOpenFga('of OpenFGA', openfga => {
    let url: string
    let database: Database
    let requests: OpenFgaRequests
    let policies: OpenFgaPolicies
    let writes: Writes
    let things: Things
    let owner: Caller
    let thing: ThingId
    let ended: unknown[]
    let failedRows: string[]
    /** The outcome of each write. @param count of the writes so far, including this one */
    let onWrite: (body: string, count: number) => Outcome | Promise<Outcome>
    let sent: number
    beforeEach(async () => {
      url = await postgres.createDatabase()
      database = await open('sluice-test')
      const platform = await openPlatform(database, { policies: optionsOf(openfga) })
      owner = { ...itself, user: (await platform.user()).id as UserId }
      // So that nothing else finishes the changes that are left over.
      await platform.close()
      requests = openRequests(optionsOf(openfga).openfga)
      onWrite = () => 'passes'
      sent = 0
      failedRows = []
      ended = []
      policies = openOn(database)
      ;({ writes, things } = partsOn(database, policies))
      thing = (await things.create(owner, [{ name: 'x' }]))[0]!.id
    })
    afterEach(async () => {
      await policies.close()
      await requests.close()
      await database.close()
    })

    const open = (applicationName: string): Promise<Database> => openServer({ url, applicationName, connectionsMax: 4 })

    function openOn(on: Database): OpenFgaPolicies {
      const client = openClient({
        ...requests,
        async post(path, body) {
          if (!path.endsWith('/write')) return requests.post(path, body)
          const outcome = await onWrite(JSON.stringify(body), ++sent)
          if (outcome === 'is refused')
            throw new HttpError('unavailable', '', { cause: new OutsideError('it answers 400', 400, undefined) })
          const answer = await requests.post(path, body)
          if (outcome === 'loses its answer') throw new Error('no answer came')
          return answer
        },
      })
      return openOpenFgaPolicies({ database: on, client, timeoutMs: 60_000, onFailure: (_, rows) => void failedRows.push(...rows) })
    }

    function partsOn(on: Database, store: OpenFgaPolicies): { writes: Writes; things: Things } {
      const accessChanges = openAccessChanges(recordingLogger().logger)
      accessChanges.onChange(change => void ended.push(change))
      const parts = {
        database: on,
        policies: store,
        writes: openWrites({ policies: store, audit: openAuditLog(on, { retentionDays: 1 }), accessChanges }),
      }
      const certificates = { revoke: async () => undefined }
      return { writes: parts.writes, things: openThings({ ...parts, thingKeys: openThingKeys([masterKey]), certificates }) }
    }

    /** Counted from now on. */
    function fail(nth: number, how: Outcome): void {
      sent = 0
      onWrite = (_, count) => (count === nth ? how : 'passes')
    }
    /** Writes wait from now on until the result is called. */
    function hold(): () => void {
      const { promise, resolve } = Promise.withResolvers<Outcome>()
      onWrite = () => promise
      return () => resolve('passes')
    }
    async function users(count: number): Promise<UserId[]> {
      const sql = `INSERT INTO control_plane.users (id, email, password_hash) SELECT id, id::text, '' FROM unnest($1::uuid[]) AS id`
      const ids = Array.from({ length: count }, newUserId)
      await database.query(sql, [ids])
      return ids
    }
    const lines = async (action: string) => (await database.query('SELECT FROM control_plane.audit WHERE action = $1', [action])).length
    const rows = async () =>
      (await database.query<{ number: bigint }>('SELECT number FROM control_plane.policy_changes ORDER BY number')).map(
        ({ number }) => `${number}`,
      )
    const policiesOf = async (object: ThingId) => (await policies.list({ object })).filter(({ subject }) => subject !== owner.user)
    const all: Relation[] = ['read', 'write', 'delete']
    const kept = { code: 'unavailable', detail: expect.stringContaining('it is queued') as string }

    test.each(['is refused', 'loses its answer'] as const)(
      'a share whose second part %s is kept with its line of the audit log, and holds in the end',
      async how => {
        const guests = await users(40)
        fail(2, how)
        await expect(things.share(owner, thing, guests, all)).rejects.toMatchObject(kept)
        expect(await lines('thing.share')).toBe(1)
        expect(failedRows).toEqual(await rows())
        await policies.start()
        expect(await policiesOf(thing)).toHaveLength(120)
        expect(await rows()).toEqual([])
      },
    )

    test('a removal whose second part is refused is finished later, and can be repeated', async () => {
      const guests = await users(40)
      await things.share(owner, thing, guests, all)
      fail(2, 'is refused')
      await expect(things.unshare(owner, thing, guests, all)).rejects.toMatchObject(kept)
      expect(await policiesOf(thing)).toHaveLength(20)
      await things.unshare(owner, thing, guests.slice(0, 35), all)
      expect(await policiesOf(thing)).toEqual([])
      expect([await lines('thing.unshare'), await rows()]).toEqual([2, []])
    })

    test('a right whose addition could not be delivered does not exist once its removal is answered', async () => {
      const [guest] = (await users(1)) as [UserId]
      fail(1, 'is refused')
      await expect(things.share(owner, thing, [guest], ['read'])).rejects.toMatchObject(kept)
      await things.unshare(owner, thing, [guest], ['read'])
      await policies.start()
      expect([await policiesOf(thing), await rows()]).toEqual([[], []])
    })

    test('while one change is under way the removal after it waits, whichever process delivers', async () => {
      const [guest] = (await users(1)) as [UserId]
      const { promise, resolve } = Promise.withResolvers<Outcome>()
      sent = 0
      onWrite = (_body, count) => (count === 1 ? promise : 'passes')
      const adding = things.share(owner, thing, [guest], ['read'])
      await expect.poll(() => sent).toBe(1)
      const other = await open('another process')
      const otherPolicies = openOn(other)
      let isRemoved = false
      const removing = partsOn(other, otherPolicies)
        .things.unshare(owner, thing, [guest], ['read'])
        .finally(() => (isRemoved = true))
      const waits = 'SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()'
      await expect.poll(async () => isRemoved || (await database.query(waits)).length > 0).toBe(true)
      resolve('passes')
      await Promise.all([adding, removing])
      expect(await policiesOf(thing)).toEqual([])
      await otherPolicies.close()
      await other.close()
    })

    test('caches are notified of a deletion whose policies could not be removed, and its id is not given again before they are', async () => {
      fail(1, 'is refused')
      await expect(things.remove(owner, thing, undefined)).rejects.toMatchObject(kept)
      expect(ended).toEqual([{ kind: 'thing', thing }])
      expect(await things.find(thing)).toBeUndefined()
      const again = () => things.create(owner, [{ name: 'again' }], [{ id: thing }])
      await expect(again()).rejects.toMatchObject({ code: 'unavailable' })
      await policies.start()
      expect(await policies.list({ object: thing })).toEqual([])
      expect(await again()).toHaveLength(1)
      expect(await policies.list({ object: thing })).toHaveLength(3)
    })

    test('a change that is refused for good is named, and delays only those of the same objects', async () => {
      const [bad, good] = [thing, (await things.create(owner, [{ name: 'y' }]))[0]!.id]
      const [guest, other] = (await users(2)) as [UserId, UserId]
      onWrite = body => (body.includes(bad) && body.includes(guest) ? 'is refused' : 'passes')
      await expect(things.share(owner, bad, [guest], ['read'])).rejects.toMatchObject(kept)
      await expect(things.share(owner, bad, [other], ['read'])).rejects.toMatchObject(kept)
      expect(await things.share(owner, good, [other], ['read'])).toBe(true)
      expect(await rows()).toHaveLength(2)
      expect(failedRows.slice(-2)).toEqual(await rows())
      expect(await policiesOf(good)).toHaveLength(1)
    })

    test('an entity whose policies are refused for good delays no others', async () => {
      const [bad, good] = [newThingId(), newThingId()]
      const policy = (object: ThingId) => JSON.stringify([{ subject: owner.user, relation: 'read', object }])
      const sql = `INSERT INTO control_plane.policy_outbox (entity, policies, since)
                   SELECT entity::uuid, policies::jsonb, now() - interval '1 hour' FROM unnest($1::text[], $2::text[]) AS row (entity, policies)`
      await database.query(sql, [
        [bad, good],
        [policy(bad), policy(good)],
      ])
      onWrite = body => (body.includes(bad) ? 'is refused' : 'passes')
      await policies.start()
      expect(failedRows).toEqual([bad])
      expect(await database.query('SELECT entity FROM control_plane.policy_outbox')).toEqual([{ entity: bad }])
      expect(await policies.allows(owner.user, 'read', good)).toBe(true)
    })

    test('requests that change no policies do not wait for the server, however many that do are waiting', async () => {
      const release = hold()
      const guests = await users(12)
      const sharing = guests.map(user => things.share(owner, thing, [user], ['read']))
      await expect.poll(rows).toHaveLength(12)
      expect(await things.update(owner, thing, { name: 'changed' }, undefined)).toEqual({ version: 2 })
      release()
      expect(await Promise.all(sharing)).toEqual(guests.map(() => true))
    })

    test('administrators who remove each other at once leave one of them', async () => {
      const [ann, bob] = (await users(2)) as [UserId, UserId]
      const first = await policies.list({ object: 'authorities' })
      const authorities = openPolicyAdministration(policies, writes)
      await authorities.add(itself, [ann, bob], ['member'], 'authorities')
      await policies.transaction((_, policyWriter) => policyWriter.remove(first))
      const release = hold()
      const removing = authorities.remove({ ...itself, user: ann }, [bob], ['member'], 'authorities')
      await expect.poll(rows).toHaveLength(1)
      const other = authorities.remove({ ...itself, user: bob }, [ann], ['member'], 'authorities')
      await expect(other).rejects.toMatchObject({ code: 'unavailable' })
      release()
      await removing
      expect((await policies.list({ object: 'authorities' })).map(({ subject }) => subject)).toEqual([ann])
    })

    test('a request that is repeated for long adds no rows', async () => {
      const [guest] = (await users(1)) as [UserId]
      onWrite = () => 'is refused'
      await expect(things.share(owner, thing, [guest], ['read'])).rejects.toMatchObject(kept)
      await database.execute(`UPDATE control_plane.policy_changes SET since = since - interval '1 minute'`)
      await expect(things.share(owner, thing, [guest], ['read'])).rejects.toMatchObject({ code: 'unavailable' })
      await expect(things.remove(owner, thing, undefined)).rejects.toMatchObject({ code: 'unavailable' })
      expect([await rows(), await lines('thing.share'), await things.exists(thing)]).toEqual([[expect.anything()], 1, true])
    })

    test('a round ends if the server accepts no changes, and continues in the next', async () => {
      const more = (await things.create(owner, [{ name: 'y' }]))[0]!.id
      const [guest] = (await users(1)) as [UserId]
      onWrite = () => 'loses its answer'
      await expect(things.share(owner, thing, [guest], ['read'])).rejects.toMatchObject(kept)
      sent = 0
      await expect(things.share(owner, more, [guest], ['read'])).rejects.toMatchObject(kept)
      expect(sent).toBe(1)
      onWrite = () => 'passes'
      await policies.start()
      expect(await rows()).toEqual([])
    })

    test('a process that has lost the lock sends no further part', async () => {
      const guests = await users(80)
      const dying = await open('dying')
      sent = 0
      const { promise, resolve } = Promise.withResolvers<Outcome>()
      onWrite = (_body, count) => (count === 2 ? promise : 'passes')
      const died = partsOn(dying, openOn(dying))
        .things.share(owner, thing, guests, all)
        .catch((error: unknown) => error)
      await expect.poll(() => sent).toBe(2)
      await database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dying' AND datname = current_database()`,
      )
      await policies.start()
      expect([await policiesOf(thing).then(({ length }) => length), sent]).toEqual([240, 5])
      resolve('passes')
      await died
      expect(sent).toBe(5)
      await dying.close()
    })

    test.each<[string, 'share' | 'unshare', number]>([
      ['a share killed before its first part', 'share', 1],
      ['a share killed before its second', 'share', 2],
      ['a removal killed before its first part', 'unshare', 1],
      ['a removal killed before its second', 'unshare', 2],
    ])('%s is finished by the next process', async (_name, action, part) => {
      const guests = await users(40)
      if (action === 'unshare') await things.share(owner, thing, guests, all)
      const dying = await open('dying')
      const died = partsOn(dying, openOn(dying))
        .things[action](owner, thing, guests, all)
        .catch((error: unknown) => error)
      sent = 0
      const { promise, reject } = Promise.withResolvers<Outcome>()
      onWrite = (_body, count) => (count < part ? 'passes' : promise)
      await expect.poll(() => sent).toBe(part)
      // The server notices that the process is gone.
      await database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dying' AND datname = current_database()`,
      )
      onWrite = () => 'passes'
      await policies.start()
      expect(await policiesOf(thing)).toHaveLength(action === 'share' ? 120 : 0)
      expect([await lines(`thing.${action}`), await rows()]).toEqual([1, []])
      reject(new Error('killed'))
      await died
      await dying.close()
    })
  })
})
