// The version that a user's tokens must carry, remembered where that can be exact.

import type { Database } from '../../config/postgres/database.ts'
import type { UserId } from '../ids.ts'

export interface TokenVersions {
  /** undefined for a user that does not exist. */
  of(user: UserId): Promise<number | undefined>
  /** Called after the commit of what changed it and before the answer. */
  forget(user: UserId): void
}

const rememberedMax = 10_000

/**
 * The embedded database has one process, so every change passes through here and a remembered version is exact. On a server
 * other instances change it too: there each request asks, by primary key, which is exact as well.
 */
export function openTokenVersions(database: Database): TokenVersions {
  const remembered = new Map<UserId, number>()
  let changes = 0

  async function ask(user: UserId): Promise<number | undefined> {
    const [row] = await database.query<{ token_version: number }>('SELECT token_version FROM control_plane.users WHERE id = $1', [user])
    return row?.token_version
  }

  return {
    async of(user) {
      const known = remembered.get(user)
      if (known !== undefined) return known
      const changesBefore = changes
      const version = await ask(user)
      // An answer that a change overtook may be the old one.
      if (database.kind === 'embedded' && version !== undefined && changes === changesBefore) {
        const oldest = remembered.keys().next()
        if (remembered.size >= rememberedMax && !oldest.done) remembered.delete(oldest.value)
        remembered.set(user, version)
      }
      return version
    },
    forget(user) {
      changes++
      remembered.delete(user)
    },
  }
}
