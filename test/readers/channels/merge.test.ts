// What an answer over many channels may cost: queries, those at once, rows in memory, groups and time. Which rows it has is in the conformance suite.

import { afterEach, expect, test, vi } from 'vitest'
import { channelsAtOnceMax } from '../../../readers/channels/merge.ts'
import { groupsMax } from '../../../readers/groups.ts'
import { answerBuckets, answerRows, bytesOf, exportPages, pageBytesMax } from '../../../readers/paging.ts'
import { compareRows, isBehind, keyOf, type PageQuery, QueryTooLargeError, type Row } from '../../../readers/reader.ts'
import type { QueryString } from '../../../readers/request/query-schema.ts'
import { requestOf } from '../../../readers/request.ts'
import { records } from '../../conformance/reader/fixture.ts'
import { cursors, owner, serve, unused } from '../served.ts'
import { documentsOf, kib } from '../sized-rows.ts'

afterEach(() => void vi.useRealTimers())

const signal = new AbortController().signal
const channels = Array.from({ length: 100 }, (_, nth) => `channel-${String(nth).padStart(3, '0')}`)

/** A store of these rows, newest first, and what it was asked for. */
function storeOf(rows: readonly Row[]) {
  const byChannel = Map.groupBy(rows, row => row.channel)
  const asked = { queries: 0, rows: 0, bytes: 0, now: 0, atOnce: 0, counts: 0 }
  async function page({ channel, direction, after, limit }: PageQuery): Promise<Row[]> {
    asked.queries++
    asked.atOnce = Math.max(asked.atOnce, ++asked.now)
    await Promise.resolve()
    asked.now--
    const own = byChannel.get(channel) ?? []
    const found = own.filter(row => after === undefined || isBehind(keyOf(row), after, direction)).slice(0, limit)
    asked.rows += found.length
    asked.bytes += found.reduce((sum, row) => sum + bytesOf(row), 0)
    return found
  }
  const reader = {
    ...unused,
    read: page,
    latest: async (query: PageQuery) => ({ groups: await page(query), total: byChannel.get(query.channel)?.length ?? 0 }),
    async count({ channel }: { readonly channel: string }, max: number) {
      asked.counts++
      await Promise.resolve()
      return Math.min(byChannel.get(channel)?.length ?? 0, max + 1)
    },
  }
  return { asked, reader }
}

const firstUs = 1_793_491_199_000_000

/** In turns of the channels, or all in the first. */
function recordsIn(count: number, channelOf: (nth: number) => string): Row[] {
  return Array.from({ length: count }, (_, nth) => ({
    ...records.rows[0]!,
    channel: channelOf(nth),
    position: BigInt(nth),
    timeUs: firstUs - nth,
  }))
}
const inTurns = (nth: number): string => channels[nth % channels.length]!

async function pageFor(reader: ReturnType<typeof storeOf>['reader'], query: QueryString) {
  const { request } = requestOf(query, channels, undefined, 1000)
  if (request.kind !== 'page' && request.kind !== 'latest') throw new Error('this is no page')
  return await answerRows({ reader, cursors, countMax: 10_000 }, request, signal)
}

test.each([
  ['a small page asks each channel once', '10', inTurns, { queries: 100, rows: 300 }],
  ['a large page asks each channel a few times', '1000', inTurns, { queries: 400, rows: 3_500 }],
  ['a page of one busy channel asks the others once', '1000', () => channels[0]!, { queries: 170, rows: 1_500 }],
] as const)('%s, and few at a time', async (_what, limit, channelOf, most) => {
  const rows = recordsIn(100_000, channelOf)
  for (const latest of ['false', 'true'] as const) {
    const { asked, reader } = storeOf(rows)
    const { items, hasMore } = await pageFor(reader, { limit, latest, count: 'none' })
    expect(items).toEqual(rows.slice(0, Number(limit)))
    expect(hasMore).toBe(true)
    expect(asked.queries).toBeGreaterThanOrEqual(100)
    expect(asked.queries).toBeLessThanOrEqual(most.queries)
    expect(asked.rows).toBeLessThanOrEqual(most.rows)
    expect(asked.atOnce).toBeLessThanOrEqual(channelsAtOnceMax)
  }
})

test('a page of large documents ends before its limit, and less than three times as much is read', async () => {
  const rows = documentsOf(1_000, 226 * kib)
    .map((row, nth) => ({ ...row, channel: inTurns(nth) }))
    .toReversed()
  const { asked, reader } = storeOf(rows)
  const { items, hasMore } = await pageFor(reader, { format: 'weather', limit: '1000', count: 'none' })
  expect(items).toEqual(rows.slice(0, items.length))
  expect(items.reduce((sum, row) => sum + bytesOf(row), 0)).toBeLessThanOrEqual(pageBytesMax)
  expect(hasMore).toBe(true)
  expect(asked.bytes).toBeLessThanOrEqual(3 * pageBytesMax)
})

test('an export of one busy channel among quiet ones is read in large chunks, and never are many rows in memory', async () => {
  const [busy, ...quiet] = channels
  const others = quiet.flatMap((channel, at) =>
    recordsIn(50, () => channel).map((row, nth) => ({ ...row, position: BigInt(100_000 + at), timeUs: firstUs - 1_000 * nth - 10 * at })),
  )
  const rows = [...recordsIn(50_000, () => busy!), ...others].sort((one, other) => compareRows(other, one))
  const { asked, reader } = storeOf(rows)
  const { request } = requestOf({ limit: 'all' }, channels, undefined, 1000)
  if (request.kind !== 'export') throw new Error('this is no export')
  const found: Row[] = []
  let foundBytes = 0
  let mostBytes = 0
  for await (const page of exportPages({ reader, cursors }, request, signal)) {
    mostBytes = Math.max(mostBytes, asked.bytes - foundBytes)
    foundBytes += page.reduce((sum, row) => sum + bytesOf(row), 0)
    found.push(...page)
  }
  expect(found.every((row, nth) => row === rows[nth])).toBe(true)
  expect(found).toHaveLength(rows.length)
  expect(asked.queries).toBeLessThan(1_000)
  expect(mostBytes).toBeLessThan(4 * 1024 * kib)
})

test('a count ends soon after its bound', async () => {
  const { asked, reader } = storeOf(recordsIn(100_000, inTurns))
  const { total } = await pageFor(reader, { limit: '1' })
  expect(total).toEqual({ total: 10_000, isExact: false })
  expect(asked.counts).toBeLessThanOrEqual(10 + channelsAtOnceMax)
})

test('more buckets up to the end of a page than one query may have are refused, and a page of the first of them is not', async () => {
  const each = groupsMax / 50
  const bucket = { publisher: 'p', subtopic: '', name: '', unit: undefined, value: 1, count: 1 }
  const reader = {
    ...unused,
    read: async () => [],
    aggregate: async ({ channel, limit }: { readonly channel: string; readonly limit: number }) => ({
      groups: Array.from({ length: Math.min(each, limit) }, (_, nth) => ({ ...bucket, channel, timeUs: -nth })),
      total: each,
    }),
  }
  const answer = (offset: number) => {
    const { request } = requestOf({ aggregation: 'sum', interval: '1s', limit: '2', offset }, channels, undefined, 1000)
    if (request.kind !== 'aggregate') throw new Error('this is no aggregation')
    return answerBuckets(reader, request, signal)
  }
  const { items, total } = await answer(99)
  expect(items.map(({ channel, timeUs }) => [channel, timeUs])).toEqual([
    ['channel-099', -0],
    ['channel-000', -1],
  ])
  expect(total).toEqual({ total: 100 * each, isExact: true })
  await expect(answer(each)).rejects.toThrow(QueryTooLargeError)
})

test('the groups of a field are limited in all channels together, also those behind the end of the page', async () => {
  const [row] = documentsOf(1, 0)
  const many = channels.slice(0, 17)
  const origin = { ...row!, payloadText: '{"t":1}' }
  const reader = {
    ...unused,
    read: async ({ channel }: PageQuery): Promise<Row[]> => [
      { ...origin, channel, createdNs: 86_400_000_000_000n },
      { ...origin, channel, subtopic: channel.padEnd(1024 * kib, 'x') },
    ],
  }
  const { request } = requestOf(
    { format: 'weather', aggregation: 'sum', interval: '1d', field: 'payload.t', limit: '1' },
    many,
    undefined,
    1000,
  )
  if (request.kind !== 'aggregate') throw new Error('this is no aggregation')
  expect((await answerBuckets(reader, { ...request, channels: many.slice(0, 15) }, signal)).items).toHaveLength(1)
  await expect(answerBuckets(reader, request, signal)).rejects.toThrow(QueryTooLargeError)
})

test('an answer ends after a minute, however fast each of its queries is', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  let ends = 0
  const reading = Promise.withResolvers<void>()
  const read = (_query: PageQuery, within: AbortSignal): Promise<Row[]> =>
    new Promise((_resolve, reject) => {
      reading.resolve()
      within.addEventListener('abort', () => {
        ends++
        reject(within.reason as Error)
      })
    })
  const access = {
    authorize: async () => ({ allowed: true, publisher: null, owner: 'user' }) as const,
    deletedChannels: async () => [],
    onChange: () => () => undefined,
  }
  const { app } = await serve({ ...unused, read }, undefined, access)
  const asked = app.inject({ url: '/messages?channel=a&channel=b', headers: owner })
  await reading.promise
  await vi.advanceTimersByTimeAsync(60_000)
  const answer = await asked
  expect([answer.statusCode, answer.body]).toEqual([422, expect.stringContaining('give fewer channels')])
  expect(ends).toBe(2)
  await app.close()
})
