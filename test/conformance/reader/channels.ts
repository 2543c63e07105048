// Several channels in one read: rows, pages, totals, the newest of each series and buckets, as if the channels were one.

import { describe, expect, test } from 'vitest'
import { countAll } from '../../../readers/channels/merge.ts'
import { openCursors } from '../../../readers/cursor.ts'
import { answerBuckets, answerRows, exportPages } from '../../../readers/paging.ts'
import type { Aggregation, Bucket, DocumentRow, Filter, Row, SenmlRow } from '../../../readers/reader.ts'
import type { QueryString } from '../../../readers/request/query-schema.ts'
import { type ReadRequest, requestOf } from '../../../readers/request.ts'
import { jsonText } from '../../../transformers/json/json-text.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { type JsonObject, RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { pageText } from '../../readers/answers/page-text.ts'
import { type ReaderBench, signal } from './bench.ts'
import { packed, publishers, startUs } from './fixture-origin.ts'
import { bucketsOf, filterOf, inOrder, latestOf, type StoredRow, selected } from './oracle.ts'

const partition = 11
const documentsFrom = 400
const format = 'climate'
const channels = Array.from({ length: 9 }, (_, nth) => `2b0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a0${nth}`)
/** Without any row: there is no such channel. */
const absent = '2b0c6b5e-7c2e-4a36-9a51-0c3c6c6f2aff'

/** The first has more rows than the others together; several rows of different channels have one time, and not in the order of the log. */
const channelAt = (offset: number): string => channels[offset % 10 < 6 ? 0 : (offset * 7) % channels.length]!
const timeAt = (offset: number): number => startUs + Math.floor(((offset * 37) % 200) / 3) * 600_000_000

const payloads: readonly ((nth: number) => JsonObject)[] = [
  nth => ({ temperature: nth / 8 - 10, d: { inner: nth } }),
  nth => ({ temperature: nth, d: { inner: 1 } }),
  nth => ({ temperature: 8_659_456_789_564_231_564n + BigInt(nth) }),
  nth => ({ other: 1, temperature: nth % 2 === 0 ? String(nth) : true }),
  nth => ({ list: [nth], d: { deep: { temperature: 1 } } }),
]

const origin = (offset: number) => ({
  channel: channelAt(offset),
  publisher: publishers[offset % 2]!,
  protocol: 'http',
  position: packed(partition, offset),
  index: 0,
})
const nothing = { stringValue: undefined, boolValue: undefined, dataValue: undefined, sum: undefined, updateTime: undefined }

const records = Array.from({ length: documentsFrom }, (_, offset): SenmlRow => {
  const series = { name: `n${offset % 3}`, unit: offset % 4 === 0 ? 'Cel' : undefined }
  return { kind: 'senml', ...origin(offset), subtopic: '', ...series, timeUs: timeAt(offset), value: (offset % 97) / 8, ...nothing }
})
const documents = Array.from({ length: 150 }, (_, nth): DocumentRow & { readonly payload: JsonObject } => {
  const payload = payloads[nth % payloads.length]!(nth)
  const createdNs = BigInt(timeAt(nth)) * 1000n + BigInt(nth % 2)
  const subtopic = `house.${format}`
  return { kind: 'document', ...origin(documentsFrom + nth), subtopic, createdNs, payloadText: jsonText(payload), payload }
})
const stored: readonly StoredRow[] = [
  ...records.map(row => ({ format: 'messages', row })),
  ...documents.map(({ payload: _payload, ...row }) => ({ format, row })),
]

function batchOfAll(): RecordBatch {
  const batch = new RecordBatch()
  const at = logPartition(0, partition)
  for (const [offset, { channel, subtopic, publisher, protocol, name, unit, timeUs, value }] of records.entries()) {
    batch.beginMessage({ at, offset, channel, subtopic, publisher, protocol })
    batch.appendRecord(0, name, unit, timeUs, ValueKind.number, value!, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  for (const [nth, { channel, subtopic, publisher, protocol, createdNs, payload }] of documents.entries()) {
    batch.beginMessage({ at, offset: documentsFrom + nth, channel, subtopic, publisher, protocol })
    batch.appendDocument(0, format, Number(createdNs / 1000n), Number(createdNs % 1000n), payload)
    batch.endMessage()
  }
  batch.cover(at, 0, documentsFrom + documents.length)
  return batch
}

/** Requests with the filters that they make. */
const queries: readonly [query: QueryString, filter: Partial<Filter>][] = [
  [{}, {}],
  [{ dir: 'asc' }, {}],
  [{ name: 'n1', dir: 'asc' }, { name: 'n1' }],
  [{ publisher: publishers[1] }, { publisher: publishers[1] }],
  [{ v: '3', comparator: 'lt' }, { value: { comparator: 'lt', number: 3 } }],
  [{ from: String(startUs / 1e6 + 6000), to: String(startUs / 1e6 + 24_000) }, timesOf(6000, 24_000)],
  [{ format }, { format }],
  [
    { format, 'payload.d.inner': '1', dir: 'asc' },
    { format, payload: [{ path: ['d', 'inner'], text: '1' }] },
  ],
]

function timesOf(fromSeconds: number, toSeconds: number): Partial<Filter> {
  return { fromNs: BigInt(startUs + fromSeconds * 1e6) * 1000n, toNs: BigInt(startUs + toSeconds * 1e6) * 1000n }
}

export function channelsSuite(bench: ReaderBench): void {
  const cursors = openCursors(Buffer.alloc(32, 5))
  let isStored = false
  async function parts() {
    if (!isStored) await bench.site.store(batchOfAll())
    isStored = true
    return { reader: bench.site.reader, cursors, countMax: 10_000 }
  }
  const requestFor = (query: QueryString, of = channels): ReadRequest => requestOf(query, of, undefined, 1000).request
  const rowsFor = ({ dir = 'desc' }: QueryString, filter: Partial<Filter>, of = channels): Row[] =>
    inOrder(
      of.flatMap(channel => selected(stored, filterOf({ channel, ...filter }))),
      dir,
    )
  /** Stores keep the keys of payloads in another order, and one flattens them; answers do the first alone. */
  const textOf = (rows: readonly Row[]): string =>
    bench.site.flattens === true
      ? rows.map(({ channel, position, index }) => `${channel} ${position} ${index}`).join('\n')
      : pageText({ total: undefined, offset: 0, limit: 'all', format: 'any' }, rows).replaceAll('{"Channel"', '\n$&')

  async function pageFor(query: QueryString, of?: string[]) {
    const request = requestFor(query, of)
    if (request.kind !== 'page' && request.kind !== 'latest') throw new Error('this is no page')
    return await answerRows(await parts(), request, signal)
  }

  /** Page by page: the rows, each with the total of all. */
  async function expectPages(query: QueryString, expected: readonly Row[]): Promise<void> {
    const found: Row[] = []
    let cursor: string | undefined
    do {
      const { items, total, nextCursor } = await pageFor({ ...query, count: 'exact', ...(cursor === undefined ? {} : { cursor }) })
      expect(total).toEqual({ total: expected.length, isExact: true })
      expect(nextCursor?.length ?? 0).toBeLessThanOrEqual(100)
      found.push(...items)
      cursor = nextCursor
    } while (cursor !== undefined)
    expect(textOf(found)).toBe(textOf(expected))
  }

  describe('several channels', () => {
    test.each(queries.map(([query, filter]) => [JSON.stringify(query), query, filter] as const))(
      'have one order, page after page and by offset: %s',
      async (_shown, query, filter) => {
        const whole = rowsFor(query, filter)
        expect(new Set(whole.map(row => row.channel)).size).toBeGreaterThan(3)
        for (const limit of ['7', '64', '1000']) await expectPages({ ...query, limit }, whole)
        for (const offset of [1, 50, whole.length - 1, whole.length + 5]) {
          const { items, hasMore } = await pageFor({ ...query, offset, limit: '30' })
          expect(textOf(items), `from ${offset}`).toBe(textOf(whole.slice(offset, offset + 30)))
          expect(hasMore).toBe(whole.length > offset + 30)
        }
        const exported: Row[] = []
        const request = requestFor({ ...query, limit: 'all' })
        if (request.kind !== 'export') throw new Error('this is no export')
        for await (const rows of exportPages(await parts(), request, signal)) exported.push(...rows)
        expect(textOf(exported)).toBe(textOf(whole))
      },
    )

    test('of one, and of a hundred of which most are empty', async () => {
      const [one] = channels
      expect(textOf((await pageFor({ limit: '1000' }, [one!])).items)).toBe(textOf(rowsFor({}, {}, [one!])))
      const hundred = [...channels, ...Array.from({ length: 91 }, (_, nth) => absent.slice(0, -2) + String(nth + 109).slice(1))]
      const { items, total } = await pageFor({ limit: '1000', count: 'exact' }, hundred)
      expect(textOf(items)).toBe(textOf(rowsFor({}, {})))
      expect(total).toEqual({ total: records.length, isExact: true })
      expect((await pageFor({}, [absent, `${absent.slice(0, -1)}e`])).items).toEqual([])
    })

    test('a total is counted up to its bound, over all of them', async () => {
      const { reader } = await parts()
      const count = (channel: string, left: number): Promise<number> => reader.count(filterOf({ channel }), left, signal)
      expect(await countAll(channels, 50, count)).toBe(51)
      expect(await countAll(channels, 1000, count)).toBe(records.length)
      expect((await pageFor({ limit: '1', count: 'exact' })).total).toEqual({ total: records.length, isExact: true })
    })

    test.each([{}, { dir: 'asc' as const }, { format }, { format, dir: 'asc' as const }])(
      'have the newest of each series in each channel: %j',
      async query => {
        const newest = latestOf(rowsFor({}, query.format === undefined ? {} : { format }))
        for (const limit of ['4', '1000']) await expectPages({ ...query, latest: 'true', limit }, inOrder(newest, query.dir ?? 'desc'))
        const { items } = await pageFor({ ...query, latest: 'true', offset: 3, limit: '5' })
        expect(textOf(items)).toBe(textOf(inOrder(newest, query.dir ?? 'desc').slice(3, 8)))
      },
    )

    async function expectBuckets(query: QueryString, rows: readonly Row[], of = channels): Promise<void> {
      const request = requestFor(query, of)
      if (request.kind !== 'aggregate') throw new Error('this is no aggregation')
      const all = bucketsOf(rows, { ...request.filter, ...request })
      expect(all.length).toBeGreaterThan(5)
      const { items, total } = await answerBuckets(bench.site.reader, request, signal)
      expect(total).toEqual({ total: all.length, isExact: true })
      const page = all.slice(request.offset, request.offset + request.limit)
      expect(items.map(placeOf)).toEqual(page.map(placeOf))
      for (const [nth, { value }] of items.entries()) {
        const right = page[nth]!.value
        expect(Math.abs(value - right), `${value}, ${right}`).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(right)))
      }
    }

    const aggregations: readonly Aggregation[] = ['min', 'max', 'avg', 'sum', 'count', 'first', 'last']
    test.each(aggregations)('have buckets by channel: %s', async aggregation => {
      await parts()
      const query: QueryString = { aggregation, interval: '1h', limit: '1000' }
      await expectBuckets(query, rowsFor({}, {}))
      await expectBuckets({ ...query, dir: 'asc', offset: 5, limit: '20' }, rowsFor({}, {}))
      await expectBuckets({ ...query, publisher: publishers[0], name: 'n2' }, rowsFor({}, { publisher: publishers[0], name: 'n2' }))
    })

    /** The numbers in the field, as records of its name. */
    const recordsOf = (name: string, numberOf: (payload: JsonObject) => unknown): Row[] =>
      documents.flatMap(({ payload, createdNs, payloadText: _text, ...row }): Row[] => {
        const value = numberOf(payload)
        const number = { name, unit: undefined, timeUs: Number(createdNs / 1000n), value: Number(value), ...nothing }
        return typeof value === 'number' || typeof value === 'bigint' ? [{ ...row, kind: 'senml', ...number }] : []
      })

    test.each(aggregations)('and one of them have buckets of a field of documents: %s', async aggregation => {
      await parts()
      const query: QueryString = { format, aggregation, interval: '2h', limit: '1000', field: 'payload.temperature' }
      const rows = recordsOf('payload.temperature', ({ temperature }) => temperature)
      await expectBuckets(query, rows)
      await expectBuckets({ ...query, offset: 3, limit: '7', dir: 'asc' }, rows)
      const one = channels.slice(0, 1)
      await expectBuckets(
        { ...query, publisher: publishers[1] },
        rows.filter(row => row.channel === one[0] && row.publisher === publishers[1]),
        one,
      )
      const inner = recordsOf('payload.d.inner', ({ d }) => (d as JsonObject | undefined)?.['inner'])
      await expectBuckets({ ...query, field: 'payload.d.inner' }, inner)
    })
  })
}

function placeOf({ channel, publisher, subtopic, name, unit, timeUs, count }: Bucket): unknown[] {
  return [channel, publisher, subtopic, name, unit, timeUs, count]
}
