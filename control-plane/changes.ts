// Tells those who remember grants that an access may have ended.

import type { Logger } from '../config/logger.ts'
import type { AccessChange } from './client.ts'

export interface Changes {
  /** Called by a store after its commit and before its caller answers; the listeners have run when it returns. */
  emit(change: AccessChange): void
  onChange(listener: (change: AccessChange) => void): () => void
  close(): void
}

export function openChanges(logger: Logger): Changes {
  const listeners = new Set<{ call: (change: AccessChange) => void }>()
  return {
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
