// A question over a reader that is made up: how much an export asks for at once, and what a total may cost.

import { expect, test } from 'vitest'
import { answerRows, exportPages } from '../../readers/pages.ts'
import type { Parameters } from '../../readers/parameters.ts'
import type { PageQuery } from '../../readers/query.ts'
import { questionOf } from '../../readers/question.ts'
import { type DocumentRow, keyOf, QueryTooLargeError, type Row } from '../../readers/reader.ts'
import { channel, records } from '../conformance/reader/fixture.ts'
import { cursors, unused } from './served.ts'

const signal = new AbortController().signal
const kib = 1024

function documentsOf(count: number, bytes: number): DocumentRow[] {
  const origin = { kind: 'document' as const, channel, subtopic: 'weather', publisher: 'p', protocol: 'http', index: 0 }
  const payloadText = JSON.stringify({ a: 'x'.repeat(bytes) })
  return Array.from({ length: count }, (_, nth) => ({ ...origin, position: BigInt(nth), createdNs: 0n, payloadText }))
}

async function exported(stored: readonly Row[]): Promise<{ rows: Row[]; limits: number[] }> {
  const limits: number[] = []
  const rows: Row[] = []
  const read = async ({ limit, offset, after }: PageQuery): Promise<Row[]> => {
    limits.push(limit)
    const behind = after === undefined ? offset : stored.findIndex(row => keyOf(row).position === after.position) + 1
    return stored.slice(behind, behind + limit)
  }
  const { question } = questionOf({ limit: 'all', offset: 3, format: 'weather' }, channel, undefined, 1000)
  if (question.kind !== 'export') throw new Error('this is no export')
  for await (const page of exportPages({ reader: { ...unused, read }, cursors }, question, signal)) rows.push(...page)
  return { rows, limits }
}

test('an export asks for as many rows at once as are about a megabyte, and for each once', async () => {
  const small = documentsOf(3_200, 100)
  const { rows, limits } = await exported(small)
  expect(rows).toEqual(small.slice(3))
  expect(limits).toEqual([100, 1000, 1000, 1000, 1000])

  const large = documentsOf(150, 256 * kib)
  const found = await exported(large)
  expect(found.rows).toHaveLength(147)
  expect(found.limits).toEqual([100, 10, 10, 10, 10, 10])
})

const two = records.rows.slice(0, 2)
const costly = { ...unused, read: async () => two, count: () => Promise.reject(new QueryTooLargeError('it takes too long')) }
const parts = { reader: costly, cursors, countMax: 10_000 }

test('a total that costs too much is a lower bound, and no reason to withhold the page', async () => {
  const { question } = questionOf({ limit: '1' }, channel, undefined, 1000)
  if (question.kind !== 'page') throw new Error('this is no page')
  const { items, total } = await answerRows(parts, question, signal)
  expect([items, total]).toEqual([two.slice(0, 1), { total: 2, isExact: false }])
})

test('who insists on the total is told that it costs too much', async () => {
  const { question } = questionOf({ limit: '1', count: 'exact' }, channel, undefined, 1000)
  if (question.kind !== 'page') throw new Error('this is no page')
  await expect(answerRows(parts, question, signal)).rejects.toBeInstanceOf(QueryTooLargeError)
})

test('the whole channel is counted while its page is read, and nothing else is', async () => {
  async function askedWhileReading(parameters: Parameters): Promise<number> {
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
    const { question } = questionOf({ limit: '1', ...parameters }, channel, undefined, 1000)
    if (question.kind !== 'page') throw new Error('this is no page')
    expect((await answerRows({ reader, cursors, countMax: 10_000 }, question, signal)).total).toEqual({ total: 7, isExact: true })
    await counting.promise
    expect(counted).toBe(1)
    return seen
  }
  expect(await askedWhileReading({})).toBe(1)
  expect(await askedWhileReading({ publisher: 'p' })).toBe(0)
  expect(await askedWhileReading({ name: 'n' })).toBe(0)
  expect(await askedWhileReading({ count: 'exact' })).toBe(0)
})
