// Changes whose policies OpenFGA refuses, or whose answer is lost: additions are undone, and removals finished.

import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../../../config/postgres/database.ts'
import { openServer } from '../../../../config/postgres/server.ts'
import { openAuditLog } from '../../../../control-plane/audit/store.ts'
import { openChanges } from '../../../../control-plane/changes.ts'
import { type GroupMembers, openGroupMembers } from '../../../../control-plane/groups/member-store.ts'
import { newGroupId, newThingId, newUserId, type ThingId, type UserId } from '../../../../control-plane/ids.ts'
import { openClient } from '../../../../control-plane/policies/openfga/client.ts'
import { type OpenFgaRequests, openRequests } from '../../../../control-plane/policies/openfga/requests.ts'
import { type OpenFgaPolicies, openOpenFgaPolicies } from '../../../../control-plane/policies/openfga/store.ts'
import type { Policy } from '../../../../control-plane/policies/policy-store.ts'
import { openPolicies } from '../../../../control-plane/policies/store.ts'
import { openThingKeys } from '../../../../control-plane/things/keys.ts'
import { openThings, type Things } from '../../../../control-plane/things/store.ts'
import { type Caller, itself, openWrites, type Writes } from '../../../../control-plane/writes.ts'
import { describeWithOpenFga } from '../../../servers/openfga.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { masterKey, openPlatform, recordingLogger } from '../../platform.ts'
import { optionsOf } from './openfga-options.ts'

describeWithPostgres('undelivered policies', postgres => {
  describeWithOpenFga('of OpenFGA', openfga => {
    let database: Database
    let requests: OpenFgaRequests
    let policies: OpenFgaPolicies
    let writes: Writes
    let things: Things
    let members: GroupMembers
    let owner: Caller
    let thing: ThingId
    let ended: unknown[]
    let failedRows: string[]
    /** What becomes of each write. @param count of those so far, with it */
    let onWrite: (body: string, count: number) => 'passes' | 'is refused' | 'loses its answer' | Promise<'passes'>
    let sent: number
    beforeEach(async () => {
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 8 })
      const platform = await openPlatform(database, { policies: optionsOf(openfga) })
      owner = { ...itself, user: (await platform.user()).id as UserId }
      // So that nothing else finishes what is left over.
      await platform.close()
      requests = openRequests(optionsOf(openfga).openfga)
      onWrite = () => 'passes'
      sent = 0
      failedRows = []
      ended = []
      policies = open()
      const changes = openChanges(recordingLogger().logger)
      changes.onChange(change => void ended.push(change))
      writes = openWrites({ policies, audit: openAuditLog(database, { retentionDays: 1 }), changes })
      things = openThings({ database, policies, writes, keys: openThingKeys([masterKey]) })
      members = openGroupMembers(database, policies, writes)
      thing = (await things.create(owner, [{ name: 'x' }]))[0]!.id
    }, 60_000)
    afterEach(async () => {
      await policies.close()
      await requests.close()
      await database.close()
    })

    function open(leaseSeconds = 30): OpenFgaPolicies {
      const client = openClient({
        ...requests,
        async post(path, body) {
          if (!path.endsWith('/write')) return requests.post(path, body)
          const outcome = await onWrite(JSON.stringify(body), ++sent)
          if (outcome === 'is refused') throw new Error('it answers 400')
          const answer = await requests.post(path, body)
          if (outcome === 'loses its answer') throw new Error('no answer came')
          return answer
        },
      })
      return openOpenFgaPolicies({ database, client, leaseSeconds, onFailure: (_, rows) => void failedRows.push(...rows) })
    }

    /** Counted from now on. */
    function fail(nth: number, how: 'is refused' | 'loses its answer'): void {
      sent = 0
      onWrite = (_, count) => (count === nth ? how : 'passes')
    }
    /** Every write waits until the result is called. */
    function hold(): () => void {
      const { promise, resolve } = Promise.withResolvers<'passes'>()
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
    const rows = () => database.query<{ id: string }>('SELECT id FROM control_plane.policy_outbox')
    const policiesOf = async (object: ThingId) => (await policies.list({ object })).filter(({ subject }) => subject !== owner.user)
    async function finish(): Promise<void> {
      await database.execute('UPDATE control_plane.policy_outbox SET due_at = now()')
      await policies.start()
    }

    test.each(['is refused', 'loses its answer'] as const)(
      'a share whose second part %s gives nothing, keeps what was there, and leaves no line of the audit log',
      async how => {
        const all = await users(40)
        await things.share(owner, thing, [all[0]!], ['read'])
        fail(2, how)
        await expect(things.share(owner, thing, all, ['read', 'write', 'delete'])).rejects.toThrow()
        const before: Policy[] = [{ subject: all[0]!, relation: 'read', object: thing }]
        expect(await policiesOf(thing)).toEqual(before)
        expect(await lines('thing.share')).toBe(1)
        // A write that was given up may arrive late.
        expect(await rows()).toHaveLength(1)
        await finish()
        expect(await policiesOf(thing)).toEqual(before)
        expect(await rows()).toEqual([])
        expect(await things.share(owner, thing, all, ['read'])).toBe(true)
        expect(await policiesOf(thing)).toHaveLength(40)
      },
    )

    test('things whose policies are refused are not in the group, and those from before stay', async () => {
      const group = newGroupId()
      const sql = `INSERT INTO control_plane.groups (id, owner, name, name_folded) VALUES ($1, $2, 'g', 'g')`
      await database.query(sql, [group, owner.user])
      await members.addThings(owner, group, [thing], undefined)
      const more = await things.create(owner, [{ name: 'y' }, { name: 'z' }])
      fail(1, 'is refused')
      const added = members.addThings(owner, group, [thing, ...more.map(({ id }) => id)], undefined)
      await expect(added).rejects.toThrow('400')
      expect((await members.things(group, { offset: 0, limit: 10 })).items).toEqual([thing])
      expect(await policiesOf(thing)).toHaveLength(3)
      expect(await lines('group.add-members')).toBe(1)
    })

    test('a removal whose second part is refused throws, and is finished with its line of the audit log', async () => {
      const all = await users(40)
      await things.share(owner, thing, all, ['read', 'write', 'delete'])
      fail(2, 'is refused')
      await expect(things.unshare(owner, thing, all, ['read', 'write', 'delete'])).rejects.toThrow('400')
      expect(await policiesOf(thing)).toHaveLength(20)
      // Repeating it is right, and does not wait for what is left over.
      await things.unshare(owner, thing, all.slice(0, 35), ['read', 'write', 'delete'])
      await finish()
      expect(await policiesOf(thing)).toEqual([])
      expect(await lines('thing.unshare')).toBe(2)
    })

    test('those who remember grants hear of a deletion also where its policies cannot be removed', async () => {
      fail(1, 'is refused')
      await expect(things.remove(owner, thing, undefined)).rejects.toThrow('400')
      expect(ended).toEqual([{ kind: 'thing', thing }])
      expect(await things.find(thing)).toBeUndefined()
      await finish()
      expect(await policies.list({ object: thing })).toEqual([])
    })

    test('what is to be there in any case is tried again, and not undone', async () => {
      const policy: Policy = { subject: '*', relation: 'read', object: thing }
      fail(1, 'is refused')
      await expect(policies.transaction((_, changes) => changes.ensure([policy]))).rejects.toThrow('400')
      await finish()
      expect(await policiesOf(thing)).toEqual([policy])
    })

    test('a row that is refused for good is named, and holds up no others', async () => {
      const [bad, good] = [newThingId(), newThingId()]
      const added = (object: ThingId) => JSON.stringify([{ subject: owner.user, relation: 'read', object }])
      const sql = 'INSERT INTO control_plane.policy_outbox (id, added) VALUES ($1, $2::jsonb), ($3, $4::jsonb)'
      await database.query(sql, [bad, added(bad), good, added(good)])
      onWrite = body => (body.includes(bad) ? 'is refused' : 'passes')
      await finish()
      expect(failedRows).toEqual([bad])
      expect(await rows()).toEqual([{ id: bad }])
      expect(await policies.allows(owner.user, 'read', good)).toBe(true)
    })

    test('a row whose request takes longer than its lease is left to it', async () => {
      const slow = open(0.9)
      const release = hold()
      const adding = slow.transaction((_, changes) => changes.add([{ subject: '*', relation: 'read', object: thing }]))
      const renewed = `SELECT FROM control_plane.policy_outbox WHERE due_at > made_at + interval '2 s' AND due_at > now()`
      await expect.poll(() => database.query(renewed), { timeout: 10_000 }).toHaveLength(1)
      await policies.start()
      expect(await rows()).toHaveLength(1)
      release()
      await adding
      expect(await rows()).toEqual([])
    })

    test('what changes no policies does not wait for the server, however many that do are waiting', async () => {
      const release = hold()
      const all = await users(12)
      const sharing = all.map(user => things.share(owner, thing, [user], ['read']))
      await expect.poll(rows).toHaveLength(12)
      expect(await things.update(owner, thing, { name: 'changed' }, undefined)).toEqual({ version: 2 })
      release()
      expect(await Promise.all(sharing)).toEqual(all.map(() => true))
    })

    test('administrators who remove each other at once leave one of them', async () => {
      const [ann, bob] = (await users(2)) as [UserId, UserId]
      const chiefs = await policies.list({ object: 'authorities' })
      const authorities = openPolicies(policies, writes)
      await authorities.add(itself, [ann, bob], ['member'], 'authorities')
      await policies.transaction((_, changes) => changes.remove(chiefs))
      const release = hold()
      const removing = authorities.remove({ ...itself, user: ann }, [bob], ['member'], 'authorities')
      await expect.poll(rows).toHaveLength(1)
      const other = authorities.remove({ ...itself, user: bob }, [ann], ['member'], 'authorities')
      await expect(other).rejects.toMatchObject({ code: 'conflict' })
      release()
      await removing
      expect((await policies.list({ object: 'authorities' })).map(({ subject }) => subject)).toEqual([ann])
    })
  })
})
