// What users who registered themselves may own, and change in a minute: anyone can be one, and what they create takes space that others need.

import { setBounded } from '../../config/bounded-map.ts'
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

/** Ids that the changes of a user name: each becomes a part of a line of the audit log. */
const changedPerMinute = 300
const changedMs = 60_000 / changedPerMinute
/** Whose changes are counted. Beyond that the user who changed nothing for the longest may change as many again. */
const changersMax = 10_000

export interface ChangeBound {
  /** @throws HttpError `too_many_requests` for a user with bounds who has used up what a minute allows */
  demand(queries: Queries, user: UserId): Promise<void>
  /** Counts a change. It may name more ids than are left: they are missing later. */
  note(user: UserId, ids: number): void
}

/** In the memory of this process. A user without bounds costs a look-up for each minute's worth of changes. */
export function openChangeBound(): ChangeBound {
  /** When everything is forgotten that a user has changed. */
  const forgottenMs = new Map<UserId, number>()

  return {
    async demand(queries, user) {
      const waitMs = (forgottenMs.get(user) ?? 0) - performance.now() - 60_000 + changedMs
      if (waitMs <= 0) return
      if ((await queries.query('SELECT FROM control_plane.users WHERE id = $1 AND bounded', [user])).length === 0) {
        forgottenMs.delete(user)
        return
      }
      const retryAfterSeconds = Math.ceil(waitMs / 1000)
      const detail = `the changes of a user who registered themselves name at most ${changedPerMinute} ids a minute: retry after ${retryAfterSeconds} s, or ask an administrator to lift the bounds (PUT /users/${user}/bounded)`
      throw new HttpError('too_many_requests', detail, { retryAfterSeconds })
    },
    note(user, ids) {
      const now = performance.now()
      setBounded(forgottenMs, user, Math.max(now, forgottenMs.get(user) ?? 0) + ids * changedMs, changersMax)
    },
  }
}
