// Queries to the InfluxDB reader where its store is hard: rows that crowd in a few microseconds, over years, in series that differ in little.

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AggregateQuery, type Filter, keyOf, type PageQuery, type Row, type SenmlRow } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'
import { bucketsOf, latestOf, pageOf, type StoredRow, selected } from '../../conformance/reader/oracle.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { type InfluxSite, openSite } from './site.ts'

const signal = new AbortController().signal
const compress = promisify(gzip)
const channel = 'crowded'
const nowUs = 1_793_491_199_000_000
const yearUs = 365 * 86_400_000_000
/** Some next to each other, some years apart, on both sides of 1970. */
const times = [-yearUs, -1, 0, 1, nowUs - 10 * yearUs, nowUs - yearUs, nowUs - 3, nowUs - 2, nowUs - 1, nowUs]
const strings = ['', 'plain', 'a\nb', 'a\r\nb\\n', '\\', 'ü😀']

/** Deterministic: 600 messages whose nanoseconds say nothing of their order within a microsecond. */
function crowd(batch: RecordBatch): StoredRow[] {
  const rows: StoredRow[] = []
  let seed = 7
  const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below
  for (let offset = 0; offset < 600; offset++) {
    const publisher = `p${random(3)}`
    const subtopic = ['', 'a', 'b.c'][random(3)]!
    const protocol = ['http', 'mqtt', 'mq\ntt'][random(3)]!
    const position = (1n << 56n) | (9n << 44n) | BigInt(offset)
    batch.beginMessage({ at: logPartition(0, 9), offset, channel, subtopic, publisher, protocol })
    const timeUs = times[random(times.length)]!
    const records = 1 + random(3)
    for (let index = 0; index < records; index++) {
      const name = ['n', 'm'][random(2)]!
      const unit = ['W', undefined][random(2)]
      const isNumber = random(4) > 0
      const value = isNumber ? [-2, -1, 0, 0.5, 1, 2][random(6)]! : undefined
      const stringValue = isNumber ? undefined : strings[random(strings.length)]!
      const kind = isNumber ? ValueKind.number : ValueKind.string
      batch.appendRecord(index, name, unit, timeUs, kind, value ?? Number.NaN, stringValue, Number.NaN, Number.NaN)
      const nothing = { boolValue: undefined, dataValue: undefined, sum: undefined, updateTime: undefined }
      const origin = { channel, subtopic, publisher, protocol, position, index }
      rows.push({ format: 'messages', row: { kind: 'senml', ...origin, name, unit, timeUs, value, stringValue, ...nothing } })
    }
    batch.endMessage()
  }
  batch.cover(logPartition(0, 9), 0, 600)
  return rows
}

const optional = <Value>(...values: readonly Value[]): fc.Arbitrary<Value | undefined> => fc.constantFrom(undefined, undefined, ...values)
const ns = fc.tuple(fc.constantFrom(...times), fc.constantFrom(-1n, 0n, 1n, 999n)).map(([us, rest]) => BigInt(us) * 1000n + rest)
const filters: fc.Arbitrary<Partial<Filter>> = fc.record({
  publisher: optional('p0', 'p1', 'none'),
  subtopic: optional('', 'a'),
  protocol: optional('http', 'mq\ntt'),
  name: optional('n'),
  unit: optional('', 'W'),
  value: fc.option(
    fc.record({ comparator: fc.constantFrom('eq', 'lt', 'le', 'gt', 'ge'), number: fc.constantFrom(-2, -1.5, -1, 0, 0.5, 2) }),
    { nil: undefined, freq: 2 },
  ),
  stringValue: optional(...strings),
  fromNs: fc.option(ns, { nil: undefined, freq: 3 }),
  toNs: fc.option(ns, { nil: undefined, freq: 3 }),
})
const direction = fc.constantFrom<PageQuery['direction']>('asc', 'desc')
const places = (rows: readonly Row[]): string[] => rows.map(({ position, index }) => `${position & 0xfffn} ${index}`)
const shown = (some: object): string => JSON.stringify(some, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value))

describeWithInflux('hard queries', influx => {
  let site: InfluxSite
  let rows: readonly StoredRow[]

  beforeAll(async () => {
    site = await openSite(influx)
    const batch = new RecordBatch()
    rows = crowd(batch)
    await site.store(batch)
  })
  afterAll(() => site.close())

  test('pages after any row, by any offset, with any filters', async () => {
    const page = fc.record({ filter: filters, direction, offset: fc.nat(400), limit: fc.integer({ min: 1, max: 200 }), at: fc.nat() })
    await fc.assert(
      fc.asyncProperty(page, async ({ filter, at, ...rest }) => {
        const query = pageQuery({ channel, ...filter, ...rest })
        const own = selected(rows, query)
        const found = await site.reader.read(query, signal)
        expect(found, shown(query)).toEqual(pageOf(own, query))
        if (own.length === 0) return
        const behind = { ...query, offset: 0, after: keyOf(own[at % own.length]!) }
        expect(places(await site.reader.read(behind, signal)), shown(behind)).toEqual(places(pageOf(own, behind)))
      }),
      { numRuns: 120 },
    )
  })

  test('totals, up to their limit, and the newest of each series', async () => {
    await fc.assert(
      fc.asyncProperty(filters, direction, fc.integer({ min: 0, max: 700 }), async (filter, way, max) => {
        const query = pageQuery({ channel, ...filter, direction: way })
        const own = selected(rows, query)
        expect(await site.reader.count(query, max, signal), shown(query)).toBe(Math.min(own.length, max + 1))
        const series = latestOf(own)
        for (const part of [
          { ...query, limit: 3, offset: 2 },
          ...(series.length === 0 ? [] : [{ ...query, limit: 3, after: keyOf(series[max % series.length]!) }]),
        ]) {
          const found = await site.reader.latest(part, signal)
          expect(found.total, shown(part)).toBe(series.length)
          expect(places(found.groups), shown(part)).toEqual(places(pageOf(series, part)))
        }
      }),
      { numRuns: 60 },
    )
  })

  test('aggregations by the order of positions within a microsecond', async () => {
    const aggregation = fc.constantFrom<AggregateQuery['aggregation']>('min', 'max', 'avg', 'sum', 'count', 'first', 'last')
    const intervalUs = fc.constantFrom(1_000_000, 7_000_000, 86_400_000_000, 366 * 86_400_000_000)
    await fc.assert(
      fc.asyncProperty(filters, direction, aggregation, intervalUs, async (filter, way, of, length) => {
        const query = aggregateQuery({ channel, ...filter, direction: way, aggregation: of, intervalUs: length, offset: 1, limit: 30 })
        const buckets = bucketsOf(selected(rows, query), query)
        const found = await site.reader.aggregate(query, signal)
        expect(found.total, shown(query)).toBe(buckets.length)
        expect(found.groups, shown(query)).toEqual(buckets.slice(1, 31).map(one => ({ ...one, value: expect.closeTo(one.value, 9) })))
      }),
      { numRuns: 60 },
    )
  })

  test('a page costs only its rows: at the beginning, in the middle, of a rare publisher, over years without rows', async () => {
    const busy = 'busy'
    for (let part = 0; part < 4; part++) {
      const batch = new RecordBatch()
      for (let nth = 0; nth < 10_000; nth++) {
        const offset = part * 10_000 + nth
        const publisher = offset % 4_000 === 0 ? 'rare' : `p${offset % 20}`
        batch.beginMessage({ at: logPartition(0, 1), offset, channel: busy, subtopic: '', publisher, protocol: 'http' })
        // A tenth of a second apart, in four parts with years between.
        const timeUs = nowUs - 3 * part * yearUs - nth * 100_000
        batch.appendRecord(0, 'n', undefined, timeUs, ValueKind.number, offset % 500, undefined, Number.NaN, Number.NaN)
        batch.endMessage()
      }
      batch.cover(logPartition(0, 1), part * 10_000, (part + 1) * 10_000)
      await site.store(batch)
    }
    async function costOf(query: Partial<PageQuery>): Promise<{ lines: number; requests: number; rows: readonly Row[] }> {
      const [lines, requests] = [site.lines(), site.asked.length]
      const found = await site.reader.read(pageQuery({ channel: busy, limit: 100, ...query }), signal)
      expect(found).toHaveLength(query.limit ?? 100)
      return { lines: site.lines() - lines, requests: site.asked.length - requests, rows: found }
    }
    const bound = { lines: 100 * 6, requests: 16 }
    const expectBelow = (cost: { lines: number; requests: number }): void => {
      expect(cost.lines).toBeLessThan(bound.lines)
      expect(cost.requests).toBeLessThan(bound.requests)
    }
    const head = await costOf({})
    expectBelow(head)
    expectBelow(await costOf({ after: keyOf(head.rows.at(-1)!) }))
    expectBelow(await costOf({ direction: 'asc' }))
    // The last row before a gap of three years, then the rows behind the gap.
    const [edge] = await site.reader.read(pageQuery({ channel: busy, limit: 1, toNs: BigInt(nowUs - 9_998 * 100_000) * 1000n }), signal)
    expectBelow(await costOf({ after: keyOf(edge!) }))
    expectBelow(await costOf({ publisher: 'rare', limit: 10 }))
    expectBelow(await costOf({ offset: 35_000, limit: 10 }).then(cost => ({ ...cost, lines: cost.lines - 35_100 })))
    // The newest rows reach over the first gap: of those before, only their times are read.
    const before = { lines: site.lines(), requests: site.asked.length }
    const [found] = await site.reader.formats(formatsQuery({ channel: busy, fromUs: -20 * yearUs, rowsMax: 15_000 }), signal)
    expect(found).toEqual({ format: 'messages', subtopics: [{ subtopic: '', lastUs: nowUs }], hasMore: true })
    expectBelow({ lines: site.lines() - before.lines - 15_000, requests: site.asked.length - before.requests })
    const [firstRow] = head.rows as readonly SenmlRow[]
    expect(firstRow!.timeUs).toBe(nowUs)
  })

  describe('documents', () => {
    test('with values of every type under one key, in one millisecond and over years, are read completely, found and counted', async () => {
      const values = ['new', 'true', '', 1.5, '1.5', true, -2.5, false, 'a\nb', '-2.5']
      const batch = new RecordBatch()
      for (const [nth, a] of values.entries()) {
        batch.beginMessage({ at: logPartition(0, 2), offset: nth, channel: 'mixed', subtopic: 'mixed', publisher: 'p', protocol: 'http' })
        batch.appendDocument(0, 'mixed', nth < 5 ? nowUs - nth : nowUs - nth * yearUs, 5, { a, also: nth })
        batch.endMessage()
      }
      batch.cover(logPartition(0, 2), 0, values.length)
      await site.store(batch)
      const query = pageQuery({ channel: 'mixed', format: 'mixed' })
      const found = await site.reader.read(query, signal)
      expect(found.map(row => JSON.parse((row as { payloadText: string }).payloadText) as unknown)).toEqual(
        values.map((a, also) => ({ a, also })),
      )
      for (const text of new Set(values.map(String))) {
        const filter = { ...query, payload: [{ path: ['a'], text }] }
        const matching = [...values.keys()].filter(nth => String(values[nth]) === text)
        expect(
          (await site.reader.read(filter, signal)).map(({ position }) => Number(position & 0xfffn)),
          text,
        ).toEqual(matching)
        for (const [nth, offset] of matching.entries()) {
          const page = { ...filter, offset: nth, limit: 1 }
          expect(places(await site.reader.read(page, signal)), text).toEqual([`${offset} 0`])
        }
        expect(await site.reader.count(filter, 10, signal)).toBe(matching.length)
        expect(places((await site.reader.latest(filter, signal)).groups)).toEqual([`${matching[0]} 0`])
      }
    })

    test('whose created nanoseconds are in another order than their positions are ordered by those nanoseconds', async () => {
      const batch = new RecordBatch()
      const rests = [999, 0, 500, 1, 998, 500]
      for (const [offset, rest] of rests.entries()) {
        batch.beginMessage({
          at: logPartition(0, 4),
          offset,
          channel: 'fine',
          subtopic: 'fine',
          publisher: `p${offset % 2}`,
          protocol: 'http',
        })
        batch.appendDocument(0, 'fine', nowUs, rest, { text: `a\r\nb${offset}\r`, number: -5, n: 'x' })
        batch.endMessage()
      }
      batch.cover(logPartition(0, 4), 0, rests.length)
      await site.store(batch)
      const stored = rests.map((rest, offset): StoredRow => {
        const origin = { channel: 'fine', subtopic: 'fine', publisher: `p${offset % 2}`, protocol: 'http', index: 0 }
        const position = (1n << 56n) | (4n << 44n) | BigInt(offset)
        const payloadText = JSON.stringify({ number: -5, text: `a\r\nb${offset}\r`, n: 'x' })
        return {
          format: 'fine',
          row: { kind: 'document', ...origin, position, createdNs: BigInt(nowUs) * 1000n + BigInt(rest), payloadText },
        }
      })
      const created = fc.constantFrom(-1n, 0n, 1n, 2n, 500n, 998n, 999n, 1000n).map(rest => BigInt(nowUs) * 1000n + rest)
      const payload = fc.constantFrom([], [{ path: ['number'], text: '-5' }], [{ path: ['n'], text: '-5' }])
      await fc.assert(
        fc.asyncProperty(
          fc.record({ direction, payload, offset: fc.nat(3), limit: fc.integer({ min: 1, max: 4 }) }),
          fc.option(created, { nil: undefined }),
          fc.option(created, { nil: undefined }),
          async (some, fromNs, toNs) => {
            const query = pageQuery({ channel: 'fine', format: 'fine', ...some, fromNs, toNs })
            const own = selected(stored, query)
            expect(places(await site.reader.read(query, signal)), shown(query)).toEqual(places(pageOf(own, query)))
            expect(await site.reader.count(query, 10, signal), shown(query)).toBe(own.length)
            expect(places((await site.reader.latest(query, signal)).groups)).toEqual(places(pageOf(latestOf(own), query)))
            for (const row of own) {
              const behind = { ...query, offset: 0, after: keyOf(row) }
              expect(places(await site.reader.read(behind, signal)), shown(behind)).toEqual(places(pageOf(own, behind)))
            }
          },
        ),
        { numRuns: 60 },
      )
      const whole = await site.reader.read(pageQuery({ channel: 'fine', format: 'fine' }), signal)
      expect(whole.map(row => JSON.parse((row as { payloadText: string }).payloadText) as unknown)).toContainEqual({
        number: -5,
        text: 'a\r\nb0\r',
        n: 'x',
      })
    })

    test('of another program whose keys cannot be nested keep their keys', async () => {
      const lines = [
        'foreign,channel=f,publisher=p /index=0i,/position=7i,/created=1000i,/protocol="http",a=1,a/b=2 1000',
        'foreign,channel=f,publisher=p /index=0i,/position=8i,/created=2000i,/protocol="http",a//text="x",a=1,b//bool=true 2000',
      ]
      await site.connection.write(site.connection.bucket, await compress(lines.join('\n')))
      expect(await site.reader.read(pageQuery({ channel: 'f', format: 'foreign' }), signal)).toMatchObject([
        { position: 8n, payloadText: '{"a":1,"a//text":"x","b":true}' },
        { position: 7n, payloadText: '{"a":1,"a/b":2}' },
      ])
    })
  })
})
