// Closes everything that was opened, even if something does not close.

import type { Logger } from './logger.ts'

export interface Cleanup {
  /** Call it right after a part was opened. */
  add(close: () => Promise<void>): void
  /**
   * Closes the parts in reverse order. A failure is logged, and does not prevent the others from closing. Never rejects.
   *
   * @returns the first failure
   */
  close(): Promise<unknown>
}

export function openCleanup(logger: Pick<Logger, 'error'>): Cleanup {
  const cleanup: (() => Promise<void>)[] = []
  return {
    add: close => void cleanup.push(close),
    async close() {
      let failed: unknown
      for (let close = cleanup.pop(); close !== undefined; close = cleanup.pop()) {
        try {
          await close()
        } catch (error) {
          failed ??= error
          logger.error({ err: error }, 'a component failed to close')
        }
      }
      return failed
    },
  }
}
