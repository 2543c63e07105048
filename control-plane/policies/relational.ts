// The policy store in the control plane's own database: a table of policies, and one query for each check.

import type { Database, Queries, SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { isId } from '../ids.ts'
import { boundedRows } from '../requests/page.ts'
import {
  chainMax,
  groupsOfMemberMax,
  idIn,
  membersOfGroupMax,
  objectsMax,
  type Policy,
  type PolicyFilter,
  type PolicyObject,
  type PolicyStore,
  type PolicyWriter,
} from './policy-store.ts'

// From the subject upwards: a user is in few groups, while a group may have many members. UNION drops rows that it has seen at the same depth, so
// groups that contain each other cost no more than a chain.
const subjectsSql = `
  WITH RECURSIVE subjects (subject, depth) AS (
    SELECT unnest(ARRAY[$1::text, '*']), 0
    UNION
    SELECT tuples.object || '#member', depth + 1
    FROM subjects JOIN control_plane.tuples ON tuples.subject = subjects.subject AND tuples.relation = 'member'
    WHERE depth < ${chainMax}
  )`

// LIMIT makes PostgreSQL look up each subject, in their order, and stop at the first match: a join would read all subjects with the relation on the
// object, which for `users` are all users.
const allowsSql = `
  ${subjectsSql}
  SELECT EXISTS (
    SELECT FROM subjects, LATERAL (
      SELECT FROM control_plane.tuples WHERE object = $3 AND relation = $2 AND tuples.subject = subjects.subject LIMIT 1
    ) AS policy
  ) AS allowed`

// Leaves out what the user owns, which may be a tenth of all.
const objectsSql = `
  ${subjectsSql}
  SELECT DISTINCT object FROM control_plane.tuples JOIN subjects USING (subject) WHERE relation = $2
    AND $1 IS DISTINCT FROM (
      SELECT owner::text FROM control_plane.things WHERE id = ${idIn('object')}
    )
  LIMIT ${objectsMax}`

// Sorted, so that two transactions that add the same policies lock them in the same order and do not deadlock.
const addSql = `
  INSERT INTO control_plane.tuples (object, relation, subject)
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS policy (object, relation, subject)
  ORDER BY object, relation, subject
  ON CONFLICT DO NOTHING
  RETURNING object, relation, subject`

// Which of the members are in too many groups, and which of the groups have too many members. Counting stops one above the bound.
const crowdedSql = `
  SELECT member FROM unnest($1::text[]) AS member WHERE ${groupsOfMemberMax} < (SELECT count(*) FROM (
    SELECT FROM control_plane.tuples WHERE subject = member AND relation = 'member' AND object NOT IN ('users', 'authorities')
    LIMIT ${groupsOfMemberMax + 1}) AS counted)
  UNION ALL
  SELECT joined FROM unnest($2::text[]) AS joined WHERE ${membersOfGroupMax} < (SELECT count(*) FROM (
    SELECT FROM control_plane.tuples WHERE object = joined AND relation = 'member' LIMIT ${membersOfGroupMax + 1}) AS counted)
  LIMIT 1`

/** Requests that join groups wait for each other: two short chains may become a long one. */
const lockChainsSql = `SELECT pg_advisory_xact_lock(hashtextextended('chains of groups', 0))::text`
// The length of the longest chain through the new membership, each group counted on its shortest path: a cycle counts once.
const chainSql = `
  WITH RECURSIVE before (subject, depth) AS (
    SELECT unnest($1::text[]), 1
    UNION
    SELECT tuples.subject, depth + 1 FROM before JOIN control_plane.tuples ON object = replace(before.subject, '#member', '')
    WHERE relation = 'member' AND tuples.subject LIKE '%#member' AND depth <= ${chainMax}
  ), behind (object, depth) AS (
    SELECT unnest($2::text[]), 1
    UNION
    SELECT tuples.object, depth + 1 FROM behind JOIN control_plane.tuples ON subject = behind.object || '#member'
    WHERE relation = 'member' AND depth <= ${chainMax}
  )
  SELECT (SELECT max(depth) FROM (SELECT min(depth) AS depth FROM before GROUP BY subject) AS nearest)
       + (SELECT max(depth) FROM (SELECT min(depth) AS depth FROM behind GROUP BY object) AS nearest) AS groups`

const removeSql = `
  DELETE FROM control_plane.tuples
  WHERE (object, relation, subject) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))
  RETURNING object, relation, subject`

type PolicyRow = SqlRow & Policy

export function openRelationalPolicies(database: Database): PolicyStore {
  return {
    isInDatabase: true,
    async allows(subject, relation, object) {
      const [row] = await database.query<{ allowed: boolean }>(allowsSql, [subject, relation, object])
      return row?.allowed === true
    },
    transaction: work => database.transaction(transaction => work(transaction, policyWriterIn(transaction))),
    async objects(user, relation, signal = new AbortController().signal) {
      const [by, advice] = [{ user, signal }, 'list without those of others']
      const rows = await boundedRows<{ object: PolicyObject }>(database, by, advice, objectsSql, [user, relation])
      return rows.map(({ object }) => object)
    },
    async list(of, transaction) {
      const [where, values] = conditionsOf(of)
      const rows = await (transaction ?? database).query<PolicyRow>(
        `SELECT object, relation, subject FROM control_plane.tuples WHERE ${where}`,
        values,
      )
      return rows.map(({ subject, relation, object }) => ({ subject, relation, object }))
    },
  }
}

function policyWriterIn(transaction: Queries): PolicyWriter {
  return {
    async add(policies) {
      const added = await transaction.query<PolicyRow>(addSql, columnsOf(policies))
      await refuseBeyond(
        transaction,
        added.filter(({ relation, object }) => relation === 'member' && isId(object)),
      )
      return inOrder(policies, added)
    },
    async remove(policies) {
      return inOrder(policies, await transaction.query<PolicyRow>(removeSql, columnsOf(policies)))
    },
    async removeAll(of) {
      const [where, values] = conditionsOf(of)
      await transaction.query(`DELETE FROM control_plane.tuples WHERE ${where}`, values)
    },
  }
}

/** @throws HttpError `conflict` if a check would walk too far through these memberships, which are already in the table */
async function refuseBeyond(transaction: Queries, memberships: readonly Policy[]): Promise<void> {
  if (memberships.length === 0) return
  const [groups, , members] = columnsOf(memberships)
  const [crowded] = await transaction.query(crowdedSql, [[...new Set(members)], [...new Set(groups)]])
  if (crowded !== undefined) {
    const detail = `a user or a group is a member of at most ${groupsOfMemberMax} groups, and a group has at most ${membersOfGroupMax} members: leave some groups, or make another one`
    throw new HttpError('conflict', detail)
  }
  const joined = memberships.filter(({ subject }) => subject.endsWith('#member'))
  if (joined.length === 0) return
  await transaction.query(lockChainsSql)
  const [to, , from] = columnsOf(joined)
  const [chain] = await transaction.query<{ groups: number }>(chainSql, [from, to])
  if (chain!.groups <= chainMax) return
  throw new HttpError('conflict', `at most ${chainMax} groups can be shared in a chain: share with fewer in between`)
}

/** The policies that are among the rows, in the caller's order. */
function inOrder(policies: readonly Policy[], rows: readonly Policy[]): Policy[] {
  const keyOf = ({ object, relation, subject }: Policy): string => `${object} ${relation} ${subject}`
  const keys = new Set(rows.map(keyOf))
  return policies.filter(policy => keys.has(keyOf(policy)))
}

function conditionsOf(of: PolicyFilter): [string, string[]] {
  const columns = (['object', 'relation', 'subject'] as const).filter(column => of[column] !== undefined)
  return [columns.map((column, at) => `${column} = $${at + 1}`).join(' AND '), columns.map(column => of[column]!)]
}

function columnsOf(policies: readonly Policy[]): [string[], string[], string[]] {
  return [policies.map(policy => policy.object), policies.map(policy => policy.relation), policies.map(policy => policy.subject)]
}
