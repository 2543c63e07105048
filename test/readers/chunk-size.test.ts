// How many rows are asked for at once, answered in a page, and printed in one go.

import { expect, test } from 'vitest'
import { bytesOf, type ChunkSize, chunksOf, gather, pageBytesMax, rowChunks, rowsOf, slicesOf } from '../../readers/paging.ts'
import { type DocumentRow, keyOf, noFilters, type PageQuery, type Row, type SenmlRow } from '../../readers/reader.ts'
import { documentsOf, kib, recordsOf } from './sized-rows.ts'

const signal = new AbortController().signal
const all: PageQuery = {
  ...noFilters,
  channel: 'c',
  format: 'messages',
  direction: 'desc',
  limit: Number.POSITIVE_INFINITY,
  offset: 0,
  after: undefined,
}
const documents = { ...all, format: 'weather' }

/** A store of these rows, and how many it was asked for each time. */
function storeOf(stored: readonly Row[]) {
  const limits: number[] = []
  return {
    limits,
    read: async ({ limit, offset, after }: PageQuery): Promise<readonly Row[]> => {
      limits.push(limit)
      const behind = after === undefined ? offset : stored.findIndex(row => keyOf(row).position === after.position) + 1
      return stored.slice(behind, behind + limit)
    },
  }
}

async function walk(store: ReturnType<typeof storeOf>, query: PageQuery): Promise<Row[]> {
  const rows: Row[] = []
  for await (const part of rowChunks(store, query, signal)) rows.push(...part)
  return rows
}

test('records are read by 128, then by at most twice as many, up to a thousand', async () => {
  const stored = recordsOf(3_000, 10)
  const store = storeOf(stored)
  expect(await walk(store, { ...all, offset: 3 })).toEqual(stored.slice(3))
  expect(store.limits).toEqual([128, 256, 512, 1000, 1000, 1000])
})

test('documents are read by 32, then by at most twice as many, up to 500', async () => {
  const stored = documentsOf(1_500, 100)
  const store = storeOf(stored)
  expect(await walk(store, documents)).toEqual(stored)
  expect(store.limits).toEqual([32, 64, 128, 256, 500, 500, 500])
})

test('large rows are read by as many as have about a megabyte, at least ten', async () => {
  const store = storeOf(documentsOf(80, 256 * kib))
  expect(await walk(store, documents)).toHaveLength(80)
  expect(store.limits).toEqual([32, 10, 10, 10, 10, 10])
  const texts = storeOf(recordsOf(400, 10 * kib))
  await walk(texts, all)
  expect(texts.limits).toEqual([128, 99, 99, 99])
})

test('a few small rows say little about a thousand', async () => {
  const store = storeOf([...documentsOf(32, 10), ...documentsOf(100, 256 * kib)].map((row, nth) => ({ ...row, position: BigInt(nth) })))
  await walk(store, documents)
  expect(store.limits).toEqual([32, 64, 10, 10, 10, 10])
})

test('no more rows are read than needed', async () => {
  const store = storeOf(recordsOf(3_000, 10))
  expect(await walk(store, { ...all, limit: 101 })).toHaveLength(101)
  expect(await walk(store, { ...all, limit: 200 })).toHaveLength(200)
  expect(store.limits).toEqual([101, 128, 72])
})

test('a custom chunk size', async () => {
  const store = storeOf(recordsOf(3_000, 10))
  const size: ChunkSize = { first: 5, growth: 10, most: 60, bytes: 1024 * kib, least: 10 }
  for await (const rows of chunksOf({ ...all, limit: 200 }, size, store.read)) expect(rows.length).toBeLessThanOrEqual(60)
  expect(store.limits).toEqual([5, 50, 60, 60, 25])
})

test('every row of a filter, newest first', async () => {
  const stored = recordsOf(200, 10)
  const found: Row[] = []
  for await (const row of rowsOf(storeOf(stored), all, signal)) found.push(row)
  expect(found).toEqual(stored)
})

async function* oneByOne(rows: readonly Row[]): AsyncGenerator<readonly Row[]> {
  for (const row of rows) yield [row]
}

test('a page has as many rows as requested, and says whether there are more', async () => {
  const rows = recordsOf(5, 10)
  expect(await gather(oneByOne(rows), 5)).toEqual({ items: rows, hasMore: false })
  expect(await gather(oneByOne(rows), 4)).toEqual({ items: rows.slice(0, 4), hasMore: true })
  expect(await gather(oneByOne([]), 4)).toEqual({ items: [], hasMore: false })
})

test('a page ends before its texts have more than 16 MiB', async () => {
  const rows = documentsOf(100, 1024 * kib)
  const { items, hasMore } = await gather(oneByOne(rows), 1000)
  expect([items.length, hasMore]).toEqual([15, true])
  expect(items.reduce((sum, row) => sum + bytesOf(row), 0)).toBeLessThanOrEqual(pageBytesMax)
  expect(await gather(oneByOne(rows.slice(0, 15)), 1000)).toMatchObject({ hasMore: false })
})

test('a page has at least one row', async () => {
  const rows = documentsOf(2, pageBytesMax + 1)
  expect(await gather(oneByOne(rows), 10)).toEqual({ items: rows.slice(0, 1), hasMore: true })
})

test('a thousand ordinary records are one slice, and large rows are several', () => {
  const ordinary = recordsOf(1000, 10)
  expect(slicesOf(ordinary)).toEqual([ordinary])
  expect(slicesOf([])).toEqual([[]])
  const large = documentsOf(10, 100 * kib)
  const slices = slicesOf(large)
  expect(slices.map(slice => slice.length)).toEqual([2, 2, 2, 2, 2])
  expect(slices.flat()).toEqual(large)
  expect(slicesOf(documentsOf(2, 1024 * kib)).map(slice => slice.length)).toEqual([1, 1])
})

test('the size of a row is that of its texts', () => {
  const [record] = recordsOf(1, 0) as [SenmlRow]
  const [document] = documentsOf(1, 0) as [DocumentRow]
  const base = bytesOf({ ...record, stringValue: undefined })
  expect(bytesOf({ ...record, stringValue: 'x'.repeat(100) })).toBe(base + 100)
  expect(bytesOf({ ...record, stringValue: undefined, dataValue: Buffer.alloc(100) })).toBe(base + 100)
  expect(bytesOf({ ...record, stringValue: undefined, name: `${record.name}${'x'.repeat(100)}` })).toBe(base + 100)
  expect(bytesOf({ ...document, payloadText: `${document.payloadText}${' '.repeat(100)}` })).toBe(bytesOf(document) + 100)
})
