// The bytes of messages in flight of all connections of a process: while they are used up, nothing more is read.

import type { Link } from '../link.ts'

export type Budget = ReturnType<typeof openBudget>

interface Waiting {
  readonly bytes: number
  readonly go: () => void
}

export function openBudget(bytesMax: number) {
  const waiting = new Set<Waiting>()
  let used = 0

  const fits = (bytes: number): boolean => used === 0 || used + bytes <= bytesMax

  function grant(): void {
    for (const one of waiting) {
      if (!fits(one.bytes)) return
      waiting.delete(one)
      used += one.bytes
      one.go()
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
      const one: Waiting = { bytes, go: resolve }
      const onClosed = (): void => {
        waiting.delete(one)
        used += bytes
        resolve()
        grant()
      }
      waiting.add(one)
      link.closed().addEventListener('abort', onClosed, { once: true })
      return promise.then(() => link.closed().removeEventListener('abort', onClosed))
    },
    free(bytes: number): void {
      used -= bytes
      grant()
    },
  }
}
