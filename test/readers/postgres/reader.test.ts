// The PostgreSQL reader, embedded: what every reader promises, and what this one does beside. On a server: `server.slow.test.ts`.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Database, DatabaseError } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import type { RecordScope, Statement } from '../../../readers/postgres/conditions.ts'
import { openPostgresReader } from '../../../readers/postgres/reader.ts'
import { selectCount, selectFilled, selectPage, selectSubtopics } from '../../../readers/postgres/select.ts'
import { selectBuckets, selectLatest } from '../../../readers/postgres/select-groups.ts'
import { type PageQuery, QueryTooLargeError, type Reader, type Row, StoreUnavailableError, senmlFormat } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { aggregateQuery, formatsQuery, pageQuery, readerConformance } from '../../conformance/reader/index.ts'
import { openFreshEmbedded } from '../../servers/embedded.ts'
import { addFormat } from '../../sinks/postgres/store.ts'
import { isOfRecords, lookedAt } from './plans.ts'
import { openEmbeddedSite, type PostgresSite } from './site.ts'
import { insertRecords, scopeOf } from './stored-rows.ts'

const signal = new AbortController().signal

describe('embedded', () => {
  readerConformance(() => openEmbeddedSite())
})

test('if nothing listens, the store is unavailable', async () => {
  const database = await openServer({ url: 'postgres://u:p@127.0.0.1:1/x', applicationName: 'reader-test', connectionsMax: 1 })
  const reader = openPostgresReader({ database })
  await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
  await expect(readAll(reader, undefined)).rejects.toBeInstanceOf(StoreUnavailableError)
  await database.close()
})

describe('in addition', () => {
  let site: PostgresSite
  beforeAll(async () => {
    site = await openEmbeddedSite()
  })
  afterAll(() => site.close())

  test('before the first writer there is no schema, and the error says so', async () => {
    const database = await openFreshEmbedded()
    const reader = openPostgresReader({ database })
    for (const format of [senmlFormat, 'weather']) {
      const query = pageQuery({ channel: 'c', format, limit: 1 })
      await expect(reader.read(query, signal)).rejects.toThrow(/start a writer/)
    }
    await expect(reader.formats(formatsQuery(), signal)).rejects.toThrow(/start a writer/)
    await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
    await database.close()
  })

  test('a format whose table was dropped is looked up again, and is listed if its table exists and may be read', async () => {
    const batch = new RecordBatch()
    batch.beginMessage({ at: logPartition(0, 5), offset: 0, channel: 'd', subtopic: 'weather', publisher: 'p', protocol: 'http' })
    batch.appendDocument(0, 'weather', 1_700_000_000_000_000, 0, { a: 1 })
    batch.endMessage()
    batch.cover(logPartition(0, 5), 0, 1)
    await site.store(batch)
    const query = pageQuery({ channel: 'd', format: 'weather', limit: 10 })
    expect(await site.reader.read(query, signal)).toHaveLength(1)

    await site.database.execute(`CREATE ROLE limited; GRANT USAGE ON SCHEMA sluice, formats TO limited;
      GRANT SELECT ON sluice.formats, sluice.records, sluice.series, sluice.channels TO limited; SET ROLE limited`)
    expect(await site.reader.formats(formatsQuery({ channel: 'd' }), signal)).toEqual([])
    await site.database.execute('RESET ROLE')
    const [table] = await site.database.query<{ table_name: string }>("SELECT table_name FROM sluice.formats WHERE format = 'weather'")
    await site.database.execute(
      `ALTER TABLE formats."${table!.table_name}" RENAME TO elsewhere; UPDATE sluice.formats SET table_name = 'elsewhere'`,
    )
    expect(await site.reader.read(query, signal)).toHaveLength(1)

    expect(await site.reader.formats(formatsQuery({ channel: 'd' }), signal)).toMatchObject([{ format: 'weather' }])
    await site.database.execute('DROP TABLE formats.elsewhere')
    expect(await site.reader.formats(formatsQuery({ channel: 'd' }), signal)).toEqual([])
    await site.database.execute('DELETE FROM sluice.formats')
    expect(await site.reader.read(query, signal)).toEqual([])
  })

  test('a sum beyond the range of a double is computed in this process, without an error', async () => {
    const batch = new RecordBatch()
    for (const [offset, value] of [1e308, 1e308, -1e308].entries()) {
      batch.beginMessage({ at: logPartition(0, 6), offset, channel: 'sums', subtopic: '', publisher: 'p', protocol: 'http' })
      batch.appendRecord(0, 'n', undefined, 1_700_000_000_000_000 + offset, 1, value, undefined, Number.NaN, Number.NaN)
      batch.endMessage()
    }
    batch.cover(logPartition(0, 6), 0, 3)
    await site.store(batch)
    const { groups } = await site.reader.aggregate(aggregateQuery({ channel: 'sums', aggregation: 'sum' }), signal)
    expect(groups.map(({ value, count }) => [value, count])).toEqual([[expect.any(Number), 3]])
  })

  test('such a sum takes no longer than one query may, however many rows there are', async () => {
    const overflow = new DatabaseError('value out of range: overflow', { sqlState: '22003', cause: undefined })
    const row = { position: 1n, index: 0, subtopic: '', publisher: 'p', protocol: 'http', name: 'n', unit: null, time_us: 0n, value: 1 }
    const database = {
      ...site.database,
      kind: 'server',
      query: async (sql: string) => {
        if (sql.includes('grouped')) throw overflow
        await new Promise(resolve => setImmediate(resolve))
        return Array.from({ length: 1000 }, () => row)
      },
    } as Database
    const endless = openPostgresReader({ database, queryTimeoutMs: 100 })
    await expect(endless.aggregate(aggregateQuery({ aggregation: 'sum' }), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
  })

  test('the look-up of numbers counts towards the time of a query', async () => {
    const untilAborted: Database['query'] = (_sql, _values, asking) =>
      new Promise((_resolve, reject) => {
        asking!.signal!.addEventListener('abort', () => reject(asking!.signal!.reason))
      })
    const slow = openPostgresReader({ database: { ...site.database, query: untilAborted }, queryTimeoutMs: 50 })
    await expect(slow.read(pageQuery(), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
    await expect(slow.aggregate(aggregateQuery(), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
    await expect(slow.read(pageQuery({ format: 'weather' }), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
  })

  test('a statement that takes longer than one query may is too large', async () => {
    const database = {
      ...site.database,
      query: () => site.database.query("DO $$ BEGIN RAISE EXCEPTION SQLSTATE '57014'; END $$"),
    } as Database
    const slow = openPostgresReader({ database })
    await expect(slow.read(pageQuery(), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
    await expect(slow.formats(formatsQuery(), signal)).rejects.toBeInstanceOf(QueryTooLargeError)
  })
})

describe('of one publisher', () => {
  const columns = 'time, channel, subtopic, publisher, protocol, name, value, position, index'
  const ns = 1_000_000_000n
  const startNs = BigInt(Date.UTC(2026, 9, 1)) * 1_000_000n
  const rare = { channel: 'busy', publisher: 'rare' }
  let site: PostgresSite
  beforeAll(async () => {
    site = await openEmbeddedSite()
    const times = `timestamptz '2026-10-01Z' + n * interval '1 second'`
    await insertRecords(
      site.database,
      columns,
      `SELECT ${times}, 'busy', '', CASE n % 1000 WHEN 0 THEN 'rare' ELSE 'other' END, 'http', 'n', n, n, 0 FROM generate_series(1, 40000) AS n
       UNION ALL SELECT ${times}, 'another', '', 'rare', 'http', 'n', n, n, 0 FROM generate_series(1, 40000) AS n`,
    )
    await site.database.execute('ANALYZE')
  })
  afterAll(() => site.close())

  test('the formats of a channel cost the newest rows of each, and one look at each other format', async () => {
    const query = formatsQuery({ channel: 'busy', rowsMax: 500 })
    expect(await site.reader.formats(query, signal)).toMatchObject([{ format: senmlFormat, hasMore: true }])
    expect(await site.reader.formats({ ...query, rowsMax: 40_001 }, signal)).toMatchObject([{ format: senmlFormat, hasMore: false }])
    // Nearly all of the table is of the channel, and before the asked time.
    await addFormat(site.database, 'old')
    await site.database.execute(
      `INSERT INTO formats.old SELECT n, 'busy', 'old', 'p', 'http', '{}', n, 0 FROM generate_series(1, 20000) AS n; ANALYZE`,
    )
    const whole = pageQuery({ channel: 'busy' })
    const newest = selectSubtopics(whole, await scopeOf(site.database, whole), query)
    for (const [statement, most] of [
      [newest, 500],
      [selectFilled({ ...query, fromUs: 10 }, ['old']), 1],
      [selectFilled({ ...query, fromUs: 21 }, ['old']), 0],
    ] as const) {
      const [plan] = await site.database.query<{ 'QUERY PLAN': string }>(
        `EXPLAIN (ANALYZE, FORMAT JSON, TIMING off) ${statement.sql}`,
        statement.values,
      )
      const rows = [...plan!['QUERY PLAN'].matchAll(/"Actual Rows": (\d+)/g)].map(([, count]) => Number(count))
      expect(Math.max(...rows)).toBe(most)
      // The table of series is so small that it is read as a whole.
      expect(await passedOver(statement)).toBeLessThan(5)
    }
  })

  /** How many rows a statement looks at that it does not want. */
  async function passedOver({ sql, values }: Statement): Promise<number> {
    const [plan] = await site.database.query<{ 'QUERY PLAN': string }>(`EXPLAIN (ANALYZE, FORMAT JSON, TIMING off) ${sql}`, values)
    const removed = [...plan!['QUERY PLAN'].matchAll(/"Rows Removed by (?:Filter|Index Recheck)": (\d+)/g)]
    return removed.reduce((sum, [, rows]) => sum + Number(rows), 0)
  }
  const valuesOf = (rows: readonly Row[]) => rows.map(row => (row.kind === 'senml' ? (row.value ?? 0) / 1000 : undefined))

  test('no rows of others are read: page, count, newest and aggregation', async () => {
    const bounds = { ...rare, fromNs: startNs + 10_000n * ns, toNs: startNs + 20_000n * ns }
    const page = pageQuery({ ...bounds, limit: 5 })
    const buckets = aggregateQuery({ ...bounds, aggregation: 'count', intervalUs: 86_400_000_000 })
    expect(valuesOf(await site.reader.read(page, signal))).toEqual([19, 18, 17, 16, 15])
    expect(await site.reader.count(page, 100, signal)).toBe(10)
    expect((await site.reader.latest(page, signal)).total).toBe(1)
    expect((await site.reader.aggregate(buckets, signal)).groups.map(({ value }) => value)).toEqual([10])
    const scope = await scopeOf(site.database, page)
    for (const statement of [
      selectPage(page, scope),
      selectPage(pageQuery({ ...rare, limit: 5 }), scope),
      selectCount(page, scope, 100),
      selectLatest(page, scope, 100),
      selectBuckets(buckets, scope, 100),
      selectBuckets({ ...buckets, aggregation: 'first' }, scope, 100),
      selectSubtopics(page, scope, { rowsMax: 100, subtopicsMax: 10 }),
    ])
      expect(await passedOver(statement)).toBeLessThan(10)
    // Of the whole channel all are looked at.
    const others = pageQuery({ channel: 'busy', subtopic: 'x' })
    const { channel } = await scopeOf(site.database, others)
    expect(await passedOver(selectCount(others, { channel, series: undefined }, 100))).toBeGreaterThan(30_000)
  })

  const busy = { channel: 'busy' }
  const hour = { fromNs: startNs + 18_000n * ns, toNs: startNs + 21_600n * ns }
  const hourly = (filter: Partial<PageQuery>) => aggregateQuery({ ...filter, aggregation: 'avg', intervalUs: 3_600_000_000 })
  test.each<[what: string, filter: Partial<PageQuery>, most: number, select: (query: PageQuery, scope: RecordScope) => Statement]>([
    ['a page of a channel', { ...busy, limit: 10 }, 15, selectPage],
    ['a page of a thing', { ...rare, limit: 5 }, 10, selectPage],
    ['a page of a name', { ...busy, name: 'n', limit: 5 }, 15, selectPage],
    ['one name of a thing in an hour', { ...rare, ...hour, name: 'n', limit: 100 }, 10, selectPage],
    ['a count of a thing in an hour', { ...rare, ...hour }, 10, (query, scope) => selectCount(query, scope, 1e6)],
    ['hourly means of a thing', rare, 50, (_query, scope) => selectBuckets(hourly(rare), scope, 1e5)],
    [
      `hourly means of a channel's hour`,
      { ...busy, ...hour },
      3_700,
      (_query, scope) => selectBuckets(hourly({ ...busy, ...hour }), scope, 1e5),
    ],
    ['the newest of each series of a channel', { ...busy, limit: 10 }, 10, (query, scope) => selectLatest(query, scope, 1e5)],
  ])('a server reads few rows besides those of the answer: %s', async (_what, filter, most, select) => {
    const query = pageQuery(filter)
    const { sql, values } = select(query, await scopeOf(site.database, query))
    const looked = await lookedAt(site.database, sql, values, isOfRecords)
    expect(looked).toBeLessThanOrEqual(most)
    expect(looked).toBeGreaterThan(0)
  })

  test.each(['desc', 'asc'] as const)('a page in the middle reads nothing before it: %s', async direction => {
    const after = { timeNs: startNs + 20_000n * ns, position: 20_000n, index: 0 }
    const query = pageQuery({ ...rare, limit: 5, direction, after })
    const expected = direction === 'desc' ? [19, 18, 17, 16, 15] : [21, 22, 23, 24, 25]
    expect(valuesOf(await site.reader.read(query, signal))).toEqual(expected)
    expect(await passedOver(selectPage(query, await scopeOf(site.database, query)))).toBeLessThan(10)
  })

  test('bounds before 1970, and between microseconds, are exact', async () => {
    const before = { channel: 'ancient', publisher: 'p' }
    const dayNs = 86_400n * ns
    await insertRecords(
      site.database,
      columns,
      `SELECT timestamptz 'epoch' - interval '1 microsecond' - n * interval '1 day', 'ancient', '', 'p', 'http', 'n', n * 1000, n, 0
       FROM generate_series(0, 2) AS n`,
    )
    const found = async (more: Partial<PageQuery>) => valuesOf(await site.reader.read(pageQuery({ ...before, ...more }), signal))
    expect(await found({ fromNs: -1000n })).toEqual([0])
    expect(await found({ fromNs: -999n })).toEqual([])
    expect(await found({ toNs: -1000n })).toEqual([1, 2])
    expect(await found({ toNs: -999n })).toEqual([0, 1, 2])
    expect(await found({ toNs: 0n, fromNs: -dayNs - 1000n })).toEqual([0, 1])
    expect(await found({ after: { timeNs: -1000n, position: 0n, index: 0 } })).toEqual([1, 2])
    expect(await found({ after: { timeNs: -dayNs, position: 0n, index: 0 }, direction: 'asc' })).toEqual([0])
    expect(await found({ fromNs: -(2n ** 63n) + 1n, toNs: 2n ** 63n - 1n })).toEqual([0, 1, 2])
  })
})

async function readAll(reader: Reader, publisher: string | undefined) {
  return await reader.read(pageQuery({ channel: 'c', publisher }), signal)
}
