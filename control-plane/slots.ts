// So many pieces of work at once, and the others in their order, up to a number.

export type Slots = <Result>(work: () => Promise<Result>) => Promise<Result>

/** Each of them holds its request. */
const waitingMax = 100

/** @param refusal for one more than may wait */
export function openSlots(count: number, refusal: () => Error): Slots {
  const waiting: (() => void)[] = []
  let free = count
  return async work => {
    if (waiting.length >= waitingMax) throw refusal()
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
