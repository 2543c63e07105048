// Tells those who remember grants that an access may have ended.

import type { Logger } from '../config/logger.ts'
import type { Queries } from '../config/postgres/database.ts'
import type { AccessChange } from './client.ts'

/** The channel of PostgreSQL's NOTIFY; each database has channels of its own. */
export const changesChannel = 'sluice_access_changes'

export interface Changes {
  /**
   * Called by a store in the transaction of the change: with its commit, and not before, the other instances on the database hear of it.
   * Nothing where there are no others.
   */
  announceAll(changes: readonly AccessChange[], transaction: Queries): Promise<void>
  /** Called by a store after its commit and before its caller answers; the listeners in this process have run when it returns. */
  emit(change: AccessChange): void
  onChange(listener: (change: AccessChange) => void): () => void
  close(): void
}

/** @param shared whether other instances may be on the same database */
export function openChanges(logger: Logger, { shared = false }: { shared?: boolean } = {}): Changes {
  const listeners = new Set<{ call: (change: AccessChange) => void }>()
  async function announceAll(changes: readonly AccessChange[], transaction: Queries): Promise<void> {
    if (!shared || changes.length === 0) return
    const payloads = changes.map(change => JSON.stringify(change))
    await transaction.query('SELECT count(pg_notify($1, payload)::text) FROM unnest($2::text[]) AS payload', [changesChannel, payloads])
  }

  return {
    announceAll,
    emit(change) {
      for (const { call } of listeners) {
        try {
          call(change)
        } catch (error) {
          // The change is committed and its other listeners must hear of it.
          logger.error({ err: error, change }, 'a listener to access changes failed')
        }
      }
    },
    onChange(listener) {
      // An entry of its own, so that the same function given twice is called twice and stopped once.
      const entry = { call: listener }
      listeners.add(entry)
      return () => void listeners.delete(entry)
    },
    close: () => listeners.clear(),
  }
}
