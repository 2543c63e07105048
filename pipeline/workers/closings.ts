// What a worker has opened, and closes again: all of it, whatever does not close.

import type { Logger } from '../../config/logger.ts'

export interface Closings {
  /** To be called right after a part is open. */
  add(close: () => Promise<void>): void
  /** Closes the parts in the reverse order. One that does not close is logged, and keeps no other from closing. Never rejects. */
  close(): Promise<void>
}

export function openClosings(logger: Logger): Closings {
  const closings: (() => Promise<void>)[] = []
  return {
    add: close => void closings.push(close),
    async close() {
      for (let close = closings.pop(); close !== undefined; close = closings.pop()) {
        try {
          await close()
        } catch (error) {
          logger.error({ err: error }, 'a part of the worker did not close')
        }
      }
    },
  }
}
