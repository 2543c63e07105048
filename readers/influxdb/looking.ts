// A walk that looks at rows which need not be what is asked for: the fewer of them are, the more it looks at in one visit.

import type { Span } from './span.ts'
import { type Walk, walk } from './walk.ts'

/** So many rows are looked at in one visit. */
const lookedAtMin = 100
const lookedAtMax = 10_000
/** Where fewer than one in so many was asked for, the next visit looks at twice as many. */
const telling = 4

export interface Look {
  /** How many of them are asked for. */
  readonly found: number
  /** Microseconds of the rows that were looked at, in the direction. */
  readonly places: readonly number[]
}

/** @param look at the first rows of the window, `limit` of them: of the last microsecond it has to look at all */
export async function walkLooking(parts: Walk, look: (window: Span, limit: number, missing: number) => Promise<Look>): Promise<void> {
  let looked = lookedAtMin
  await walk(parts, async (window, missing) => {
    const limit = Math.min(Math.max(2 * missing, looked), lookedAtMax)
    const { found, places } = await look(window, limit, missing)
    looked = found * telling < places.length ? Math.min(2 * limit, lookedAtMax) : limit
    return { found, seen: places.length, aim: looked, lastUs: places.length < limit ? undefined : places.at(-1)! }
  })
}
