// The version that a user's tokens must carry, cached where the cache is exact.

import { setBounded } from '../../config/bounded-map.ts'
import type { Database } from '../../database/database.ts'
import type { UserId } from '../ids.ts'

export interface TokenVersions {
  /** The user's version; undefined for a user that does not exist. */
  of(user: UserId): Promise<number | undefined>
  /** Call it after the commit that changed the version, and before the answer. */
  forget(user: UserId): void
}

const rememberedMax = 10_000

/**
 * The embedded database has one process, so every change passes through here and a cached version is exact. On a server
 * other instances change it too, so each request reads it by primary key, which is exact as well.
 */
export function openTokenVersions(database: Database): TokenVersions {
  const remembered = new Map<UserId, number>()
  let invalidations = 0

  /** The next query, which is sent after the answer to the previous one: so no answer is older than the call that gets it. */
  let waiting: { readonly users: Set<UserId>; readonly answer: Promise<ReadonlyMap<UserId, number>> } | undefined
  let before: Promise<unknown> = Promise.resolve()

  async function ask(user: UserId): Promise<number | undefined> {
    if (waiting === undefined) {
      const users = new Set<UserId>()
      const answer = before.then(() => {
        waiting = undefined
        return askAll([...users])
      })
      waiting = { users, answer }
      before = answer.catch(() => undefined)
    }
    waiting.users.add(user)
    return (await waiting.answer).get(user)
  }

  async function askAll(users: readonly UserId[]): Promise<ReadonlyMap<UserId, number>> {
    const sql = 'SELECT id, token_version FROM control_plane.users WHERE id = ANY($1::uuid[])'
    const rows = await database.query<{ id: UserId; token_version: number }>(sql, [users])
    return new Map(rows.map(({ id, token_version }) => [id, token_version]))
  }

  return {
    async of(user) {
      const known = remembered.get(user)
      if (known !== undefined) return known
      const invalidationsBefore = invalidations
      const version = await ask(user)
      // If a change came meanwhile, this answer may have the old version.
      if (database.kind === 'embedded' && version !== undefined && invalidations === invalidationsBefore) {
        setBounded(remembered, user, version, rememberedMax)
      }
      return version
    },
    forget(user) {
      invalidations++
      remembered.delete(user)
    },
  }
}
