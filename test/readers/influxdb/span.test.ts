// Time in whole microseconds: bounds of a question, and the way through a span.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { shardsOfLength } from '../../../readers/influxdb/shards.ts'
import { boundsOf, microsecondOf, type Span } from '../../../readers/influxdb/span.ts'
import { walk } from '../../../readers/influxdb/walk.ts'

const ns = fc.bigInt(-5000n, 5000n)
const contains = (span: Span | undefined, us: number): boolean => span !== undefined && us >= span.startUs && us < span.endUs

describe('bounds', () => {
  test('a record is within them where from and to hold of its microsecond', () => {
    fc.assert(
      fc.property(ns, ns, fc.integer({ min: -6, max: 6 }), (fromNs, toNs, us) => {
        const { whole, before, behind } = boundsOf({ format: 'messages', fromNs, toNs })
        expect(contains(whole, us)).toBe(BigInt(us) * 1000n >= fromNs && BigInt(us) * 1000n < toNs)
        expect([before, behind]).toEqual([undefined, undefined])
      }),
    )
  })

  test('a document lies in the whole span, or in a microsecond at its border, once', () => {
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

  test('where no point can lie there is no microsecond at a border, and what is left is empty or all', () => {
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
  test('finds what is wanted, first things first, and never looks at a microsecond twice', async () => {
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

  test('passes over years in which nothing lies in few steps', async () => {
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

test('a shard has the length of one, and the next begins where it ends', () => {
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
