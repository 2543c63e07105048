// Members of groups in the database: the things in them, and the policies by which members gain access (SPEC §5).
//
//   a user U in group G            G member U
//   a thing T in group G           T read, write and delete for the members of G, and a row of group_things
//   users group U shared with G    G member for the members of U

import type { Database, Queries, SqlValue } from '../../database/database.ts'
import { type EntityFilter, filteredRows } from '../entity.ts'
import { type GroupId, isId, type ThingId, type UserId } from '../ids.ts'
import { idIn, isDelivered, membersOf, namedBy, type Policy, type PolicyStore } from '../policies/policy-store.ts'
import { type Page, type PageRequest, type Searcher, toPage } from '../requests/page.ts'
import { lockUsersSql } from '../users/store.ts'
import type { Actor, Writes } from '../writes.ts'

export interface GroupUser {
  readonly id: UserId
  readonly email: string
}

export type MemberFilter = Pick<EntityFilter, 'metadata'>

export interface GroupMembers {
  /** Adds all or none; existing members stay. @returns false, with none added, if the group or one of the users is absent */
  addUsers(by: Actor, group: GroupId, users: readonly UserId[]): Promise<boolean>
  /** Adds all or none. @returns false, with none added, if the group or a thing is absent, or a thing does not belong to that owner */
  addThings(by: Actor, group: GroupId, things: readonly ThingId[], owner: UserId | undefined): Promise<boolean>
  /** Ids that are not members are skipped. */
  removeMembers(by: Actor, group: GroupId, users: readonly UserId[], things: readonly ThingId[]): Promise<void>
  /** Of these ids, the things that are in the group, with their owners. */
  thingsIn(group: GroupId, ids: readonly string[]): Promise<ReadonlyMap<string, UserId>>
  /** Of these ids, the users that a policy names as members of the group. */
  usersIn(group: GroupId, ids: readonly string[]): Promise<readonly string[]>
  /** In the order of ids, like its things. */
  users(group: GroupId, filter: MemberFilter, page: PageRequest, by: Searcher): Promise<Page<GroupUser>>
  things(group: GroupId, filter: MemberFilter, page: PageRequest, by: Searcher): Promise<Page<ThingId>>
  /** Whether the first group is shared with the second. */
  areShared(users: GroupId, things: GroupId): Promise<boolean>
  /** Makes the members of the first members of the second, or ends that. @returns false if one of them is absent */
  share(by: Actor, users: GroupId, things: GroupId, isShared: boolean): Promise<boolean>
}

const lockGroupsSql = `
  SELECT id FROM control_plane.groups WHERE id = ANY($1::uuid[]) AND ${isDelivered('groups.id')} ORDER BY id FOR KEY SHARE`
/** Changes of one group's members run one at a time, so that their rows and policies do not mix. */
const lockMembersSql = `
  SELECT id FROM control_plane.groups WHERE id = ANY($1::uuid[]) AND ${isDelivered('groups.id')} FOR NO KEY UPDATE`
const lockThingsSql = `
  SELECT id FROM control_plane.things
  WHERE id = ANY($1::uuid[]) AND ($2::uuid IS NULL OR owner = $2) AND ${isDelivered('things.id')} ORDER BY id FOR KEY SHARE`
const addThingsSql = `
  INSERT INTO control_plane.group_things (group_id, thing) SELECT $1, thing FROM unnest($2::uuid[]) AS thing ORDER BY thing
  ON CONFLICT DO NOTHING
  RETURNING thing`
const removeThingsSql = 'DELETE FROM control_plane.group_things WHERE group_id = $1 AND thing = ANY($2::uuid[]) RETURNING thing'

// A page follows an index of the group, and without a filter only that index is read for the total: PostgreSQL drops a LEFT JOIN whose columns are not used.
const thingsSql = `
  SELECT thing AS ordinal, thing AS id
  FROM control_plane.group_things LEFT JOIN control_plane.things ON things.id = group_things.thing WHERE group_id = $1`
const usersSql = `
  SELECT subject AS ordinal, subject AS id, email, email AS name
  FROM control_plane.tuples LEFT JOIN control_plane.users ON users.id = ${idIn('subject')}
  WHERE object = $1 AND relation = 'member' AND ${idIn('subject')} IS NOT NULL`
const usersInSql = `SELECT subject FROM control_plane.tuples WHERE object = $1 AND relation = 'member' AND subject = ANY($2::text[])`
const listedUsersSql = 'SELECT id AS ordinal, id, email, email AS name FROM control_plane.users WHERE id = ANY($1::uuid[])'

const advice = 'filter by less metadata'

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
        const added = await write.policies.add(memberships(group, set))
        if (added.length > 0) write.note('group.add-members', namedBy(group, added)[0])
        return true
      })
    },

    async addThings(by, group, things, owner) {
      const set = [...new Set(things)]
      return writes(by, async write => {
        if (!(await isLocked(write, lockMembersSql, [group]))) return false
        if (!(await isLocked(write, lockThingsSql, set, owner ?? null))) return false
        const added = await write.query<{ thing: ThingId }>(addThingsSql, [group, set])
        await write.policies.add(accesses(group, set))
        if (added.length > 0) write.note('group.add-members', [group, ...thingsOf(added, set)])
        return true
      })
    },

    async removeMembers(by, group, users, things) {
      await writes(by, async write => {
        await write.query(lockMembersSql, [[group]])
        const rows = await write.query<{ thing: ThingId }>(removeThingsSql, [group, things])
        await write.policies.remove(accesses(group, things))
        const removed = await write.policies.remove(memberships(group, users))
        const named = [...namedBy(group, removed)[0], ...thingsOf(rows, things)]
        if (named.length > 1) write.note('group.remove-members', named)
      })
    },

    async thingsIn(group, ids) {
      const sql = `
        SELECT things.id, things.owner FROM control_plane.group_things JOIN control_plane.things ON things.id = group_things.thing
        WHERE group_things.group_id = $1 AND things.id = ANY($2::uuid[])`
      const rows = await database.query<{ id: string; owner: UserId }>(sql, [group, ids])
      return new Map(rows.map(({ id, owner }) => [id, owner]))
    },

    async usersIn(group, ids) {
      if (ids.length === 0) return []
      const found = policies.isInDatabase
        ? await database.query<{ subject: string }>(usersInSql, [group, ids])
        : await policies.list({ object: group, relation: 'member' })
      const subjects = new Set<string>(found.map(({ subject }) => subject))
      return ids.filter(id => subjects.has(id))
    },

    async users(group, filter, page, by) {
      const found = policies.isInDatabase ? undefined : await policies.list({ object: group, relation: 'member' })
      const of = found?.filter(({ subject }) => isId(subject)).map(({ subject }) => subject) ?? group
      const matching = [found === undefined ? usersSql : listedUsersSql, [of]] as const
      const rows = await filteredRows<{ id: UserId; email: string }>(database, matching, filter, page, by, advice)
      return toPage(rows, ({ id, email }) => ({ id, email }))
    },

    async things(group, filter, page, by) {
      return toPage(await filteredRows<{ id: ThingId }>(database, [thingsSql, [group]], filter, page, by, advice), ({ id }) => id)
    },

    async areShared(users, things) {
      return (await policies.list(sharing(users, things))).length > 0
    },

    async share(by, users, things, isShared) {
      return writes(by, async write => {
        if (!(await isLocked(write, lockGroupsSql, [...new Set([users, things])]))) return false
        const changed = await write.policies[isShared ? 'add' : 'remove']([sharing(users, things)])
        if (changed.length > 0) write.note(isShared ? 'group.share' : 'group.unshare', [users, things])
        return true
      })
    },
  }
}

function sharing(users: GroupId, things: GroupId): Policy {
  return { subject: membersOf(users), relation: 'member', object: things }
}

/** The things of the rows, in the order of `things`. */
function thingsOf(rows: readonly { readonly thing: ThingId }[], things: readonly ThingId[]): ThingId[] {
  const found = new Set(rows.map(({ thing }) => thing))
  return things.filter(thing => found.has(thing))
}

function memberships(group: GroupId, users: readonly UserId[]): Policy[] {
  return users.map(subject => ({ subject, relation: 'member', object: group }))
}

function accesses(group: GroupId, things: readonly ThingId[]): Policy[] {
  const subject = membersOf(group)
  return things.flatMap(object => (['read', 'write', 'delete'] as const).map(relation => ({ subject, relation, object })))
}
