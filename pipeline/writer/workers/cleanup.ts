// Closes everything that a worker has opened, even if something does not close.

import type { Logger } from '../../../config/logger.ts'

export interface Cleanup {
  /** Call it right after a part was opened. */
  add(close: () => Promise<void>): void
  /** Closes the parts in reverse order. A failure is logged, and does not prevent the others from closing. Never rejects. */
  close(): Promise<void>
}

export function openCleanup(logger: Logger): Cleanup {
  const cleanup: (() => Promise<void>)[] = []
  return {
    add: close => void cleanup.push(close),
    async close() {
      for (let close = cleanup.pop(); close !== undefined; close = cleanup.pop()) {
        try {
          await close()
        } catch (error) {
          logger.error({ err: error }, 'a part of the worker did not close')
        }
      }
    },
  }
}
