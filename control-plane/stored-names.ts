// Folds again the names that an earlier version stored in lower case.

import type { Database } from '../database/database.ts'
import { foldedName } from './entity.ts'

/** The tables with names, each with its primary key. */
const tables = { things: 'id', channels: 'id', groups: 'id', bootstrap_configs: 'thing' } as const
/** With the longest names about 4 MiB. */
const rowsOfChunk = 1_000

/**
 * Folds the names whose stored form differs from `foldedName`, until a day after the migration that asks for it. The tables are read in chunks, and
 * each chunk is changed by a statement of its own. Several instances may do it at once, and instances of an earlier version may still write: a row
 * whose name changes meanwhile keeps what they stored, until the next start.
 *
 * @returns how many names were folded
 * @throws DatabaseError; it may be called again
 */
export async function foldStoredNames(database: Database): Promise<number> {
  const [due] = await database.query<{ is_last: boolean }>(
    'SELECT names_to_fold_until < now() AS is_last FROM control_plane.installation WHERE names_to_fold_until IS NOT NULL',
  )
  if (due === undefined) return 0
  let folded = 0
  for (const [table, key] of Object.entries(tables)) folded += await foldTable(database, table, key)
  if (due.is_last) await database.query('UPDATE control_plane.installation SET names_to_fold_until = NULL')
  return folded
}

type NameRow = { id: string; name: string; name_folded: string | null }

async function foldTable(database: Database, table: string, key: string): Promise<number> {
  let folded = 0
  let last: string | undefined
  do {
    const rows = await database.query<NameRow>(chunkSql(table, key, last !== undefined), last === undefined ? [] : [last])
    last = rows.at(-1)?.id
    const stale = rows.map(row => ({ ...row, wanted: foldedName(row.name) })).filter(row => row.wanted !== row.name_folded)
    if (stale.length > 0) folded += (await database.query(updateSql(table, key), [JSON.stringify(stale)])).length
  } while (last !== undefined)
  return folded
}

/** Of the next rows those whose folded name may be wrong, and always the last one. A name in ASCII is folded to its lower case. */
const chunkSql = (table: string, key: string, isAfter: boolean): string => `
  WITH chunk AS MATERIALIZED (
    SELECT ${key} AS id, name, name_folded FROM control_plane.${table} ${isAfter ? `WHERE ${key} > $1` : ''} ORDER BY ${key} LIMIT ${rowsOfChunk}
  )
  SELECT id, name, name_folded FROM chunk
  WHERE name ~ '[^\\x01-\\x7F]' OR name_folded IS DISTINCT FROM lower(name COLLATE "C") OR id = (SELECT id FROM chunk ORDER BY id DESC LIMIT 1)
  ORDER BY id`

/** Locks the rows in their order, so that two instances do not wait for each other. Not a change of the entity: its version stays. */
const updateSql = (table: string, key: string): string => `
  WITH locked AS MATERIALIZED (
    SELECT stale.id, wanted FROM json_to_recordset($1::json) AS stale (id uuid, name text, wanted text) JOIN control_plane.${table} AS stored
    ON stored.${key} = stale.id AND stored.name = stale.name ORDER BY stored.${key} FOR NO KEY UPDATE OF stored
  )
  UPDATE control_plane.${table} SET name_folded = wanted FROM locked WHERE ${table}.${key} = locked.id RETURNING 1`
