// The range of keys of a query: a row is in it exactly where from, to and the row before say so.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { compareKeys, keyRangeOf } from '../../../readers/cassandra/select.ts'
import type { RowKey } from '../../../readers/reader.ts'

const dayNs = 86_400_000_000_000n
const noBounds = { fromNs: undefined, toNs: undefined }
const near = fc.bigInt({ min: -3n, max: 3n })
/** Few instants, so that bounds meet rows: around 1970, midnights and the ends of what is counted. */
const timestampNs = fc
  .tuple(fc.constantFrom(0n, -dayNs, dayNs, 20_000n * dayNs, -500n * dayNs, 9_223_372_036_000_000_000n), near, near)
  .map(([origin, us, ns]) => origin + us * 1000n + ns)
const farNs = fc.constantFrom(-(10n ** 21n), 10n ** 21n, 0n)
const small = fc.integer({ min: 0, max: 2 })

test.each([1000n, 1n])('with a unit of %s ns', unitNs => {
  const key: fc.Arbitrary<RowKey> = fc
    .tuple(timestampNs, small, small)
    .map(([ns, position, index]) => ({ timeNs: (ns / unitNs) * unitNs, position: BigInt(position), index }))
  const bound = fc.option(fc.oneof({ weight: 5, arbitrary: timestampNs }, farNs), { nil: undefined })
  const query = fc.tuple(bound, bound, fc.option(key, { nil: undefined }), fc.constantFrom('asc' as const, 'desc' as const))
  fc.assert(
    fc.property(query, fc.array(key, { minLength: 20, maxLength: 20 }), ([fromNs, toNs, after, direction], rows) => {
      const range = keyRangeOf({ fromNs, toNs }, unitNs, direction, after)
      for (const row of rows) {
        const order = after === undefined ? 1 : compareRowKeys(row, after) * (direction === 'desc' ? -1 : 1)
        const fits = (fromNs === undefined || row.timeNs >= fromNs) && (toNs === undefined || row.timeNs < toNs) && order > 0
        const at = { time: row.timeNs / unitNs, position: row.position, index: row.index }
        const isIn = range !== undefined && compareKeys(range.lower, at) <= 0 && compareKeys(at, range.upper) < 0
        expect(isIn).toBe(fits)
        const day = Number((row.timeNs - (((row.timeNs % dayNs) + dayNs) % dayNs)) / dayNs)
        if (fits) expect(day >= range!.firstDay && day <= range!.lastDay).toBe(true)
      }
    }),
    { numRuns: 500 },
  )
})

test('a range that ends at midnight contains nothing of the day that begins then', () => {
  const range = keyRangeOf({ fromNs: 10n * dayNs, toNs: 12n * dayNs }, 1000n, 'desc', undefined)
  expect([range?.firstDay, range?.lastDay]).toEqual([10, 11])
  expect(keyRangeOf({ fromNs: undefined, toNs: 12n * dayNs + 1n }, 1000n, 'asc', undefined)?.lastDay).toBe(12)
})

test('every possible day is in the range of a whole channel', () => {
  for (const unitNs of [1n, 1000n]) {
    const { firstDay, lastDay } = keyRangeOf(noBounds, unitNs, 'desc', undefined)!
    expect(firstDay).toBeGreaterThanOrEqual(-(2 ** 31))
    expect(lastDay).toBeLessThan(2 ** 31)
    expect(firstDay).toBeLessThan(-100_000)
    expect(lastDay).toBeGreaterThan(100_000)
  }
})

test('keys before or after everything that can be stored are in no range', () => {
  for (const unitNs of [1n, 1000n]) {
    expect(keyRangeOf({ ...noBounds, fromNs: 10n ** 25n }, unitNs, 'desc', undefined)).toBeUndefined()
    expect(keyRangeOf({ ...noBounds, toNs: -(10n ** 25n) }, unitNs, 'asc', undefined)).toBeUndefined()
    expect(keyRangeOf({ fromNs: 10n ** 25n, toNs: 10n ** 26n }, unitNs, 'desc', undefined)).toBeUndefined()
    expect(keyRangeOf({ fromNs: -(10n ** 26n), toNs: -(10n ** 25n) }, unitNs, 'asc', undefined)).toBeUndefined()
    expect(keyRangeOf({ fromNs: 5n, toNs: 5n }, unitNs, 'asc', undefined)).toBeUndefined()
  }
})

function compareRowKeys(one: RowKey, other: RowKey): number {
  if (one.timeNs !== other.timeNs) return one.timeNs < other.timeNs ? -1 : 1
  if (one.position !== other.position) return one.position < other.position ? -1 : 1
  return one.index - other.index
}
