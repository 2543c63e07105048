// What a query costs the store: rows that are looked at, and requests. And values at the ends of what can be stored.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openCassandraReader } from '../../../readers/cassandra/reader.ts'
import { keyOf, type PageQuery, type Row, type SenmlRow } from '../../../readers/reader.ts'
import { prepareIndexes } from '../../../sinks/cassandra/schema.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { formatsQuery, pageQuery } from '../../conformance/reader/index.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { type CassandraSite, openSite } from './site.ts'

const signal = new AbortController().signal
const startUs = Date.UTC(2026, 9, 1) * 1000
const dayUs = 86_400_000_000
const busyRows = 6_000
/** Six days of a thousand rows each. */
const busyUs = (nth: number): number => startUs + Math.floor((nth * 6 * dayUs) / busyRows)
const numbers = (rows: readonly Row[]): unknown[] => rows.map(row => (row as SenmlRow).value)

describeWithCassandra('the Cassandra reader', cassandra => {
  let site: CassandraSite
  let offset = 0

  beforeAll(async () => {
    site = await openSite(cassandra.contactPoint)
    await store('busy', busyRows, busyUs, nth => `p${nth % 50}`)
    // On the third day alone.
    await store(
      'busy',
      5,
      nth => startUs + 2 * dayUs + nth,
      () => 'rare',
    )
    await store(
      'seldom',
      400,
      nth => startUs - nth * 30 * dayUs,
      () => 'p',
    )
    await store(
      'gap',
      20,
      nth => startUs + (nth < 10 ? nth : 12 * 365 * dayUs + nth),
      () => 'p',
    )
  })
  afterAll(() => site.close())

  async function store(channel: string, count: number, timeUs: (nth: number) => number, publisher: (nth: number) => string): Promise<void> {
    const batch = new RecordBatch()
    const from = offset
    for (let nth = 0; nth < count; nth++) {
      batch.beginMessage({ at: logPartition(0, 0), offset: offset++, channel, subtopic: '', publisher: publisher(nth), protocol: 'http' })
      batch.appendRecord(0, 'n', undefined, timeUs(nth), ValueKind.number, nth, undefined, Number.NaN, Number.NaN)
      batch.endMessage()
    }
    batch.cover(logPartition(0, 0), from, offset)
    await site.store(batch)
  }

  async function costOf(query: Partial<PageQuery>): Promise<{ found: readonly Row[]; requests: number; rows: number }> {
    site.sent.length = 0
    const found = await site.reader.read(pageQuery(query), signal)
    return { found, requests: site.sent.length, rows: rowsSent() }
  }
  const rowsSent = (): number => site.sent.filter(({ cql }) => !cql.startsWith('SELECT day')).reduce((sum, { rows }) => sum + rows, 0)

  test('a page costs its rows and two requests, at any depth and in both directions', async () => {
    for (const direction of ['desc', 'asc'] as const) {
      const first = await costOf({ channel: 'busy', limit: 100, direction })
      expect([first.requests <= 3, first.rows]).toEqual([true, 100])
      const [row] = (await site.reader.read(pageQuery({ channel: 'busy', offset: 5_100, limit: 1, direction }), signal)) as [Row]
      const deep = await costOf({ channel: 'busy', limit: 100, after: keyOf(row), direction })
      expect([deep.requests <= 3, deep.rows, deep.found.length]).toEqual([true, 100, 100])
    }
  })

  test('the formats of a channel cost the newest rows, up to the limit', async () => {
    for (const [some, rows, hasMore] of [
      [{}, 500, [true]],
      // Two pages of everybody's, then the publisher's own by the index.
      [{ publisher: 'rare' }, 64 + 128 + 5, [false]],
      [{ fromUs: startUs + 6 * dayUs }, 0, []],
    ] as const) {
      site.sent.length = 0
      const found = await site.reader.formats(formatsQuery({ channel: 'busy', rowsMax: 500, ...some }), signal)
      expect(found.map(one => one.hasMore)).toEqual(hasMore)
      expect([rowsSent(), site.sent.length < 8]).toEqual([rows, true])
    }
  })

  test('one publisher of a busy channel costs its own rows, and two requests', async () => {
    const { found, rows, requests } = await costOf({ channel: 'busy', publisher: 'rare', limit: 10 })
    expect(numbers(found)).toEqual([4, 3, 2, 1, 0])
    expect([rows, requests]).toEqual([5, 2])
    const usual = await costOf({ channel: 'busy', publisher: 'p7', limit: 50 })
    expect(numbers(usual.found)).toEqual(Array.from({ length: 50 }, (_, nth) => 5_957 - 50 * nth))
    // Days of twenty rows each are read together.
    expect(usual.rows).toBeLessThan(110)
    const behind = await costOf({ channel: 'busy', publisher: 'p7', limit: 50, after: keyOf(usual.found.at(-1)!) })
    expect(numbers(behind.found)).toEqual(Array.from({ length: 50 }, (_, nth) => 3_457 - 50 * nth))
    const nobody = await costOf({ channel: 'busy', publisher: 'nobody' })
    expect([nobody.requests, nobody.rows]).toEqual([1, 0])
  })

  test('counts and filters for one publisher skip some rows of all, and continue with its own', async () => {
    site.sent.length = 0
    expect(await site.reader.count(pageQuery({ channel: 'busy', publisher: 'p7' }), 10_000, signal)).toBe(120)
    // A page of 64, the next one that was asked for meanwhile, and its own.
    expect(rowsSent()).toBeLessThanOrEqual(64 + 128 + 120)
    const filtered = await costOf({ channel: 'busy', publisher: 'p7', value: { comparator: 'lt', number: 60 }, limit: 10 })
    expect(numbers(filtered.found)).toEqual([57, 7])
    expect(filtered.rows).toBeLessThanOrEqual(64 + 128 + 120 + 2)
    const { groups } = await site.reader.latest(pageQuery({ channel: 'busy', publisher: 'p7' }), signal)
    expect(numbers(groups)).toEqual([5_957])
  })

  test('a publisher with most rows of a channel is counted without the index, which costs less for each row', async () => {
    site.sent.length = 0
    expect(await site.reader.count(pageQuery({ channel: 'seldom', publisher: 'p' }), 10_000, signal)).toBe(400)
    expect(site.sent.filter(({ cql }) => cql.includes('publisher = ? AND ('))).toEqual([])
  })

  test('without the index the days of the publisher are read by their keys, and only the rows of the page are read whole', async () => {
    const { connection } = site
    await connection.change(`DROP INDEX "${connection.keyspace}".messages_publisher_idx`)
    const { found } = await costOf({ channel: 'busy', publisher: 'rare', limit: 10 })
    expect(numbers(found)).toEqual([4, 3, 2, 1, 0])
    const rowsOf = (part: string): number => site.sent.filter(({ cql }) => cql.includes(part)).reduce((sum, { rows }) => sum + rows, 0)
    expect([rowsOf('ORDER BY "time_us"'), rowsOf(' IN (')]).toEqual([1_005, 5])
    for (const { cql } of site.sent.filter(({ cql }) => cql.includes('string_value'))) expect(cql).toMatch(/ IN | AND publisher = \? /)
    // A writer that starts makes it anew; nodes index what is there.
    await prepareIndexes(connection)
    const again = openCassandraReader({ connection, options: { queryTimeoutMs: 30_000 } })
    await expect.poll(() => again.read(pageQuery({ channel: 'busy', publisher: 'rare', limit: 10 }), signal)).toEqual(found)
  })

  test('time without rows costs nothing, and days with few rows are read together', async () => {
    const gap = await costOf({ channel: 'gap', limit: 15 })
    expect([gap.found.length, gap.rows <= 20, gap.requests]).toEqual([15, true, 3])
    const between = await costOf({ channel: 'gap', fromNs: BigInt(startUs + dayUs) * 1000n, toNs: BigInt(startUs + 2 * dayUs) * 1000n })
    // The days that the range may begin in, and ends on, are looked at.
    expect([between.found.length, between.rows, between.requests]).toEqual([0, 0, 3])
    const seldom = await costOf({ channel: 'seldom', limit: 300 })
    expect(seldom.found).toHaveLength(300)
    expect(seldom.rows).toBeLessThan(300 + 16)
  })

  test('a count reads no more rows than its limit, and only keys', async () => {
    site.sent.length = 0
    expect(await site.reader.count(pageQuery({ channel: 'busy' }), 1_500, signal)).toBe(1_501)
    expect(rowsSent()).toBeLessThanOrEqual(2_100)
    for (const { cql } of site.sent.filter(({ cql }) => !cql.startsWith('SELECT day'))) expect(cql).toMatch(/^SELECT "index" FROM/)
    expect(await site.reader.count(pageQuery({ channel: 'busy' }), Number.MAX_SAFE_INTEGER - 1, signal)).toBe(busyRows + 5)
  })

  test('values at the limits of what can be stored come back unchanged', async () => {
    const batch = new RecordBatch()
    const from = offset
    const long = '😀ä'.repeat(11_000)
    const values = [-0, 1e308, -1e308, 5e-324, long, '', Buffer.alloc(65_536, 0xfe), Buffer.alloc(0), true, false]
    batch.beginMessage({ at: logPartition(0, 0), offset: offset++, channel: 'ends', subtopic: '', publisher: 'ü', protocol: 'mqtt' })
    for (const [index, value] of values.entries()) {
      const kind =
        typeof value === 'number'
          ? ValueKind.number
          : typeof value === 'string'
            ? ValueKind.string
            : typeof value === 'boolean'
              ? ValueKind.boolean
              : ValueKind.data
      const content = typeof value === 'object' || typeof value === 'string' ? value : undefined
      const number = content === undefined ? Number(value) : Number.NaN
      batch.appendRecord(index, 'n', undefined, startUs, kind, number, content, index === 0 ? -0 : Number.NaN, index === 1 ? 0 : Number.NaN)
    }
    batch.endMessage()
    batch.beginMessage({ at: logPartition(0, 0), offset: offset++, channel: 'ends', subtopic: 'weather', publisher: 'p', protocol: 'http' })
    batch.appendDocument(0, 'weather', startUs, 999, { id: 9_223_372_036_854_775_807n, least: -9_223_372_036_854_775_808n, text: long })
    batch.endMessage()
    batch.cover(logPartition(0, 0), from, offset)
    await site.store(batch)
    const rows = (await site.reader.read(pageQuery({ channel: 'ends', direction: 'asc' }), signal)) as readonly SenmlRow[]
    const found = rows.map(({ value, stringValue, dataValue, boolValue }) => [value, stringValue, dataValue, boolValue])
    expect(found.map(some => some.filter(one => one !== undefined))).toEqual(values.map(value => [value]))
    expect(rows.map(({ sum, updateTime }) => [sum, updateTime]).slice(0, 3)).toEqual([
      [-0, undefined],
      [undefined, 0],
      [undefined, undefined],
    ])
    expect(rows.filter(row => row.stringValue === '' || row.boolValue === false)).toHaveLength(2)
    const [document] = await site.reader.read(pageQuery({ channel: 'ends', format: 'weather' }), signal)
    expect(document).toMatchObject({ createdNs: BigInt(startUs) * 1000n + 999n })
    expect((document as { payloadText: string }).payloadText).toBe(
      `{"id":9223372036854775807,"least":-9223372036854775808,"text":"${long}"}`,
    )
  })

  test('a format whose table was dropped has no rows, and the others still have theirs', async () => {
    const batch = new RecordBatch()
    const from = offset
    for (const format of ['lost', 'kept']) {
      batch.beginMessage({
        at: logPartition(0, 0),
        offset: offset++,
        channel: 'formats',
        subtopic: format,
        publisher: 'p',
        protocol: 'http',
      })
      batch.appendDocument(0, format, startUs, 0, { a: 1 })
      batch.endMessage()
    }
    batch.cover(logPartition(0, 0), from, offset)
    await site.store(batch)
    const read = (format: string) => site.reader.read(pageQuery({ channel: 'formats', format }), signal)
    expect([(await read('lost')).length, (await read('kept')).length]).toEqual([1, 1])
    await site.connection.change(`DROP TABLE ${site.connection.table('lost')}`)
    expect([(await read('lost')).length, (await read('kept')).length]).toEqual([0, 1])
    expect(await site.reader.latest(pageQuery({ channel: 'formats', format: 'lost' }), signal)).toEqual({ groups: [], total: 0 })
  })
})
