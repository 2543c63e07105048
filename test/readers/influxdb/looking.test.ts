// How often a walk looks where what it looks at need not be what is asked for: over a channel that stands in an array.

import { expect, test } from 'vitest'
import { walkLooking } from '../../../readers/influxdb/looking.ts'
import type { Span } from '../../../readers/influxdb/span.ts'
import type { Direction } from '../../../readers/query.ts'

const rowsOfChannel = 200_000
const dayUs = 86_400_000_000

/** Rows in the order of their time: evenly over 60 days, or nearly all of them in bursts of 500 within a millisecond. */
const channels: Readonly<Record<string, readonly number[]>> = {
  even: Array.from({ length: rowsOfChannel }, (_, nth) => nth * ((60 * dayUs) / rowsOfChannel)),
  'in bursts': Array.from({ length: rowsOfChannel }, (_, nth) => Math.floor(nth / 500) * 13_000_000_000 + (nth % 500) * 2),
}

interface Looked {
  readonly visits: number
  readonly looked: number
  readonly found: number[]
  readonly mostAtOnce: number
}

/** @param isAskedFor of the row that comes as the nth in time */
async function lookThrough(
  times: readonly number[],
  direction: Direction,
  wanted: number,
  isAskedFor: (nth: number) => boolean,
): Promise<Looked> {
  const indexOf = (us: number): number => {
    let [low, high] = [0, times.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (times[middle]! < us) low = middle + 1
      else high = middle
    }
    return low
  }
  const span = { startUs: 0, endUs: times.at(-1)! + 1 }
  const nthsIn = ({ startUs, endUs }: Span): number[] => {
    const nths = Array.from({ length: indexOf(endUs) - indexOf(startUs) }, (_, at) => indexOf(startUs) + at)
    return direction === 'desc' ? nths.toReversed() : nths
  }
  const first = async (rest: Span): Promise<number | undefined> => {
    const at = direction === 'desc' ? indexOf(rest.endUs) - 1 : indexOf(rest.startUs)
    const us = times[at]
    return us !== undefined && us >= rest.startUs && us < rest.endUs ? us : undefined
  }
  let [visits, looked, mostAtOnce] = [0, 0, 0]
  const found: number[] = []
  await walkLooking({ span, direction, wanted, widthUs: 10_000_000, beginsAtRows: false, first }, async (window, limit) => {
    const nths = nthsIn(window).slice(0, limit)
    visits++
    looked += nths.length
    mostAtOnce = Math.max(mostAtOnce, limit)
    const here = nths.filter(isAskedFor)
    found.push(...here)
    return { found: here.length, places: nths.map(nth => times[nth]!) }
  })
  return { visits, looked, found, mostAtOnce }
}

for (const [name, times] of Object.entries(channels)) {
  for (const direction of ['asc', 'desc'] as const) {
    test(`a channel of which nothing is asked for is gone through in few visits: ${name}, ${direction}`, async () => {
      const { visits, looked, mostAtOnce } = await lookThrough(times, direction, 11, () => false)
      expect(looked).toBe(rowsOfChannel)
      expect(visits).toBeLessThan(80)
      expect(mostAtOnce).toBeLessThanOrEqual(10_000)
    })

    test(`the few that are asked for are found in few visits, first things first: ${name}, ${direction}`, async () => {
      const { visits, found } = await lookThrough(times, direction, 11, nth => nth % 15_000 === 14_000)
      const all = Array.from({ length: 13 }, (_, at) => at * 15_000 + 14_000)
      expect(found).toEqual((direction === 'desc' ? all.toReversed() : all).slice(0, found.length))
      expect(found.length).toBeGreaterThanOrEqual(11)
      expect(visits).toBeLessThan(80)
    })

    test(`where all are asked for no more is looked at than a page needs: ${name}, ${direction}`, async () => {
      const { looked, mostAtOnce } = await lookThrough(times, direction, 11, () => true)
      expect(looked).toBeLessThanOrEqual(200)
      expect(mostAtOnce).toBe(100)
    })
  }
}
