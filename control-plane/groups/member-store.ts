// Members of groups in the database: the things in them, and the policies by which members gain access (SPEC §5).
//
//   a user U in group G            G member U
//   a thing T in group G           T read, write and delete for the members of G, and a row of group_things
//   users group U shared with G    G member for the members of U

import type { Database, Queries, SqlValue } from '../../config/postgres/database.ts'
import { type GroupId, isId, type ThingId, toUserId, type UserId } from '../ids.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../page.ts'
import { membersOf, type Policy, type PolicyStore } from '../policies/policy-store.ts'
import { lockUsersSql } from '../users/store.ts'
import type { Actor, Writes } from '../writes.ts'

export interface GroupUser {
  readonly id: UserId
  readonly email: string
}

export interface GroupMembers {
  /** All or none; who is a member stays one. @returns false, with nobody added, where the group or one of the users is absent */
  addUsers(by: Actor, group: GroupId, users: readonly UserId[]): Promise<boolean>
  /** All or none. @returns false, with none added, where the group or a thing is absent, or a thing is not that owner's */
  addThings(by: Actor, group: GroupId, things: readonly ThingId[], owner: UserId | undefined): Promise<boolean>
  /** Who is no member is no error. */
  removeMembers(by: Actor, group: GroupId, users: readonly UserId[], things: readonly ThingId[]): Promise<void>
  /** Of these ids, the things that are in the group, with their owners. */
  thingsIn(group: GroupId, ids: readonly string[]): Promise<ReadonlyMap<string, UserId>>
  /** In the order of ids, as its things are. */
  users(group: GroupId, page: PageRequest): Promise<Page<GroupUser>>
  things(group: GroupId, page: PageRequest): Promise<Page<ThingId>>
  /** Whether `share` has made the members of the first members of the second. */
  areShared(users: GroupId, things: GroupId): Promise<boolean>
  /** The members of the first are members of the second, or no longer. @returns false where one of them is absent */
  share(by: Actor, users: GroupId, things: GroupId, isShared: boolean): Promise<boolean>
}

const lockGroupsSql = 'SELECT id FROM control_plane.groups WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE'
/** Changes of one group's members wait for each other: rows and policies of one must not stand between those of another. */
const lockMembersSql = 'SELECT id FROM control_plane.groups WHERE id = ANY($1::uuid[]) FOR NO KEY UPDATE'
const lockThingsSql = `
  SELECT id FROM control_plane.things WHERE id = ANY($1::uuid[]) AND ($2::uuid IS NULL OR owner = $2) ORDER BY id FOR KEY SHARE`
const addThingsSql = `
  INSERT INTO control_plane.group_things (group_id, thing) SELECT $1, thing FROM unnest($2::uuid[]) AS thing ORDER BY thing
  ON CONFLICT DO NOTHING`

export function openGroupMembers(database: Database, policies: PolicyStore, writes: Writes): GroupMembers {
  async function isLocked(queries: Queries, sql: string, ids: readonly string[], ...values: SqlValue[]): Promise<boolean> {
    return (await queries.query(sql, [ids, ...values])).length === ids.length
  }

  return {
    async addUsers(by, group, users) {
      const set = [...new Set(users)]
      return writes(by, async write => {
        if (!(await isLocked(write, lockMembersSql, [group]))) return false
        if (!(await isLocked(write, lockUsersSql, set))) return false
        await write.policies.add(memberships(group, set))
        write.note('group.add-members', [group, ...set])
        return true
      })
    },

    async addThings(by, group, things, owner) {
      const set = [...new Set(things)]
      return writes(by, async write => {
        if (!(await isLocked(write, lockMembersSql, [group]))) return false
        if (!(await isLocked(write, lockThingsSql, set, owner ?? null))) return false
        await write.query(addThingsSql, [group, set])
        await write.policies.add(accesses(group, set))
        write.note('group.add-members', [group, ...set])
        return true
      })
    },

    async removeMembers(by, group, users, things) {
      await writes(by, async write => {
        await write.query(lockMembersSql, [[group]])
        await write.query('DELETE FROM control_plane.group_things WHERE group_id = $1 AND thing = ANY($2::uuid[])', [group, things])
        await write.policies.remove([...memberships(group, users), ...accesses(group, things)])
        write.note('group.remove-members', [group, ...users, ...things])
      })
    },

    async thingsIn(group, ids) {
      const sql = `
        SELECT things.id, things.owner FROM control_plane.group_things JOIN control_plane.things ON things.id = group_things.thing
        WHERE group_things.group_id = $1 AND things.id = ANY($2::uuid[])`
      const rows = await database.query<{ id: string; owner: UserId }>(sql, [group, ids])
      return new Map(rows.map(({ id, owner }) => [id, owner]))
    },

    async users(group, page) {
      const found = await policies.list({ object: group, relation: 'member' })
      const ids = found.filter(({ subject }) => isId(subject)).map(({ subject }) => toUserId(subject))
      const sql = pageSql('SELECT id AS ordinal, id, email, email AS name FROM control_plane.users WHERE id = ANY($1::uuid[])', 3, page)
      const rows = await database.query<{ id: UserId; email: string; total: bigint }>(sql, [ids, page.offset, page.limit])
      return toPage(rows, ({ id, email }) => ({ id, email }))
    },

    async things(group, page) {
      const sql = pageSql('SELECT thing AS ordinal, thing AS id FROM control_plane.group_things WHERE group_id = $1', 3, page)
      return toPage(await database.query<{ id: ThingId; total: bigint }>(sql, [group, page.offset, page.limit]), ({ id }) => id)
    },

    async areShared(users, things) {
      return (await policies.list(sharing(users, things))).length > 0
    },

    async share(by, users, things, isShared) {
      return writes(by, async write => {
        if (!(await isLocked(write, lockGroupsSql, [...new Set([users, things])]))) return false
        await write.policies[isShared ? 'add' : 'remove']([sharing(users, things)])
        write.note(isShared ? 'group.share' : 'group.unshare', [users, things])
        return true
      })
    },
  }
}

function sharing(users: GroupId, things: GroupId): Policy {
  return { subject: membersOf(users), relation: 'member', object: things }
}

function memberships(group: GroupId, users: readonly UserId[]): Policy[] {
  return users.map(subject => ({ subject, relation: 'member', object: group }))
}

function accesses(group: GroupId, things: readonly ThingId[]): Policy[] {
  const subject = membersOf(group)
  return things.flatMap(object => (['read', 'write', 'delete'] as const).map(relation => ({ subject, relation, object })))
}
