// The walk over days and pages: every row once and in order, with few requests and few rows under way.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { keyRangeOf, sourceOf } from '../../../readers/cassandra/select.ts'
import { type Walk, walk } from '../../../readers/cassandra/walk.ts'
import { senmlFormat } from '../../../readers/reader.ts'
import { filterOf } from '../../conformance/reader/oracle.ts'
import { type FakeStore, fakeStore } from './fake-store.ts'

const source = sourceOf('k', senmlFormat)
const filter = filterOf({ channel: 'c' })
const dayNs = 86_400_000_000_000n

function walkOf(some: Partial<Walk>): Walk {
  const range = keyRangeOf(filter, source.unitNs, 'desc', undefined)!
  const limits = {
    limit: Number.POSITIVE_INFINITY,
    pageRows: 64,
    pageRowsMax: 1024,
    likelyDay: undefined,
    byIndex: false,
    onMissing: () => undefined,
  }
  return { keyspace: 'k', source, filter, range, direction: 'desc', columns: ['nth'], ...limits, ...some }
}

async function numbers(store: FakeStore, some: Partial<Walk>): Promise<number[]> {
  const found: number[] = []
  for await (const { rows } of walk(store.ask, walkOf(some))) found.push(...rows.map(row => row['nth'] as number))
  return found
}

const stores = fc.array(fc.tuple(fc.integer({ min: -1000, max: 30_000 }), fc.integer({ min: 0, max: 40 })), { maxLength: 60 })

test('returns every row once, in order, whatever the sizes of pages, until enough are found', async () => {
  await fc.assert(
    fc.asyncProperty(
      stores,
      fc.record({ pageRows: fc.integer({ min: 1, max: 50 }), pageRowsMax: fc.integer({ min: 1, max: 50 }) }),
      fc.option(fc.integer({ min: 1, max: 300 }), { nil: Number.POSITIVE_INFINITY }),
      fc.constantFrom('asc' as const, 'desc' as const),
      fc.option(fc.integer({ min: -1000, max: 30_000 }), { nil: undefined }),
      async (days, sizes, limit, direction, anyDay) => {
        const likelyDay = anyDay === undefined ? days[0]?.[0] : anyDay
        const rowsOfDay = new Map(days)
        const total = [...rowsOfDay.values()].reduce((sum, rows) => sum + rows, 0)
        const inOrder = Array.from({ length: total }, (_, nth) => (direction === 'desc' ? total - 1 - nth : nth))
        const found = await numbers(fakeStore(rowsOfDay), { ...sizes, limit, direction, likelyDay })
        // Days that are asked for together may give some more.
        expect(found.slice(0, Math.min(limit, total))).toEqual(inOrder.slice(0, limit))
      },
    ),
    { numRuns: 300 },
  )
})

test('a page of a busy day is one request for the days and one for the rows', async () => {
  const store = fakeStore(new Map([1, 2, 3].map(day => [day, 100_000])))
  expect(await numbers(store, { limit: 100, pageRows: 100 })).toHaveLength(100)
  expect(store.requests).toBe(2)
})

test('rows of the likely day are requested at once, and once', async () => {
  const rowsOfDay = new Map([1, 2, 3].map(day => [day, 1000]))
  for (const [likelyDay, requests] of [
    [3, 2],
    [2, 3],
    [99, 3],
  ] as const) {
    const store = fakeStore(rowsOfDay)
    expect((await numbers(store, { limit: 100, pageRows: 100, likelyDay }))[0]).toBe(2999)
    expect(store.requests).toBe(requests)
  }
})

test('short days are requested together, more and more of them, with at most the rows of two pages in flight', async () => {
  const store = fakeStore(new Map(Array.from({ length: 365 }, (_, day) => [day, 1])))
  expect(await numbers(store, { limit: 300, pageRows: 300 })).toHaveLength(300)
  expect(store.togetherMax).toBe(16)
  // 1, 2, 4, 8 and then 16 at a time.
  expect(store.rowsAskedMax).toBeLessThanOrEqual(2 * 1024)

  const busy = fakeStore(new Map(Array.from({ length: 40 }, (_, day) => [day, day % 7 === 0 ? 5000 : 1])))
  expect(await numbers(busy, {})).toHaveLength(6 * 5000 + 34)
  expect(busy.rowsAskedMax).toBeLessThanOrEqual(2 * 1024)
})

test('days outside of the range are not visited, except the one in which it may begin', async () => {
  const rowsOfDay = new Map(Array.from({ length: 100 }, (_, nth) => [nth * 10, 1]))
  for (const direction of ['desc', 'asc'] as const) {
    const store = fakeStore(rowsOfDay)
    const bounds = { fromNs: 505n * dayNs, toNs: 531n * dayNs }
    const range = keyRangeOf(bounds, source.unitNs, direction, undefined)!
    // Partitions may be of several days: that of day 500 may hold day 505.
    expect(await numbers(store, { range, direction })).toEqual(direction === 'desc' ? [53, 52, 51, 50] : [50, 51, 52, 53])
    // One for the days, or two where the one that the range begins in is looked up, and one for each day.
    expect(store.requests).toBe((direction === 'desc' ? 1 : 2) + 4)
  }
})

test('a range that begins with a listed day visits it once', async () => {
  for (const direction of ['desc', 'asc'] as const) {
    const range = keyRangeOf({ fromNs: 500n * dayNs, toNs: undefined }, source.unitNs, direction, undefined)!
    const found = await numbers(fakeStore(new Map([499, 500, 501].map(day => [day, 1]))), { range, direction })
    expect(found).toEqual(direction === 'desc' ? [2, 1] : [1, 2])
  }
})

test('a channel without days takes no more requests', async () => {
  const store = fakeStore(new Map())
  expect(await numbers(store, {})).toEqual([])
  expect(store.requests).toBe(1)
})

test('if rows are large, pages have fewer of them', async () => {
  const rowsOfDay = new Map([1, 2, 3].map(day => [day, 300]))
  const columns = ['nth', 'payload']
  const large = fakeStore(rowsOfDay, 'x'.repeat(256 * 1024))
  expect(await numbers(large, { columns })).toHaveLength(900)
  // The first page is asked for before it is known; then 32 rows have 8 MiB.
  expect(large.rowsAskedMax).toBeLessThanOrEqual(64)
  const huge = fakeStore(rowsOfDay, 'x'.repeat(9 * 1024 * 1024))
  expect(await numbers(huge, { columns, pageRows: 2 })).toHaveLength(900)
  const unread = fakeStore(rowsOfDay, 'x'.repeat(256 * 1024))
  expect(await numbers(unread, {})).toHaveLength(900)
  expect(unread.requests).toBeLessThan(large.requests / 2)
})
