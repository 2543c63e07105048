// The policy store in the control plane's own database: a table of policies, and one query for each check.

import type { Database, Queries, SqlRow } from '../../config/postgres/database.ts'
import { objectsMax, type Policy, type PolicyChanges, type PolicyFilter, type PolicyObject, type PolicyStore } from './policy-store.ts'

// From the subject upwards: a user is in few groups, while a group may have many members. UNION drops what it has seen, so
// groups that hold each other end.
const subjectsSql = `
  WITH RECURSIVE subjects (subject) AS (
    SELECT unnest(ARRAY[$1::text, '*'])
    UNION
    SELECT tuples.object || '#member'
    FROM subjects JOIN control_plane.tuples ON tuples.subject = subjects.subject AND tuples.relation = 'member'
  )`

// LIMIT makes it a look-up for each subject, in their order and no further than needed: a join would read all who have the relation on the object,
// which on `users` are all users.
const allowsSql = `
  ${subjectsSql}
  SELECT EXISTS (
    SELECT FROM subjects, LATERAL (
      SELECT FROM control_plane.tuples WHERE object = $3 AND relation = $2 AND tuples.subject = subjects.subject LIMIT 1
    ) AS policy
  ) AS allowed`

// Without what the user owns, which may be a tenth of all.
const objectsSql = `
  ${subjectsSql}
  SELECT DISTINCT object FROM control_plane.tuples JOIN subjects USING (subject) WHERE relation = $2
    AND $1 IS DISTINCT FROM (
      SELECT owner::text FROM control_plane.things WHERE id = CASE WHEN object ~ '^[0-9a-f-]{36}$' THEN object::uuid END
    )
  LIMIT ${objectsMax}`

// Sorted, so that two transactions that add the same policies wait for each other in one order.
const addSql = `
  INSERT INTO control_plane.tuples (object, relation, subject)
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS policy (object, relation, subject)
  ORDER BY object, relation, subject
  ON CONFLICT DO NOTHING`

const removeSql = `
  DELETE FROM control_plane.tuples
  WHERE (object, relation, subject) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))`

type PolicyRow = SqlRow & Policy

export function openRelationalPolicies(database: Database): PolicyStore {
  return {
    async allows(subject, relation, object) {
      const [row] = await database.query<{ allowed: boolean }>(allowsSql, [subject, relation, object])
      return row?.allowed === true
    },
    transaction: work => database.transaction(transaction => work(transaction, changesIn(transaction))),
    async objects(subject, relation) {
      const rows = await database.query<{ object: PolicyObject }>(objectsSql, [subject, relation])
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

function changesIn(transaction: Queries): PolicyChanges {
  return {
    async add(policies) {
      await transaction.query(addSql, columnsOf(policies))
    },
    async remove(policies) {
      await transaction.query(removeSql, columnsOf(policies))
    },
    async removeAll(of) {
      const [where, values] = conditionsOf(of)
      await transaction.query(`DELETE FROM control_plane.tuples WHERE ${where}`, values)
    },
  }
}

function conditionsOf(of: PolicyFilter): [string, string[]] {
  const given = (['object', 'relation', 'subject'] as const).filter(column => of[column] !== undefined)
  return [given.map((column, at) => `${column} = $${at + 1}`).join(' AND '), given.map(column => of[column]!)]
}

function columnsOf(policies: readonly Policy[]): [string[], string[], string[]] {
  return [policies.map(policy => policy.object), policies.map(policy => policy.relation), policies.map(policy => policy.subject)]
}
