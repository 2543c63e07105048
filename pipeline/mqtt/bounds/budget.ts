// The bytes of messages in flight of all connections of a process: while they are used up, nothing more is read.

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
    /** Resolves when the bytes are there, in the order of the calls; at once after the connection is closed. A message that is larger than all is taken alone. */
    async take(bytes: number, closed: AbortSignal): Promise<void> {
      if ((waiting.size === 0 && fits(bytes)) || closed.aborted) {
        used += bytes
        return
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
      closed.addEventListener('abort', onClosed, { once: true })
      await promise
      closed.removeEventListener('abort', onClosed)
    },
    free(bytes: number): void {
      used -= bytes
      grant()
    },
  }
}
