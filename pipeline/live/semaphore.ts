// A fair semaphore: so much work at a time, the rest in the order in which it came.

export type Semaphore = (work: () => Promise<void>) => Promise<void>

export function openSemaphore(max: number): Semaphore {
  const waiting: (() => void)[] = []
  let free = max
  return async work => {
    if (free > 0) free--
    else await new Promise<void>(resolve => void waiting.push(resolve))
    try {
      await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    }
  }
}
