// So many pieces of work at once, and the others in their order.

export type Slots = <Result>(work: () => Promise<Result>) => Promise<Result>

export function openSlots(count: number): Slots {
  const waiting: (() => void)[] = []
  let free = count
  return async work => {
    if (free > 0) free--
    else await new Promise<void>(resolve => void waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    }
  }
}
