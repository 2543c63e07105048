// Groups in the database. Their members are in member-store.ts.

import type { Database, SqlRow, SqlValue } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { parseJsonText } from '../../http/requests/json-body.ts'
import { type EntityFilter, filteredRows, foldedName, type Metadata } from '../entity.ts'
import { type GroupId, isId, newGroupId, type ThingId, type UserId } from '../ids.ts'
import { groupsOfMemberMax, idIn, isDelivered, membersOf, type PolicyStore } from '../policies/policy-store.ts'
import { type Page, type PageRequest, type Searcher, toPage } from '../requests/page.ts'
import { outcomeOf, type Versions, type WriteOutcome } from '../versions.ts'
import type { Actor, Caller, Writes } from '../writes.ts'

export interface NewGroup {
  readonly name: string
  readonly description?: string
  readonly metadata?: Metadata
}

export interface Group extends NewGroup {
  readonly id: GroupId
  readonly owner: UserId
  /** RFC 3339. */
  readonly createdAt: string
  readonly updatedAt: string
}

export interface Groups {
  /** The creator becomes its owner and a member. @throws HttpError `conflict` beyond `groupsOfMemberMax` groups of one owner */
  create(by: Caller, group: NewGroup): Promise<GroupId>
  find(group: GroupId): Promise<{ readonly group: Group; readonly version: number } | undefined>
  /** The groups that the one who searches created or is a member of. */
  list(by: Searcher, filter: EntityFilter, page: PageRequest): Promise<Page<Group>>
  /** The groups that the user is a member of, or that the thing is in. */
  listOf(member: { readonly user: UserId } | { readonly thing: ThingId }, page: PageRequest, by: Searcher): Promise<Page<Group>>
  /** Replaces name, description and metadata. */
  update(by: Actor, group: GroupId, to: NewGroup, versions: Versions): Promise<WriteOutcome>
  /** Deletes the group, and ends every access that was gained through it. */
  remove(by: Actor, group: GroupId, versions: Versions): Promise<WriteOutcome>
}

// The timestamps in RFC 3339, in UTC.
const timestamps = ['created_at', 'updated_at'].map(
  name => `to_char(${name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS ${name}`,
)
const columns = `id, owner, name, description, metadata, ${timestamps.join(', ')}`

const memberSql = (ids: string) => `
  SELECT ordinal, ${columns} FROM control_plane.groups WHERE (owner = $1 OR id = ANY(${ids})) AND ${isDelivered('groups.id')}`
/** An array, so that the two conditions are two look-ups in indexes. */
const groupIdsOfUserSql = `ARRAY(SELECT ${idIn('object')} FROM control_plane.tuples WHERE subject = $2 AND relation = 'member')`
const listedIdsSql = '$2::uuid[]'

// Applies to every policy store, and includes groups that the owner has left. Counting stops one above the bound.
const madeSql = `
  SELECT count(*) AS made FROM (SELECT FROM control_plane.groups WHERE owner = $1 LIMIT ${groupsOfMemberMax + 1}) AS counted`

const updateSql = `
  UPDATE control_plane.groups
  SET name = $2, name_folded = $3, description = $4, metadata = $5::jsonb, version = version + 1, updated_at = now()
  WHERE id = $1 AND ($6::int4[] IS NULL OR version = ANY($6))
  RETURNING version`

type GroupRow = SqlRow & {
  id: GroupId
  owner: UserId
  name: string
  description: string | null
  metadata: string | null
  created_at: string
  updated_at: string
}
type VersionRow = SqlRow & { version: number }

const lockRemovedSql = `
  SELECT version FROM control_plane.groups
  WHERE id = $1 AND ($2::int4[] IS NULL OR version = ANY($2)) AND ${isDelivered('groups.id')} FOR UPDATE`
const findSql = `SELECT ${columns}, version FROM control_plane.groups WHERE id = $1 AND ${isDelivered('groups.id')}`

export function openGroups(database: Database, policies: PolicyStore, writes: Writes): Groups {
  async function find(group: GroupId): ReturnType<Groups['find']> {
    const [row] = await database.query<GroupRow & VersionRow>(findSql, [group])
    return row === undefined ? undefined : { group: toGroup(row), version: row.version }
  }

  const exists = async (group: GroupId): Promise<boolean> => (await find(group)) !== undefined

  /** The owner's groups, and those with the given ids: a list, or the SQL that finds them by `$2`. */
  async function listWith(
    owner: UserId | null,
    [ids, value]: [sql: string, value: SqlValue],
    filter: EntityFilter,
    page: PageRequest,
    by: Searcher,
  ): Promise<Page<Group>> {
    return toPage(await filteredRows<GroupRow>(database, [memberSql(ids), [owner, value]], filter, page, by), toGroup)
  }

  /** The groups that name the user as their member. */
  async function groupIdsOf(user: UserId): Promise<[string, SqlValue]> {
    if (policies.isInDatabase) return [groupIdsOfUserSql, user]
    const found = await policies.list({ subject: user, relation: 'member' })
    return [listedIdsSql, found.filter(({ object }) => isId(object)).map(({ object }) => object)]
  }

  return {
    async create(by, group) {
      const id = newGroupId()
      const { name, description = null, metadata } = group
      await writes(by, async write => {
        await write.query(
          'INSERT INTO control_plane.groups (id, owner, name, name_folded, description, metadata) VALUES ($1, $2, $3, $4, $5, $6::jsonb)',
          [id, by.user, name, foldedName(name), description, metadata === undefined ? null : JSON.stringify(metadata)],
        )
        const [counted] = await write.query<{ made: bigint }>(madeSql, [by.user])
        if (counted!.made > groupsOfMemberMax)
          throw new HttpError('conflict', `a user owns at most ${groupsOfMemberMax} groups: delete some of yours`)
        await write.policies.add([{ subject: by.user, relation: 'member', object: id }], [id])
        write.note('group.create', [id])
      })
      return id
    },

    find,

    list: async (by, filter, page) => listWith(by.user, await groupIdsOf(by.user), filter, page, by),

    async listOf(member, page, by) {
      if ('user' in member) return listWith(null, await groupIdsOf(member.user), {}, page, by)
      return listWith(null, ['ARRAY(SELECT group_id FROM control_plane.group_things WHERE thing = $2)', member.thing], {}, page, by)
    },

    async update(by, group, { name, description = null, metadata }, versions) {
      const values = [
        group,
        name,
        foldedName(name),
        description,
        metadata === undefined ? null : JSON.stringify(metadata),
        versions ?? null,
      ]
      const row = await writes(by, async write => {
        const [updated] = await write.query<VersionRow>(updateSql, values)
        if (updated !== undefined) write.note('group.update', [group])
        return updated
      })
      return outcomeOf(row, () => exists(group))
    },

    async remove(by, group, versions) {
      const [row] = await writes(by, async write => {
        // The lock comes first: a request that adds a member waits for it, and then finds the group gone.
        const rows = await write.query<VersionRow>(lockRemovedSql, [group, versions ?? null])
        if (rows.length === 0) return []
        await write.query('DELETE FROM control_plane.groups WHERE id = $1', [group])
        await write.policies.removeAll({ object: group })
        await write.policies.removeAll({ subject: membersOf(group) })
        write.note('group.delete', [group])
        return rows
      })
      return outcomeOf(row, () => exists(group))
    },
  }
}

function toGroup(row: GroupRow): Group {
  return {
    id: row.id,
    owner: row.owner,
    name: row.name,
    ...(row.description === null ? {} : { description: row.description }),
    ...(row.metadata === null ? {} : { metadata: parseJsonText(row.metadata) as Metadata }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
