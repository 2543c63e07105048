// Time in whole microseconds: bounds of a query, and the way through a span; and how often a walk looks where rows need not be what is asked for.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { shardsOfLength } from '../../../readers/influxdb/requests.ts'
import { boundsOf, microsecondOf, type Span, walk, walkLooking } from '../../../readers/influxdb/windows.ts'
import type { Direction } from '../../../readers/reader.ts'

const ns = fc.bigInt(-5000n, 5000n)
const contains = (span: Span | undefined, us: number): boolean => span !== undefined && us >= span.startUs && us < span.endUs

describe('bounds', () => {
  test('a record is within them if from and to include its microsecond', () => {
    fc.assert(
      fc.property(ns, ns, fc.integer({ min: -6, max: 6 }), (fromNs, toNs, us) => {
        const { whole, before, behind } = boundsOf({ format: 'messages', fromNs, toNs })
        expect(contains(whole, us)).toBe(BigInt(us) * 1000n >= fromNs && BigInt(us) * 1000n < toNs)
        expect([before, behind]).toEqual([undefined, undefined])
      }),
    )
  })

  test('a document is in the whole span, or in a microsecond at its border, once', () => {
    fc.assert(
      fc.property(ns, ns, ns, (fromNs, toNs, createdNs) => {
        const { whole, before, behind } = boundsOf({ format: 'f', fromNs, toNs })
        const places = [whole, before, behind].filter(span => contains(span, microsecondOf(createdNs))).length
        const isAskedFor = createdNs >= fromNs && createdNs < toNs
        expect(places).toBeLessThanOrEqual(1)
        if (isAskedFor) expect(places).toBe(1)
        if (!isAskedFor) expect(contains(whole, microsecondOf(createdNs))).toBe(false)
      }),
    )
  })

  test('if no point is possible there is no microsecond at a border, and the rest is empty or everything', () => {
    const ends = fc.constantFrom(-(2n ** 63n), -(2n ** 53n) * 1000n, 2n ** 53n * 1000n, 2n ** 63n)
    fc.assert(
      fc.property(ends, fc.bigInt(-2001n, 2001n), fc.boolean(), (end, near, isFrom) => {
        const ns = end + near
        const { all, whole, before, behind } = boundsOf({ format: 'f', fromNs: isFrom ? ns : undefined, toNs: isFrom ? undefined : ns })
        for (const border of [before, behind]) {
          if (border === undefined) continue
          expect(border.endUs - border.startUs).toBe(1)
          expect(Number.isSafeInteger(border.startUs)).toBe(true)
        }
        const holdsAll = isFrom === end < 0n
        for (const span of [all, whole]) expect(contains(span, 0)).toBe(holdsAll)
      }),
    )
  })
})

describe('a walk', () => {
  test('finds enough rows, in order, and never visits a microsecond twice', async () => {
    const rows = fc.array(fc.oneof(fc.integer({ min: -50, max: 50 }), fc.integer({ min: -(2 ** 50), max: 2 ** 50 })), { maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(
        rows,
        fc.constantFrom('asc', 'desc'),
        fc.integer({ min: 1, max: 70 }),
        fc.integer({ min: 1, max: 1000 }),
        fc.integer({ min: 1, max: 5 }),
        async (given, direction, wanted, widthUs, cellUs) => {
          const ordered = given.toSorted((one, other) => (direction === 'desc' ? other - one : one - other))
          const span = { startUs: -(2 ** 50), endUs: 2 ** 50 }
          const within = ordered.filter(us => contains(span, us))
          const looked: Span[] = []
          const found: number[] = []
          await walk(
            {
              span,
              direction,
              wanted,
              widthUs,
              beginsAtRows: false,
              ...(cellUs > 3 ? { cell: us => shardsOfLength(cellUs).at(us) } : {}),
              first: async rest => within.find(us => contains(rest, us)),
            },
            async window => {
              for (const one of looked)
                expect(Math.max(one.startUs, window.startUs)).toBeGreaterThanOrEqual(Math.min(one.endUs, window.endUs))
              looked.push(window)
              const here = within.filter(us => contains(window, us))
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
    const first = async (rest: Span) => rows.findLast(us => contains(rest, us))
    const span = { startUs: -(2 ** 53), endUs: 2 ** 53 }
    await walk({ span, direction: 'desc', wanted: 10, widthUs: 1000, beginsAtRows: false, first }, async window => {
      steps++
      return { found: rows.filter(us => contains(window, us)).length }
    })
    expect(steps).toBeLessThan(8)
  })
})

test('a shard has the given duration, and the next begins where it ends', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: -(2 ** 50), max: 2 ** 50 }), (hours, us) => {
      const shards = shardsOfLength(hours * 3600)
      const { startUs, endUs } = shards.at(us)
      expect(startUs <= us && us < endUs).toBe(true)
      expect(endUs - startUs).toBe(hours * 3_600_000_000)
      expect(shards.at(endUs).startUs).toBe(endUs)
      expect(shards.at(startUs - 1).endUs).toBe(startUs)
    }),
  )
})

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
