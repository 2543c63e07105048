// Invariants of the control plane's tables after concurrent requests: nothing refers to deleted rows, and rows and policies agree.

import type { Database } from '../../database/database.ts'

/** One line for each fault. Policies of the relational store. */
const sql = `
  WITH named AS (SELECT object || ' ' || relation || ' ' || subject AS policy, * FROM control_plane.tuples)
  SELECT 'a policy on what is gone: ' || policy AS fault FROM named
  WHERE object NOT IN ('users', 'authorities') AND object NOT IN (
    SELECT id::text FROM control_plane.things UNION ALL SELECT id::text FROM control_plane.groups
  )
  UNION ALL
  SELECT 'a policy for a deleted subject: ' || policy FROM named
  WHERE subject NOT IN (
    SELECT '*' UNION ALL SELECT id::text FROM control_plane.users UNION ALL SELECT id || '#member' FROM control_plane.groups
  )
  UNION ALL
  SELECT 'a connection of what is gone: ' || thing || ' ' || channel FROM control_plane.connections
  WHERE thing NOT IN (SELECT id FROM control_plane.things) OR channel NOT IN (SELECT id FROM control_plane.channels)
  UNION ALL
  SELECT 'a place in a group of what is gone: ' || group_id || ' ' || thing FROM control_plane.group_things
  WHERE thing NOT IN (SELECT id FROM control_plane.things) OR group_id NOT IN (SELECT id FROM control_plane.groups)
  UNION ALL
  SELECT 'a thing in a group whose members lack a right on it: ' || group_id || ' ' || relation || ' ' || thing
  FROM control_plane.group_things, unnest(ARRAY['read', 'write', 'delete']) AS relation
  WHERE (thing::text, relation, group_id || '#member') NOT IN (SELECT object, relation, subject FROM control_plane.tuples)
  UNION ALL
  SELECT 'a right of a group on a thing that is not in it: ' || policy FROM named
  WHERE relation <> 'member' AND subject LIKE '%#member'
    AND (replace(subject, '#member', ''), object) NOT IN (SELECT group_id::text, thing::text FROM control_plane.group_things)
  UNION ALL
  SELECT 'a thing that its owner lacks a right on: ' || relation || ' ' || id
  FROM control_plane.things, unnest(ARRAY['read', 'write', 'delete']) AS relation
  WHERE (id::text, relation, owner::text) NOT IN (SELECT object, relation, subject FROM control_plane.tuples)
  UNION ALL
  SELECT 'a key that opens two things: ' || one.id || ' ' || other.id
  FROM control_plane.things AS one JOIN control_plane.things AS other ON one.key_lookup = other.previous_key_lookup
  WHERE other.previous_key_ends_at > now()`

export async function inconsistencies(database: Database): Promise<string[]> {
  return (await database.query<{ fault: string }>(sql)).map(({ fault }) => fault)
}
