// What users who registered themselves may own: anyone can be one, and what they create takes space that others need.

import type { Queries } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import type { UserId } from '../ids.ts'

/** By table, each with an index on `owner, ordinal`. */
const ownedMax = { things: 1_000, channels: 100, api_keys: 100 } as const

/**
 * Call it before the rows are inserted. It takes no lock, so requests at the same time may together exceed the bound: it keeps a disk from filling,
 * and need not be exact. A user without bounds costs one look-up.
 *
 * @param more that are to be created
 * @throws HttpError `conflict`
 */
export async function demandCapacity(queries: Queries, owner: UserId, table: keyof typeof ownedMax, more: number): Promise<void> {
  const most = ownedMax[table]
  const countedSql = `SELECT count(*) FROM (SELECT FROM control_plane.${table} WHERE owner = $1 ORDER BY ordinal LIMIT ${most}) AS owned`
  const [bounded] = await queries.query<{ owned: number }>(
    `SELECT (${countedSql})::int4 AS owned FROM control_plane.users WHERE id = $1 AND bounded`,
    [owner],
  )
  if (bounded === undefined || bounded.owned + more <= most) return
  const what = table === 'api_keys' ? 'API keys' : table
  const detail = `a user who registered themselves owns at most ${most} ${what}, and this would be more: delete some, or ask an administrator to lift the bounds (PUT /users/${owner}/bounded)`
  throw new HttpError('conflict', detail)
}
