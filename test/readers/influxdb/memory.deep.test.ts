// What memory a query to the InfluxDB reader takes: an answer that is more than memory may hold at once is asked for in parts.

import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keyOf, type PageQuery, type Row } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { aggregateQuery, pageQuery } from '../../conformance/reader/index.ts'
import { bucketsOf, latestOf, pageOf, type StoredRow, selected } from '../../conformance/reader/oracle.ts'
import { describeWithOwnInflux } from '../../servers/influx.ts'
import { type InfluxSite, openSite } from './site.ts'

const signal = new AbortController().signal
const [channel, crowded] = ['heavy', 'crowded']
const nowUs = 1_793_491_199_000_000
/** What is held at once, and a piece of the answer above it. */
const heldMax = 17_000_000
const absent = { boolValue: undefined, dataValue: undefined, sum: undefined, updateTime: undefined }

/** Of 60 KB each but for one in fifty; a third is from `mqtt`. The first 300 lie in one microsecond. */
function heavyRecords(batch: RecordBatch, beginsAt: number, count: number): StoredRow[] {
  return Array.from({ length: count }, (_, at): StoredRow => {
    const offset = beginsAt + at
    const [publisher, protocol] = [`p${offset % 7}`, offset % 3 === 0 ? 'mqtt' : 'http']
    const timeUs = offset < 300 ? nowUs : nowUs - offset * 1_000
    const isText = offset % 50 !== 1
    const [stringValue, value] = isText ? [String(offset).padEnd(60_000, '.'), undefined] : [undefined, offset]
    const kind = isText ? ValueKind.string : ValueKind.number
    batch.beginMessage({ at: logPartition(0, 3), offset, channel, subtopic: '', publisher, protocol })
    batch.appendRecord(0, 'n', undefined, timeUs, kind, value ?? Number.NaN, stringValue, Number.NaN, Number.NaN)
    batch.endMessage()
    const position = (1n << 56n) | (3n << 44n) | BigInt(offset)
    const origin = { channel, subtopic: '', publisher, protocol, position, index: 0 }
    return { format: 'messages', row: { kind: 'senml', ...origin, name: 'n', unit: undefined, timeUs, value, stringValue, ...absent } }
  })
}

/** In one millisecond 15,000 messages of 40 things, some of two records, a few of another thing, and some records beside it. */
function crowd(batch: RecordBatch): StoredRow[] {
  const rows: StoredRow[] = []
  for (let offset = 0; offset < 15_020; offset++) {
    const publisher = offset % 3_000 === 7 ? 'rare' : `p${(offset * 7_919) % 40}`
    const timeUs = nowUs + (offset < 15_000 ? (offset * 7_919) % 1_000 : offset % 2 === 0 ? offset : -offset)
    batch.beginMessage({ at: logPartition(0, 4), offset, channel: crowded, subtopic: '', publisher, protocol: 'http' })
    for (let index = 0; index <= (offset % 9 === 0 ? 1 : 0); index++) {
      batch.appendRecord(index, 'n', undefined, timeUs, ValueKind.number, offset, undefined, Number.NaN, Number.NaN)
      const position = (1n << 56n) | (4n << 44n) | BigInt(offset)
      const origin = { channel: crowded, subtopic: '', publisher, protocol: 'http', position, index }
      rows.push({
        format: 'messages',
        row: { kind: 'senml', ...origin, name: 'n', unit: undefined, timeUs, value: offset, stringValue: undefined, ...absent },
      })
    }
    batch.endMessage()
  }
  batch.cover(logPartition(0, 4), 0, 15_020)
  return rows
}

const places = (rows: readonly Row[]): string[] => rows.map(({ position, index }) => `${position & 0xffffn} ${index}`)

describeWithOwnInflux('large rows', influx => {
  let site: InfluxSite
  const rows: StoredRow[] = []

  beforeAll(async () => {
    site = await openSite(influx)
    for (let beginsAt = 0; beginsAt < 320; beginsAt += 80) {
      const batch = new RecordBatch()
      rows.push(...heavyRecords(batch, beginsAt, 80))
      batch.cover(logPartition(0, 3), beginsAt, beginsAt + 80)
      await site.store(batch)
    }
  })
  afterAll(() => site.close())

  async function expectPage(some: Partial<PageQuery>): Promise<void> {
    const query = pageQuery({ channel, limit: 20, ...some })
    const own = selected(rows, query)
    expect(own.length).toBeGreaterThan(0)
    expect(places(await site.reader.read(query, signal))).toEqual(places(pageOf(own, query)))
    const behind = { ...query, offset: 0, after: keyOf(own[Math.floor(own.length / 2)]!) }
    expect(places(await site.reader.read(behind, signal))).toEqual(places(pageOf(own, behind)))
    expect(site.charactersMax()).toBeLessThan(heldMax)
  }

  test.each(['asc', 'desc'] as const)('pages, with filters and without, stay within the memory limit: %s', async direction => {
    await expectPage({ direction })
    await expectPage({ direction, value: { comparator: 'ge', number: 0 }, offset: 1, limit: 2 })
    await expectPage({ direction, protocol: 'http', value: { comparator: 'ge', number: 0 }, limit: 2 })
  })

  test('totals, the newest of each series, and the ends of buckets stay within the memory limit', async () => {
    const query = pageQuery({ channel })
    const both = { ...query, protocol: 'mqtt', value: { comparator: 'ge', number: 0 } } as const
    expect(await site.reader.count(both, 1_000, signal)).toBe(selected(rows, both).length)
    expect(places((await site.reader.latest(query, signal)).groups)).toEqual(places(latestOf(selected(rows, query))))
    const buckets = aggregateQuery({ channel, aggregation: 'last', intervalUs: 1_000_000 })
    expect((await site.reader.aggregate(buckets, signal)).groups).toEqual(bucketsOf(selected(rows, buckets), buckets))
    expect(site.charactersMax()).toBeLessThan(heldMax)
  })

  test('with thousands of records in one millisecond a page stays within the memory limit', async () => {
    const batch = new RecordBatch()
    const stored = crowd(batch)
    await site.store(batch)
    const page = fc.record({
      direction: fc.constantFrom('asc', 'desc'),
      limit: fc.integer({ min: 1, max: 30 }),
      publisher: fc.constantFrom(undefined, undefined, 'p5', 'rare'),
    })
    await fc.assert(
      fc.asyncProperty(page, fc.nat(), fc.option(fc.nat(60), { nil: undefined }), async (some, at, offset) => {
        const query = pageQuery({ channel: crowded, ...some, offset: offset ?? 0 })
        const own = selected(stored, query)
        const asked = offset === undefined ? { ...query, after: keyOf(own[at % own.length]!) } : query
        expect(places(await site.reader.read(asked, signal))).toEqual(places(pageOf(own, asked)))
        expect(site.charactersMax()).toBeLessThan(heldMax)
      }),
      { numRuns: 12 },
    )
  })
})
