// Notifies caches of grants that an access may have ended.

import type { Logger } from '../config/logger.ts'
import type { Queries } from '../database/database.ts'
import type { AccessChange } from './client.ts'

/** The channel of PostgreSQL's NOTIFY; each database has channels of its own. */
export const accessChangesChannel = 'sluice_access_changes'

export interface AccessChanges {
  /**
   * Called by a store in the transaction of the change: the other instances on the database are notified with its commit, and not before.
   * Does nothing if there are no other instances.
   */
  announceAll(changes: readonly AccessChange[], transaction: Queries): Promise<void>
  /** Called by a store after its commit and before its caller answers; runs the listeners of this process before it returns. */
  emit(change: AccessChange): void
  onChange(listener: (change: AccessChange) => void): () => void
  close(): void
}

/** @param shared whether other instances may be on the same database */
export function openAccessChanges(logger: Logger, { shared = false }: { shared?: boolean } = {}): AccessChanges {
  const listeners = new Set<{ call: (change: AccessChange) => void }>()
  async function announceAll(changes: readonly AccessChange[], transaction: Queries): Promise<void> {
    if (!shared || changes.length === 0) return
    const payloads = changes.map(change => JSON.stringify(change))
    await transaction.query('SELECT count(pg_notify($1, payload)::text) FROM unnest($2::text[]) AS payload', [
      accessChangesChannel,
      payloads,
    ])
  }

  return {
    announceAll,
    emit(change) {
      for (const { call } of listeners) {
        try {
          call(change)
        } catch (error) {
          // The change is committed, so its other listeners must still be notified.
          logger.error({ err: error, change }, 'a listener to access changes failed')
        }
      }
    },
    onChange(listener) {
      // A new object for each listener, so that a function that is added twice is called twice, and each stop removes one.
      const entry = { call: listener }
      listeners.add(entry)
      return () => void listeners.delete(entry)
    },
    close: () => listeners.clear(),
  }
}
