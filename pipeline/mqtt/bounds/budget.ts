// The bytes of messages in flight of all connections of a process: while they are used up, nothing more is read.

import { unlessAborted } from '../../../config/aborting.ts'
import type { Link } from '../link.ts'

export type Budget = ReturnType<typeof openBudget>

export function openBudget(bytesMax: number) {
  /** The bytes that each waits for, by what lets it go on. */
  const waiting = new Map<() => void, number>()
  let used = 0

  const fits = (bytes: number): boolean => used === 0 || used + bytes <= bytesMax

  function grant(): void {
    for (const [go, bytes] of waiting) {
      if (!fits(bytes)) return
      waiting.delete(go)
      used += bytes
      go()
    }
  }

  return {
    /**
     * undefined if the bytes are there, or the connection is closed; otherwise resolves when they are, in the order of the calls, or it is. A message that is
     * larger than all is taken alone.
     */
    take(bytes: number, link: Pick<Link, 'closed' | 'isClosed'>): Promise<void> | undefined {
      if ((waiting.size === 0 && fits(bytes)) || link.isClosed()) {
        used += bytes
        return undefined
      }
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.set(resolve, bytes)
      return unlessAborted(promise, link.closed()).catch(() => {
        if (!waiting.delete(resolve)) return
        used += bytes
        grant()
      })
    },
    free(bytes: number): void {
      used -= bytes
      grant()
    },
  }
}
