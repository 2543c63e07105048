// The contract of every policy store (control-plane/policies/policy-store.ts).

import { beforeEach, describe, expect, test } from 'vitest'
import { type GroupId, newGroupId, newThingId, newUserId, type ThingId, type UserId } from '../../control-plane/ids.ts'
import { membersOf, type Policy, type PolicyStore, relations } from '../../control-plane/policies/policy-store.ts'
import type { Database } from '../../database/database.ts'

interface Opened {
  readonly store: PolicyStore
  readonly database: Database
}

/** @param open the store, and the database of its transactions; called in hooks, and data of earlier tests may be in it */
export function policyStoreConformance(open: () => Opened | Promise<Opened>): void {
  describe('policy store', () => {
    let store: PolicyStore
    let database: Database
    let user: UserId
    let other: UserId
    let thing: ThingId
    let group: GroupId
    beforeEach(async () => {
      ;({ store, database } = await open())
      user = newUserId()
      other = newUserId()
      thing = newThingId()
      group = newGroupId()
    })
    const add = (...policies: Policy[]): Promise<readonly Policy[]> => store.transaction((_, policyWriter) => policyWriter.add(policies))
    const remove = (...policies: Policy[]): Promise<readonly Policy[]> =>
      store.transaction((_, policyWriter) => policyWriter.remove(policies))

    test('without a policy everything is denied', async () => {
      for (const relation of relations) expect(await store.allows(user, relation, thing)).toBe(false)
    })

    test('a policy allows its subject its relation on its object, and nothing else', async () => {
      await add({ subject: user, relation: 'read', object: thing })
      expect(await store.allows(user, 'read', thing)).toBe(true)
      expect(await store.allows(user, 'write', thing)).toBe(false)
      expect(await store.allows(other, 'read', thing)).toBe(false)
      expect(await store.allows('*', 'read', thing)).toBe(false)
      expect(await store.allows(user, 'read', newThingId())).toBe(false)
    })

    test('a policy for everyone allows every user, and callers without a token', async () => {
      await add({ subject: '*', relation: 'read', object: thing })
      expect(await store.allows(user, 'read', thing)).toBe(true)
      expect(await store.allows('*', 'read', thing)).toBe(true)
      expect(await store.allows(user, 'write', thing)).toBe(false)
    })

    test('a policy for the members of a group allows only them (SPEC §5, rule 6)', async () => {
      await add({ subject: membersOf(group), relation: 'write', object: thing }, { subject: user, relation: 'member', object: group })
      expect(await store.allows(user, 'write', thing)).toBe(true)
      expect(await store.allows(other, 'write', thing)).toBe(false)
    })

    test('a relation on a group other than member does not give the access of its members', async () => {
      await add({ subject: membersOf(group), relation: 'write', object: thing }, { subject: user, relation: 'read', object: group })
      expect(await store.allows(user, 'write', thing)).toBe(false)
    })

    test('making a group a member of itself changes nothing, and blocks no later change', async () => {
      await add({ subject: membersOf(group), relation: 'member', object: group }, { subject: user, relation: 'member', object: group })
      await remove({ subject: user, relation: 'member', object: group })
      expect(await store.allows(user, 'member', group)).toBe(false)
    })

    test('the members of a group that is a member of another have the access of that one (SPEC §5, rule 7)', async () => {
      const usersGroup = newGroupId()
      await add(
        { subject: user, relation: 'member', object: usersGroup },
        { subject: membersOf(usersGroup), relation: 'member', object: group },
        { subject: membersOf(group), relation: 'delete', object: thing },
      )
      expect(await store.allows(user, 'delete', thing)).toBe(true)
      expect(await store.allows(other, 'delete', thing)).toBe(false)
    })

    test('all policies of an object, or that name a subject, are removed together, and no others', async () => {
      const policies: Policy[] = [
        { subject: user, relation: 'read', object: thing },
        { subject: other, relation: 'write', object: thing },
        { subject: membersOf(group), relation: 'read', object: thing },
      ]
      const onOther: Policy = { subject: membersOf(group), relation: 'delete', object: newThingId() }
      await add(...policies, onOther)
      await store.transaction((_, policyWriter) => policyWriter.removeAll({ object: thing }))
      expect(await store.list({ object: thing })).toEqual([])
      expect(await store.list({ subject: membersOf(group) })).toEqual([onOther])
      await store.transaction((_, policyWriter) => policyWriter.removeAll({ subject: membersOf(group) }))
      expect(await store.list({ object: onOther.object })).toEqual([])
      await store.transaction((_, policyWriter) => policyWriter.removeAll({ object: thing }))
    })

    test('the objects of a subject are those on which it has the relation, directly, through groups, and as everyone does', async () => {
      const [own, throughGroup, forEveryone, written, others] = Array.from({ length: 5 }, newThingId) as [
        ThingId,
        ThingId,
        ThingId,
        ThingId,
        ThingId,
      ]
      await add(
        { subject: user, relation: 'read', object: own },
        { subject: membersOf(group), relation: 'read', object: throughGroup },
        { subject: user, relation: 'member', object: group },
        { subject: '*', relation: 'read', object: forEveryone },
        { subject: user, relation: 'write', object: written },
        { subject: other, relation: 'read', object: others },
      )
      const found = await store.objects(user, 'read')
      expect(found).toEqual(expect.arrayContaining([own, throughGroup, forEveryone]))
      for (const object of [written, others]) expect(found).not.toContain(object)
    })

    test('more than a hundred policies can be added, listed and removed together', async () => {
      const policies = Array.from({ length: 250 }, (): Policy => ({ subject: newUserId(), relation: 'read', object: thing }))
      await add(...policies, policies[0]!)
      expect(await store.list({ object: thing })).toHaveLength(250)
      await remove(...policies.slice(1))
      expect(await store.list({ object: thing })).toEqual([policies[0]])
    })

    test('a failed transaction changes no policies', async () => {
      const kept: Policy = { subject: user, relation: 'read', object: thing }
      await add(kept)
      const failed = store.transaction(async (_, policyWriter) => {
        await policyWriter.add([{ subject: other, relation: 'read', object: thing }])
        await policyWriter.remove([kept])
        throw new Error('aborted')
      })
      await expect(failed).rejects.toThrow('aborted')
      expect(await store.list({ object: thing })).toEqual([kept])
    })

    test('a list in a transaction waits for nothing', async () => {
      const policy: Policy = { subject: user, relation: 'read', object: thing }
      await add(policy)
      expect(await database.transaction(transaction => store.list({ object: thing }, transaction))).toEqual([policy])
    })

    test('groups that contain each other are answered, deny non-members, and give members no additional access', async () => {
      const second = newGroupId()
      await add(
        { subject: membersOf(second), relation: 'member', object: group },
        { subject: membersOf(group), relation: 'member', object: second },
        { subject: membersOf(group), relation: 'read', object: thing },
        { subject: user, relation: 'member', object: second },
        { subject: other, relation: 'write', object: thing },
      )
      expect(await store.allows(user, 'read', thing)).toBe(true)
      expect(await store.allows(user, 'write', thing)).toBe(false)
      expect(await store.allows(other, 'read', thing)).toBe(false)
    })

    test('a removed policy is denied from then on (SPEC §5, rule 9), also the access that it gave through a group (rule 8)', async () => {
      const membership: Policy = { subject: user, relation: 'member', object: group }
      const direct: Policy = { subject: user, relation: 'read', object: thing }
      await add(membership, direct, { subject: membersOf(group), relation: 'write', object: thing })
      await remove(direct)
      expect(await store.allows(user, 'read', thing)).toBe(false)
      expect(await store.allows(user, 'write', thing)).toBe(true)
      await remove(membership)
      expect(await store.allows(user, 'write', thing)).toBe(false)
    })

    test('adding existing and removing missing policies are not errors', async () => {
      const policy: Policy = { subject: user, relation: 'read', object: thing }
      await add(policy, policy)
      await add(policy)
      expect(await store.list({ object: thing })).toEqual([policy])
      await remove(policy, { subject: other, relation: 'read', object: thing })
      await remove(policy)
      expect(await store.list({ object: thing })).toEqual([])
    })

    test('adding and removing no policies changes nothing', async () => {
      await add()
      await remove()
      expect(await store.list({ object: thing })).toEqual([])
    })

    test('lists return the policies of an object, and those that name a subject, without those gained through groups', async () => {
      const onThing: Policy[] = [
        { subject: user, relation: 'read', object: thing },
        { subject: membersOf(group), relation: 'read', object: thing },
      ]
      const membership: Policy = { subject: user, relation: 'member', object: group }
      await add(...onThing, membership)
      expect(new Set(await store.list({ object: thing }))).toEqual(new Set(onThing))
      expect(new Set(await store.list({ subject: user }))).toEqual(new Set([onThing[0], membership]))
      expect(await store.list({ subject: membersOf(group) })).toEqual([onThing[1]])
    })

    test('lists return only policies that match all conditions', async () => {
      const policies: Policy[] = [
        { subject: user, relation: 'read', object: thing },
        { subject: user, relation: 'write', object: thing },
        { subject: other, relation: 'read', object: thing },
        { subject: user, relation: 'member', object: group },
      ]
      await add(...policies)
      expect(await store.list({ subject: user, relation: 'member' })).toEqual([policies[3]])
      expect(new Set(await store.list({ object: thing, relation: 'read' }))).toEqual(new Set([policies[0], policies[2]]))
      expect(await store.list({ subject: user, relation: 'write', object: thing })).toEqual([policies[1]])
      expect(await store.list({ subject: other, relation: 'write', object: thing })).toEqual([])
    })

    test('ten thousand policies in one call are all added', async () => {
      const things = Array.from({ length: 10_000 }, () => newThingId())
      await add(...things.map((object): Policy => ({ subject: user, relation: 'read', object })))
      expect(await store.allows(user, 'read', things.at(-1)!)).toBe(true)
      expect(await store.list({ subject: user })).toHaveLength(10_000)
    })
  })
}
