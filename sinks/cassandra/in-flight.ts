// Sends requests, so many at a time as the cluster answers in good time.

import { isOverload } from './errors.ts'

/** Fewer than this at a time would not keep a healthy node busy, and what harms a node is more than this. */
const fewest = 4
/** Where a sink begins: it has grown to 256 after a dozen batches of nothing but good answers, and in one of 2,000 rows to the half of it. */
const begins = 64
/** An answer that takes this long is in good time wherever the cluster is: a node with 256 requests at hand takes 10 to 30 ms for each. */
const goodMs = 60
/** As a multiple of the least that was seen lately, for clusters that are far away. */
const goodTimes = 4

/**
 * How many requests may be under way. After every so many answers as there may be requests their mean time is looked at:
 *
 * - in good time (60 ms, or four times the least mean of late): an eighth more
 * - more than twice that: a quarter fewer, since a queue grows somewhere, and more requests only make it longer
 * - a time-out or an overload, said by a node or seen here: half as many, at once, and no second time before as many answers have come
 *
 * So it settles where answers take about as long as they may, like the congestion window of TCP, and comes back by itself.
 */
export class Pace {
  readonly most: number
  limit: number
  #answers = 0
  #sumMs = 0
  #leastMs = Number.POSITIVE_INFINITY
  #sinceHalved = Number.POSITIVE_INFINITY

  constructor(most: number) {
    this.most = most
    this.limit = Math.min(begins, most)
  }

  answered(tookMs: number): void {
    this.#answers++
    this.#sinceHalved++
    this.#sumMs += tookMs
    if (this.#answers < this.limit) return
    const meanMs = this.#sumMs / this.#answers
    this.#answers = 0
    this.#sumMs = 0
    // It rises by and by, so that a cluster that has become slower for good is not taken for overloaded for ever.
    this.#leastMs = Math.min(this.#leastMs * 1.02, meanMs)
    const holdsMs = Math.max(goodMs, this.#leastMs * goodTimes)
    if (meanMs <= holdsMs) this.limit = Math.min(this.most, this.limit + Math.ceil(this.limit / 8))
    else if (meanMs > 2 * holdsMs) this.limit = Math.max(Math.min(fewest, this.most), Math.floor(this.limit * 0.75))
  }

  overloaded(): void {
    if (this.#sinceHalved < this.limit) return
    this.#sinceHalved = 0
    this.limit = Math.max(Math.min(fewest, this.most), this.limit >> 1)
  }
}

/**
 * Sends `count` requests, as many at a time as `pace` allows. After the first that fails none is begun, and it rejects with that failure
 * once those under way are settled. When `signal` aborts it rejects at once with its reason, and no request is begun any more; what is under way may land.
 *
 * @param send the request of this index
 */
export async function sendAll(count: number, send: (at: number) => Promise<unknown>, pace: Pace, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (count === 0) return
  const settled = Promise.withResolvers<void>()
  let next = 0
  let lanes = 0
  let failure: { readonly error: unknown } | undefined

  /** Sends one request after another, for as long as there may be so many lanes. */
  async function lane(): Promise<void> {
    while (next < count && failure === undefined && !signal.aborted && lanes <= pace.limit) {
      const at = next++
      const startedMs = performance.now()
      try {
        await send(at)
        pace.answered(performance.now() - startedMs)
      } catch (error) {
        if (isOverload(error)) pace.overloaded()
        failure ??= { error }
      }
      fill()
    }
    lanes--
    if (lanes > 0) return
    if (failure === undefined) settled.resolve()
    else settled.reject(failure.error)
  }

  function fill(): void {
    const most = Math.min(pace.limit, lanes + count - next)
    while (lanes < most && failure === undefined && !signal.aborted) {
      lanes++
      void lane()
    }
  }

  const onAbort = (): void => settled.reject(signal.reason)
  signal.addEventListener('abort', onAbort)
  try {
    fill()
    await settled.promise
    signal.throwIfAborted()
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
