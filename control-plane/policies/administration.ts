// Policies that an administrator sets: only for existing entities, and never so that no administrator remains.

import { isId, toGroupId } from '../ids.ts'
import { lockUsersSql } from '../users/store.ts'
import type { Actor, Writes } from '../writes.ts'
import { demandOtherAdministrator } from './administrators.ts'
import {
  isDelivered,
  membersOf,
  namedBy,
  type Policy,
  type PolicyObject,
  type PolicyStore,
  type Relation,
  type Subject,
} from './policy-store.ts'

export interface PolicyAdministration {
  /** Adds all or none. @returns false, with none added, if a subject or the object is absent */
  add(by: Actor, subjects: readonly Subject[], relations: readonly Relation[], object: PolicyObject): Promise<boolean>
  /** @throws HttpError `conflict`, with none removed, if no administrator who can sign in would remain */
  remove(by: Actor, subjects: readonly Subject[], relations: readonly Relation[], object: PolicyObject): Promise<void>
  /** The policies that lead from the subject to the object, first to last; undefined if none do within the bounds of the search. */
  path(subject: Subject, relation: Relation, object: PolicyObject): Promise<Policy[] | undefined>
}

/** Prevents a deletion before the policies are committed, and makes changes of its policies run one at a time. */
const lockObjectSql = `
  WITH thing AS (SELECT id FROM control_plane.things WHERE id = $1 AND ${isDelivered('things.id')} FOR NO KEY UPDATE),
       member_group AS (SELECT id FROM control_plane.groups WHERE id = $1 AND ${isDelivered('groups.id')} FOR NO KEY UPDATE)
  SELECT id FROM thing UNION ALL SELECT id FROM member_group`
/** Bounds of an explanation in groups and in time: beyond them it ends, while the check itself still holds. */
export const visitedMax = 1_000
const pathMsMax = 3_000

export function openPolicyAdministration(policies: PolicyStore, writes: Writes): PolicyAdministration {
  return {
    async add(by, subjects, relations, object) {
      const users = [...new Set(subjects.filter(isId))]
      return writes(by, async write => {
        if ((await write.query(lockUsersSql, [users])).length < users.length) return false
        if (isId(object) && (await write.query(lockObjectSql, [object])).length === 0) return false
        const added = await write.policies.add(policiesFor(subjects, relations, object))
        if (added.length > 0) write.note('policy.add', ...namedBy(object, added))
        return true
      })
    },

    async remove(by, subjects, relations, object) {
      await writes(by, async write => {
        if (object === 'authorities' && relations.includes('member')) await demandOtherAdministrator(write, policies, subjects)
        if (isId(object)) await write.query(lockObjectSql, [object])
        const removed = await write.policies.remove(policiesFor(subjects, relations, object))
        if (removed.length > 0) write.note('policy.remove', ...namedBy(object, removed))
        // An administrator reads the channels without an owner.
        if (object === 'authorities') write.ends(...subjects.filter(isId).map(user => ({ kind: 'user' as const, user })))
      })
    },

    async path(subject, relation, object) {
      const paths = new Map<Subject, Policy[]>([
        [subject, []],
        ['*', []],
      ])
      const endsMs = Date.now() + pathMsMax
      // Grows during the loop: the groups of each subject are appended.
      for (const [from, before] of paths) {
        if (Date.now() > endsMs) return undefined
        const [last] = await policies.list({ subject: from, relation, object })
        if (last !== undefined) return [...before, last]
        for (const policy of await policies.list({ subject: from, relation: 'member' })) {
          if (!isId(policy.object) || paths.size >= visitedMax) continue
          const members = membersOf(toGroupId(policy.object))
          if (!paths.has(members)) paths.set(members, [...before, policy])
        }
      }
      return undefined
    },
  }
}

function policiesFor(subjects: readonly Subject[], relations: readonly Relation[], object: PolicyObject): Policy[] {
  return subjects.flatMap(subject => relations.map(relation => ({ subject, relation, object })))
}
