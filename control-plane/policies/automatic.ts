// The automatic policies of SPEC §5, derived from the rows of users, things and groups: read in batches, all or only the missing ones.

import type { Queries } from '../../database/database.ts'
import { isDelivered, type Policy } from './policy-store.ts'

/** A kind of automatic policies, each belonging to an entity. */
export interface AutomaticKind {
  readonly name: string
  /** The right in words. */
  readonly gives: string
  /** The table of the entities. */
  readonly entities: 'users' | 'things' | 'groups'
  /** Columns of the policies, and where they come from; `entity` is the entity's id. */
  readonly object: string
  readonly relations: readonly string[]
  readonly subject: string
  readonly from: string
  readonly entity: string
  /** The table whose rows the policies belong to: locked, so that a deletion of a row also finds its policies. */
  readonly locked: string
}

const rights = ['read', 'write', 'delete']

/** The policies that users, things and groups get on creation, and things when they are added to a group. */
export const automaticKinds: readonly AutomaticKind[] = [
  {
    name: 'users',
    gives: 'member of users',
    entities: 'users',
    object: `'users'`,
    relations: ['member'],
    subject: 'users.id::text',
    from: 'control_plane.users',
    entity: 'users.id',
    locked: 'users',
  },
  {
    name: 'things',
    gives: 'read, write and delete for the owner',
    entities: 'things',
    object: 'things.id::text',
    relations: rights,
    subject: 'things.owner::text',
    from: 'control_plane.things',
    entity: 'things.id',
    locked: 'things',
  },
  {
    name: 'groups',
    gives: 'member for the owner',
    entities: 'groups',
    object: 'groups.id::text',
    relations: ['member'],
    subject: 'groups.owner::text',
    from: 'control_plane.groups',
    entity: 'groups.id',
    locked: 'groups',
  },
  {
    name: 'things in groups',
    gives: 'read, write and delete for the members of the group',
    entities: 'things',
    object: 'group_things.thing::text',
    relations: rights,
    subject: `group_things.group_id || '#member'`,
    from: 'control_plane.group_things',
    entity: 'group_things.thing',
    locked: 'group_things',
  },
]

export async function countEntities(queries: Queries, { entities }: AutomaticKind): Promise<number> {
  const [row] = await queries.query<{ entities: bigint }>(`SELECT count(*) AS entities FROM control_plane.${entities}`)
  return Number(row!.entities)
}

/** The next entities in the order of their ids, without those whose policies are not delivered yet. */
export async function nextEntities(
  queries: Queries,
  { entities }: AutomaticKind,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<string[]> {
  const sql = `
    SELECT id FROM control_plane.${entities}
    WHERE ($1::uuid IS NULL OR id > $1) AND ${isDelivered(`${entities}.id`)}
    ORDER BY id LIMIT $2`
  return (await queries.query<{ id: string }>(sql, [after ?? null, limit])).map(({ id }) => id)
}

export interface PolicyReading {
  /** Only those that the relational store's table lacks. */
  readonly onlyMissing: boolean
  /** In a transaction that adds them. */
  readonly locks: boolean
}

/** The automatic policies of these entities. */
export async function automaticPolicies(
  queries: Queries,
  { object, relations, subject, from, entity, locked }: AutomaticKind,
  entities: readonly string[],
  { onlyMissing, locks }: PolicyReading,
): Promise<Policy[]> {
  // LIMIT makes PostgreSQL look up each policy: a join might read all policies.
  const isMissing = `(
    SELECT true FROM control_plane.tuples
    WHERE tuples.object = ${object} AND tuples.relation = given.relation AND tuples.subject = ${subject} LIMIT 1
  ) IS NULL`
  const sql = `
    SELECT ${object} AS object, given.relation, ${subject} AS subject
    FROM ${from} CROSS JOIN unnest($2::text[]) AS given (relation)
    WHERE ${entity} = ANY($1::uuid[])${onlyMissing ? ` AND ${isMissing}` : ''}
    ${locks ? `FOR KEY SHARE OF ${locked}` : ''}`
  return queries.query<Policy & Record<string, string>>(sql, [entities, relations])
}
