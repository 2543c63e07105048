// A request over a reader that is made up: how large a page may be, and what a total may cost.

import { afterEach, expect, test, vi } from 'vitest'
import { answerBuckets, answerRows, bytesOf, exportPages, pageBytesMax } from '../../readers/paging.ts'
import { keyOf, type PageQuery, QueryTooLargeError, type Row, StoreUnavailableError } from '../../readers/reader.ts'
import type { QueryString } from '../../readers/request/query-schema.ts'
import { type ReadRequest, requestOf } from '../../readers/request.ts'
import { channel, records } from '../conformance/reader/fixture.ts'
import { cursors, unused } from './served.ts'
import { documentsOf, kib, recordsOf } from './sized-rows.ts'

afterEach(() => void vi.useRealTimers())

const signal = new AbortController().signal

function pageOf(parameters: QueryString): ReadRequest & { kind: 'page' | 'latest' } {
  const { request } = requestOf(parameters, [channel], undefined, 1000)
  if (request.kind !== 'page' && request.kind !== 'latest') throw new Error('this is no page')
  return request
}

/** A store of these rows, and how many it gave at once at most. */
function storeOf(stored: readonly Row[]) {
  const given = { most: 0, times: 0 }
  const cut = ({ limit, offset, after }: PageQuery): Row[] => {
    const behind = after === undefined ? offset : stored.findIndex(row => keyOf(row).position === after.position) + 1
    const rows = stored.slice(behind, behind + limit)
    given.most = Math.max(given.most, rows.length)
    given.times++
    return rows
  }
  return {
    ...unused,
    given,
    read: async (query: PageQuery) => cut(query),
    latest: async (query: PageQuery) => ({ groups: cut(query), total: stored.length }),
    count: async () => stored.length,
  }
}

test('an ordinary page is read at once', async () => {
  const store = storeOf(recordsOf(3000, 10))
  expect((await answerRows({ reader: store, cursors, countMax: 10_000 }, pageOf({ limit: '100' }), signal)).items).toHaveLength(100)
  expect(store.given).toEqual({ most: 101, times: 1 })
})

test.each([
  ['a page', {}],
  ['the newest of each series', { latest: 'true' as const }],
])('%s of large rows ends before its limit, and continues after its cursor', async (_what, more) => {
  const stored = documentsOf(150, 226 * kib)
  const store = storeOf(stored)
  const found: Row[] = []
  let cursor: string | undefined
  let pages = 0
  do {
    const asked = { limit: '1000', format: 'weather', ...more, ...(cursor === undefined ? {} : { cursor }) }
    const { items, hasMore, nextCursor, total } = await answerRows({ reader: store, cursors, countMax: 10_000 }, pageOf(asked), signal)
    expect(items.reduce((sum, row) => sum + bytesOf(row), 0)).toBeLessThanOrEqual(pageBytesMax)
    expect([hasMore, total]).toEqual([nextCursor !== undefined, { total: 150, isExact: true }])
    found.push(...items)
    cursor = nextCursor
    pages++
  } while (cursor !== undefined)
  expect(found).toEqual(stored)
  expect(pages).toBe(3)
  expect(store.given.most).toBeLessThanOrEqual(128)
})

test('buckets with too many names for one page are too large', async () => {
  const bucket = { channel, publisher: 'p', subtopic: '', name: 'n'.repeat(256 * kib), unit: undefined, timeUs: 0, value: 1, count: 1 }
  const { request } = requestOf({ aggregation: 'sum', interval: '1d', limit: '1000' }, [channel], undefined, 1000)
  if (request.kind !== 'aggregate') throw new Error('this is no aggregation')
  const withBuckets = (count: number) => ({
    ...unused,
    read: async () => [],
    aggregate: async () => ({ groups: Array.from({ length: count }, () => bucket), total: count }),
  })
  expect((await answerBuckets(withBuckets(64), request, signal)).items).toHaveLength(64)
  await expect(answerBuckets(withBuckets(65), request, signal)).rejects.toThrow(QueryTooLargeError)
})

test('an export has every row once, from the offset on', async () => {
  const stored = documentsOf(150, 256 * kib)
  const { request } = requestOf({ limit: 'all', offset: 3, format: 'weather' }, [channel], undefined, 1000)
  if (request.kind !== 'export') throw new Error('this is no export')
  const rows: Row[] = []
  for await (const page of exportPages({ reader: storeOf(stored), cursors }, request, signal)) rows.push(...page)
  expect(rows).toEqual(stored.slice(3))
})

const two = records.rows.slice(0, 2)
const costly = { ...unused, read: async () => two, count: () => Promise.reject(new QueryTooLargeError('it takes too long')) }
const parts = { reader: costly, cursors, countMax: 10_000 }

test('a total that costs too much is a lower bound, and does not prevent the page', async () => {
  const { items, total } = await answerRows(parts, pageOf({ limit: '1' }), signal)
  expect([items, total]).toEqual([two.slice(0, 1), { total: 2, isExact: false }])
})

test('a client that requires the total gets an error if it costs too much', async () => {
  await expect(answerRows(parts, pageOf({ limit: '1', count: 'exact' }), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
})

/** Of a reader whose count ends with its signal alone. */
function countingForEver() {
  const begun = Promise.withResolvers<AbortSignal>()
  const count = (_selection: unknown, _max: number, ending: AbortSignal): Promise<number> =>
    new Promise((_resolve, reject) => {
      ending.addEventListener('abort', () => reject(ending.reason as Error))
      begun.resolve(ending)
    })
  return { reader: { ...costly, count }, begun: begun.promise }
}

test.each([{}, { name: 'n' }])('a total that takes longer than a second is a lower bound: %j', async more => {
  vi.useFakeTimers()
  const { reader, begun } = countingForEver()
  const answer = answerRows({ ...parts, reader }, pageOf({ limit: '1', ...more }), signal)
  const counting = await begun
  await vi.advanceTimersByTimeAsync(999)
  expect(counting.aborted).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  expect((await answer).total).toEqual({ total: 2, isExact: false })
})

test('an exact total takes as long as it takes, until the client disconnects', async () => {
  vi.useFakeTimers()
  const client = new AbortController()
  const { reader, begun } = countingForEver()
  const answer = answerRows({ ...parts, reader }, pageOf({ limit: '1', count: 'exact' }), client.signal)
  const counting = await begun
  await vi.advanceTimersByTimeAsync(29_000)
  expect([counting.aborted, vi.getTimerCount()]).toEqual([false, 0])
  client.abort(new Error('gone'))
  await expect(answer).rejects.toThrow('gone')
})

test('a finished count leaves no timer', async () => {
  vi.useFakeTimers()
  const reader = { ...costly, count: async () => 7 }
  expect((await answerRows({ ...parts, reader }, pageOf({ limit: '1' }), signal)).total).toEqual({ total: 7, isExact: true })
  expect(vi.getTimerCount()).toBe(0)
})

test('a page that fails ends its count at once', async () => {
  const { reader, begun } = countingForEver()
  const failing = { ...reader, read: () => Promise.reject(new StoreUnavailableError('away')) }
  const answer = answerRows({ ...parts, reader: failing }, pageOf({ limit: '1' }), signal)
  await expect(answer).rejects.toThrow('away')
  expect((await begun).aborted).toBe(true)
})

test('a store that fails during a count does not give a lower bound', async () => {
  const reader = { ...costly, count: () => Promise.reject(new StoreUnavailableError('away')) }
  await expect(answerRows({ ...parts, reader }, pageOf({ limit: '1' }), signal)).rejects.toThrow('away')
})

test('the whole channel is counted while its page is read, and nothing else is', async () => {
  async function askedWhileReading(parameters: QueryString): Promise<number> {
    const counting = Promise.withResolvers<void>()
    let counted = 0
    const reader = {
      ...unused,
      count: async () => {
        counted++
        counting.resolve()
        return 7
      },
      read: async () => {
        const before = counted
        await Promise.resolve()
        seen = counted - before
        return two
      },
    }
    let seen = 0
    const { total } = await answerRows({ reader, cursors, countMax: 10_000 }, pageOf({ limit: '1', ...parameters }), signal)
    expect(total).toEqual({ total: 7, isExact: true })
    await counting.promise
    expect(counted).toBe(1)
    return seen
  }
  expect(await askedWhileReading({})).toBe(1)
  expect(await askedWhileReading({ publisher: 'p' })).toBe(0)
  expect(await askedWhileReading({ name: 'n' })).toBe(0)
  expect(await askedWhileReading({ count: 'exact' })).toBe(0)
})
