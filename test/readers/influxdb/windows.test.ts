// Time in whole milliseconds: bounds of a query, and the way through a span; and how often a walk looks where rows need not be what is asked for.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { boundsOf, millisecondOf, type Span, walk, walkLooking } from '../../../readers/influxdb/windows.ts'
import type { Direction } from '../../../readers/reader.ts'

const ns = fc.bigInt(-5_000_000n, 5_000_000n)
const contains = (span: Span | undefined, ms: number): boolean => span !== undefined && ms >= span.startMs && ms < span.endMs

describe('bounds', () => {
  test('a row is in the whole span, or in a millisecond at its border, once', () => {
    fc.assert(
      fc.property(ns, ns, ns, (fromNs, toNs, timeNs) => {
        const { whole, before, behind } = boundsOf({ fromNs, toNs })
        const places = [whole, before, behind].filter(span => contains(span, millisecondOf(timeNs))).length
        const isAskedFor = timeNs >= fromNs && timeNs < toNs
        expect(places).toBeLessThanOrEqual(1)
        if (isAskedFor) expect(places).toBe(1)
        if (!isAskedFor) expect(contains(whole, millisecondOf(timeNs))).toBe(false)
      }),
    )
  })

  test('if no point is possible there is no millisecond at a border, and the rest is empty or everything', () => {
    const ends = fc.constantFrom(-(2n ** 63n), -(2n ** 53n) * 1000n, 2n ** 53n * 1000n, 2n ** 63n)
    fc.assert(
      fc.property(ends, fc.bigInt(-2_000_001n, 2_000_001n), fc.boolean(), (end, near, isFrom) => {
        const ns = end + near
        const { all, whole, before, behind } = boundsOf({ fromNs: isFrom ? ns : undefined, toNs: isFrom ? undefined : ns })
        for (const border of [before, behind]) {
          if (border === undefined) continue
          expect(border.endMs - border.startMs).toBe(1)
          expect(Number.isSafeInteger(border.startMs)).toBe(true)
        }
        const holdsAll = isFrom === end < 0n
        for (const span of [all, whole]) expect(contains(span, 0)).toBe(holdsAll)
      }),
    )
  })
})

describe('a walk', () => {
  test('finds enough rows, in order, and never visits a millisecond twice', async () => {
    const rows = fc.array(fc.oneof(fc.integer({ min: -50, max: 50 }), fc.integer({ min: -(2 ** 50), max: 2 ** 50 })), { maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(
        rows,
        fc.constantFrom('asc', 'desc'),
        fc.integer({ min: 1, max: 70 }),
        fc.integer({ min: 1, max: 1000 }),
        async (given, direction, wanted, widthMs) => {
          const ordered = given.toSorted((one, other) => (direction === 'desc' ? other - one : one - other))
          const span = { startMs: -(2 ** 50), endMs: 2 ** 50 }
          const within = ordered.filter(ms => contains(span, ms))
          const looked: Span[] = []
          const found: number[] = []
          await walk(
            {
              span,
              direction,
              wanted,
              widthMs,
              beginsAtRows: false,
              first: async rest => within.find(ms => contains(rest, ms)),
            },
            async window => {
              for (const one of looked)
                expect(Math.max(one.startMs, window.startMs)).toBeGreaterThanOrEqual(Math.min(one.endMs, window.endMs))
              looked.push(window)
              const here = within.filter(ms => contains(window, ms))
              found.push(...here)
              return { found: here.length }
            },
          )
          expect(found).toEqual(within.slice(0, found.length))
          expect(found.length).toBeGreaterThanOrEqual(Math.min(wanted, within.length))
        },
      ),
    )
  })

  test('skips years without rows in few steps', async () => {
    let steps = 0
    const rows = [0, 1, 2 ** 52]
    const first = async (rest: Span) => rows.findLast(ms => contains(rest, ms))
    const span = { startMs: -(2 ** 53), endMs: 2 ** 53 }
    await walk({ span, direction: 'desc', wanted: 10, widthMs: 1000, beginsAtRows: false, first }, async window => {
      steps++
      return { found: rows.filter(ms => contains(window, ms)).length }
    })
    expect(steps).toBeLessThan(8)
  })
})

const rowsOfChannel = 200_000
const dayMs = 86_400_000

/** Rows in the order of their time: evenly over 60 days, or nearly all of them in bursts of 500 within a second. */
const channels: Readonly<Record<string, readonly number[]>> = {
  even: Array.from({ length: rowsOfChannel }, (_, nth) => nth * ((60 * dayMs) / rowsOfChannel)),
  'in bursts': Array.from({ length: rowsOfChannel }, (_, nth) => Math.floor(nth / 500) * 13_000_000 + (nth % 500) * 2),
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
  const indexOf = (ms: number): number => {
    let [low, high] = [0, times.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (times[middle]! < ms) low = middle + 1
      else high = middle
    }
    return low
  }
  const span = { startMs: 0, endMs: times.at(-1)! + 1 }
  const nthsIn = ({ startMs, endMs }: Span): number[] => {
    const nths = Array.from({ length: indexOf(endMs) - indexOf(startMs) }, (_, at) => indexOf(startMs) + at)
    return direction === 'desc' ? nths.toReversed() : nths
  }
  const first = async (rest: Span): Promise<number | undefined> => {
    const at = direction === 'desc' ? indexOf(rest.endMs) - 1 : indexOf(rest.startMs)
    const ms = times[at]
    return ms !== undefined && ms >= rest.startMs && ms < rest.endMs ? ms : undefined
  }
  let [visits, looked, mostAtOnce] = [0, 0, 0]
  const found: number[] = []
  await walkLooking({ span, direction, wanted, widthMs: 10_000, beginsAtRows: false, first }, async (window, limit) => {
    const nths = nthsIn(window).slice(0, limit)
    visits++
    looked += nths.length
    mostAtOnce = Math.max(mostAtOnce, limit)
    const here = nths.filter(isAskedFor)
    found.push(...here)
    return { found: here.length, times: nths.map(nth => times[nth]!) }
  })
  return { visits, looked, found, mostAtOnce }
}

for (const [name, times] of Object.entries(channels)) {
  for (const direction of ['asc', 'desc'] as const) {
    test(`a channel without matching rows takes few visits: ${name}, ${direction}`, async () => {
      const { visits, looked, mostAtOnce } = await lookThrough(times, direction, 11, () => false)
      expect(looked).toBe(rowsOfChannel)
      expect(visits).toBeLessThan(80)
      expect(mostAtOnce).toBeLessThanOrEqual(10_000)
    })

    test(`few matching rows are found in few visits, in order: ${name}, ${direction}`, async () => {
      const { visits, found } = await lookThrough(times, direction, 11, nth => nth % 15_000 === 14_000)
      const all = Array.from({ length: 13 }, (_, at) => at * 15_000 + 14_000)
      expect(found).toEqual((direction === 'desc' ? all.toReversed() : all).slice(0, found.length))
      expect(found.length).toBeGreaterThanOrEqual(11)
      expect(visits).toBeLessThan(80)
    })

    test(`if all rows match no more is read than a page needs: ${name}, ${direction}`, async () => {
      const { looked, mostAtOnce } = await lookThrough(times, direction, 11, () => true)
      expect(looked).toBeLessThanOrEqual(200)
      expect(mostAtOnce).toBe(100)
    })
  }
}
