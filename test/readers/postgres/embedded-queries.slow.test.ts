// Queries to the embedded database in pieces: the same answers, and no statement that looks at more than a piece.

import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Asking, Database, SqlRow, SqlValue } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { embeddedQueries, type Run } from '../../../readers/postgres/embedded-queries.ts'
import { openPostgresReader } from '../../../readers/postgres/reader.ts'
import { selectPieceBuckets, selectPieceEnd, selectPieceSeries } from '../../../readers/postgres/select-pieces.ts'
import {
  type AggregateQuery,
  type Aggregation,
  keyOf,
  type PageQuery,
  QueryTooLargeError,
  type Reader,
  type SenmlRow,
} from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { aggregateQuery, pageQuery, readerConformance } from '../../conformance/reader/index.ts'
import type { StoredRow } from '../../conformance/reader/oracle.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { openOracleReader } from '../oracle-reader.ts'
import { isOfRecords, lookedAt } from './plans.ts'
import { openEmbeddedSite, openSite, type PostgresSite } from './site.ts'
import { insertRecords, scopeOf } from './stored-rows.ts'

const { signal } = new AbortController()
const channel = 'c'
const dayUs = 86_400_000_000
const startUs = Date.UTC(2026, 9, 31, 20) * 1000

describe('in pieces of three rows', () => {
  readerConformance(() => openEmbeddedSite({ pieceRowsMax: 3 }))
})

/** Few series at few instants, so that many rows lie at one, also of one series; sums of the values are exact. */
const rows: readonly StoredRow[] = Array.from({ length: 300 }, (_, offset) => {
  const nth = (offset * 7919) % 300
  const row: SenmlRow = {
    kind: 'senml',
    channel,
    subtopic: ['', 'a', 'a.b'][nth % 3]!,
    publisher: ['p', 'q'][nth % 2]!,
    protocol: 'http',
    position: (1n << 56n) | BigInt(offset),
    index: 0,
    name: ['n', 'm'][Math.floor(nth / 7) % 2]!,
    unit: nth % 5 === 0 ? undefined : 'W',
    timeUs: startUs + (nth < 60 ? 0 : Math.floor(nth / 9)) * 600_000_001,
    value: nth % 11 === 0 ? undefined : ((nth * 37) % 64) / 8 - 4,
    stringValue: nth % 11 === 0 ? 'text' : undefined,
    boolValue: undefined,
    dataValue: undefined,
    sum: undefined,
    updateTime: undefined,
  }
  return { format: 'messages', row }
})

function batch(): RecordBatch {
  const stored = new RecordBatch()
  for (const [offset, { row }] of rows.entries()) {
    const { subtopic, publisher, name, unit, timeUs, value = Number.NaN, stringValue } = row as SenmlRow
    stored.beginMessage({ at: logPartition(0, 0), offset, channel, subtopic, publisher, protocol: 'http' })
    const kind = stringValue === undefined ? ValueKind.number : ValueKind.string
    stored.appendRecord(0, name, unit, timeUs, kind, value, stringValue, Number.NaN, Number.NaN)
    stored.endMessage()
  }
  stored.cover(logPartition(0, 0), 0, rows.length)
  return stored
}

const filter = fc.record(
  {
    publisher: fc.constantFrom('p', 'q', 'nobody'),
    subtopic: fc.constantFrom('', 'a', 'nowhere'),
    name: fc.constantFrom('n', 'nothing'),
    unit: fc.constantFrom('', 'W'),
    value: fc.record({ comparator: fc.constantFrom('lt' as const, 'ge' as const), number: fc.integer({ min: -4, max: 4 }) }),
    fromNs: fc.integer({ min: -1, max: 40 }).map(at => BigInt(startUs + at * 600_000_001) * 1000n),
    toNs: fc.integer({ min: -1, max: 40 }).map(at => BigInt(startUs + at * 600_000_001) * 1000n),
    direction: fc.constantFrom('asc' as const, 'desc' as const),
    limit: fc.integer({ min: 1, max: 400 }),
  },
  { requiredKeys: ['direction', 'limit'] },
)
const start = fc.oneof(
  fc.record({ offset: fc.integer({ min: 0, max: 320 }) }),
  fc.constantFrom(...rows).map(({ row }) => ({ after: keyOf(row) })),
)
const aggregations: readonly Aggregation[] = ['min', 'max', 'avg', 'sum', 'count', 'first', 'last']

/** Random queries, each answered as by the plainest reader, to the last bit. */
function expectOracle(open: () => Promise<PostgresSite>): void {
  const oracle = openOracleReader(rows)
  let site: PostgresSite
  beforeAll(async () => {
    site = await open()
    await site.store(batch())
  })
  afterAll(() => site.close())
  const same = async (ask: (reader: Reader) => Promise<unknown>): Promise<void> => {
    expect(await ask(site.reader)).toEqual(await ask(oracle))
  }

  test('pages and counts', async () => {
    const page = fc.tuple(filter, start).map(([one, at]): PageQuery => pageQuery({ channel, ...one, ...at }))
    await fc.assert(
      fc.asyncProperty(page, fc.constantFrom(0, 5, 50, 1e6), async (query, max) => {
        await same(reader => reader.read(query, signal))
        await same(reader => reader.count(query, max, signal))
      }),
      { numRuns: 60 },
    )
  })

  test('the newest of each series', async () => {
    const page = fc.tuple(filter, start).map(([one, at]) => pageQuery({ channel, ...one, ...at }))
    await fc.assert(
      fc.asyncProperty(page, query => same(reader => reader.latest(query, signal))),
      { numRuns: 40 },
    )
  })

  test.each(aggregations)('buckets: %s', async aggregation => {
    const query = fc
      .tuple(filter, fc.integer({ min: 0, max: 100 }), fc.constantFrom(60_000_000, 3_600_000_000, 86_400_000_000))
      .map(([one, offset, intervalUs]): AggregateQuery => aggregateQuery({ channel, ...one, aggregation, offset, intervalUs }))
    await fc.assert(
      fc.asyncProperty(query, one => same(reader => reader.aggregate(one, signal))),
      { numRuns: 15 },
    )
  })
}

describe('many rows with the same time, in pieces of seven', () => {
  expectOracle(() => openEmbeddedSite({ pieceRowsMax: 7 }))
})

describe('many rows with the same time, in pieces of the usual size', () => {
  expectOracle(() => openEmbeddedSite())
})

describeWithPostgres('many rows with the same time, on a server', postgres => {
  expectOracle(async () =>
    openSite(
      await openServer({ url: await postgres.createDatabase(), applicationName: 'reader-test', connectionsMax: 2, plansEach: true }),
      async () => undefined,
    ),
  )
})

const columns = 'time, channel, subtopic, publisher, protocol, name, value, position, index'

describe('with 3,000 rows', () => {
  let site: PostgresSite
  beforeAll(async () => {
    site = await openEmbeddedSite()
    await insertRecords(
      site.database,
      columns,
      `SELECT timestamptz '2026-10-20Z' + n * interval '10 minutes', '${channel}', '', CASE n % 30 WHEN 0 THEN 'rare' ELSE 'p' END, 'http', 'n' || n % 5,
         n, n, 0 FROM generate_series(1, 3000) AS n`,
    )
    await site.database.execute('VACUUM ANALYZE')
  })
  afterAll(() => site.close())

  /** A reader over the database, and what each of its statements is given to. */
  function watched(
    onStatement: (sql: string, values: readonly SqlValue[], asking: Asking) => Promise<void> | void,
    parts: { queryTimeoutMs?: number } = {},
  ) {
    const database: Database = {
      ...site.database,
      async query<Row extends SqlRow>(sql: string, values: readonly SqlValue[] = [], asking: Asking = {}) {
        await onStatement(sql, values, asking)
        return await site.database.query<Row>(sql, values, asking)
      },
    }
    return openPostgresReader({ database, pieceRowsMax: 100, ...parts })
  }

  const nothing = { channel, stringValue: 'nothing' }
  const queries: [what: string, ask: (reader: Reader) => Promise<unknown>][] = [
    ['a page that a filter leaves nothing of', reader => reader.read(pageQuery({ ...nothing, limit: 10 }), signal)],
    ['a page behind an offset', reader => reader.read(pageQuery({ channel, offset: 2_000, limit: 10 }), signal)],
    ['a count', reader => reader.count(pageQuery({ channel }), 1e9, signal)],
    ['a count of one publisher', reader => reader.count(pageQuery({ channel, publisher: 'p' }), 1e9, signal)],
    ['a count that a filter leaves nothing of', reader => reader.count(pageQuery(nothing), 10, signal)],
    ['the newest of each series', reader => reader.latest(pageQuery({ channel, limit: 10 }), signal)],
    ...aggregations.map((aggregation): (typeof queries)[number] => [
      `buckets: ${aggregation}`,
      reader => reader.aggregate(aggregateQuery({ channel, aggregation, intervalUs: 86_400_000_000 }), signal),
    ]),
  ]
  test.each(queries)('no statement reads more than a piece, and others run between two: %s', async (_what, ask) => {
    const looked: number[] = []
    const priorities = new Set<Asking['priority']>()
    const reader = watched(async (sql, values, { priority }) => {
      priorities.add(priority)
      looked.push(await lookedAt(site.database, sql, values, isOfRecords))
    })
    expect(await ask(reader)).toEqual(await ask(site.reader))
    // To find the first or last value of buckets, a piece is looked at twice.
    expect(Math.max(...looked)).toBeLessThanOrEqual(200)
    expect(looked.length).toBeGreaterThan(10)
    expect(priorities).toEqual(new Set(['reader']))
  })

  test('a query that takes too long ends between two pieces and says what to narrow; the next is answered', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const queryTimeoutMs = 60_000
    let asked = 0
    // The time of the query is over with its fourth statement.
    const reader = watched(() => void (++asked === 4 && vi.advanceTimersByTime(queryTimeoutMs)), { queryTimeoutMs })
    await expect(reader.aggregate(aggregateQuery({ channel, aggregation: 'first' }), signal)).rejects.toThrow(
      new QueryTooLargeError('the query exceeded the time limit of the store: narrow it with name, publisher, from or to'),
    )
    expect(asked).toBe(4)
    expect(await reader.read(pageQuery({ channel, limit: 3 }), signal)).toHaveLength(3)
  })

  test('a caller that goes away ends the query between two pieces', async () => {
    const going = new AbortController()
    let asked = 0
    const reader = watched(() => {
      if (++asked === 5) going.abort(new Error('gone'))
    })
    await expect(reader.latest(pageQuery({ channel }), going.signal)).rejects.toThrow('gone')
    expect(asked).toBe(5)
  })

  test('queries take turns, and a short one does not wait for a long one', async () => {
    let asked = 0
    const reader = watched(() => void asked++)
    const long = reader.count(pageQuery({ channel }), 1e9, signal)
    await reader.count(
      pageQuery({ ...nothing, fromNs: BigInt(Date.UTC(2026, 9, 21)) * 1_000_000n, toNs: BigInt(Date.UTC(2026, 9, 22)) * 1_000_000n }),
      10,
      signal,
    )
    const before = asked
    await long
    expect(asked).toBeGreaterThan(3 * before)
  })
})

describe('large names after many small ones', () => {
  const largeCharacters = 20_000
  let site: PostgresSite
  beforeAll(async () => {
    site = await openEmbeddedSite()
    const insert = (name: string, nth: string): Promise<void> =>
      insertRecords(
        site.database,
        columns,
        `SELECT timestamptz '2026-10-20Z' + n * interval '1 second', '${channel}', '', 'p', 'http', ${name}, n, n, 0 FROM generate_series(${nth}) AS n`,
      )
    await insert(`'n' || n % 5`, '1001, 4000')
    await insert(`'large' || n % 500 || repeat('x', ${largeCharacters - 8})`, '1, 1000')
  })
  afterAll(() => site.close())

  const series = 505
  test.each<[what: string, ask: (reader: Reader) => Promise<{ length: number } | { total: number }>, found: object]>([
    ['the newest of each series', reader => reader.latest(pageQuery({ channel, limit: 10 }), signal), { total: series }],
    [
      'buckets: avg',
      reader => reader.aggregate(aggregateQuery({ channel, aggregation: 'avg', intervalUs: dayUs }), signal),
      { total: series },
    ],
    [
      'buckets: first',
      reader => reader.aggregate(aggregateQuery({ channel, aggregation: 'first', intervalUs: dayUs }), signal),
      { total: series },
    ],
    ['a page', reader => reader.read(pageQuery({ channel, offset: 3_000, limit: 1_000 }), signal), { length: 1_000 }],
  ])('no statement returns much more than a megabyte: %s', async (_what, ask, found) => {
    const given: number[] = []
    const database: Database = {
      ...site.database,
      async query<Row extends SqlRow>(sql: string, values: readonly SqlValue[] = [], asking: Asking = {}) {
        const rows = await site.database.query<Row>(sql, values, asking)
        given.push(
          rows.flatMap(row => Object.values(row)).reduce<number>((sum, value) => sum + (typeof value === 'string' ? value.length : 0), 0),
        )
        return rows
      },
    }
    expect(await ask(openPostgresReader({ database }))).toMatchObject(found)
    expect(Math.max(...given)).toBeLessThan(1.25 * 1024 * 1024)
    expect(Math.max(...given)).toBeGreaterThan(10 * largeCharacters)
  })
})

test.each([
  ['records', `'n' || n % 5`, 50_000],
  ['bytes of names', `repeat('x', 20000)`, 250],
])('too many %s with the same time are not grouped, but can be read', async (_what, name, rows) => {
  const site = await openEmbeddedSite()
  onTestFinished(() => site.close())
  const select = `SELECT timestamptz '2026-10-20Z', '${channel}', '', 'p', 'http', ${name}, n, n, 0 FROM generate_series(1, ${rows}) AS n`
  await insertRecords(site.database, columns, select)
  const { reader } = site
  const refused = new QueryTooLargeError(
    'at least 50000 records, or records with 4194304 bytes of names, have the same time, 2026-10-20T00:00:00.000Z: narrow the query with publisher, from or to',
  )
  const inFew = openPostgresReader({ database: site.database, pieceRowsMax: 100 })
  for (const one of [reader, inFew]) {
    await expect(one.aggregate(aggregateQuery({ channel, aggregation: 'first' }), signal)).rejects.toThrow(refused)
    await expect(one.latest(pageQuery({ channel }), signal)).rejects.toThrow(refused)
    expect(await one.read(pageQuery({ channel, limit: 3 }), signal)).toHaveLength(3)
    expect(await one.count(pageQuery({ channel }), 1e9, signal)).toBe(rows)
  }
  const before = pageQuery({ channel, toNs: BigInt(Date.UTC(2026, 9, 20)) * 1_000_000n })
  expect(await reader.latest(before, signal)).toEqual({ groups: [], total: 0 })
})

test('a piece of a table without statistics is read once', async () => {
  const site = await openEmbeddedSite()
  onTestFinished(() => site.close())
  const rows = 1_000
  await insertRecords(
    site.database,
    columns,
    `SELECT timestamptz '2026-10-20Z' + n * interval '1 second', '${channel}', '', 'p', 'http', 'n' || n, n, n, 0 FROM generate_series(1, ${rows}) AS n`,
  )
  const query = pageQuery({ channel })
  const scope = await scopeOf(site.database, query)
  for (const { sql, values } of [
    selectPieceSeries(query, scope),
    selectPieceBuckets(aggregateQuery({ channel, aggregation: 'first' }), scope, rows),
    selectPieceBuckets(aggregateQuery({ channel, aggregation: 'avg' }), scope, rows),
    selectPieceEnd(query, 'desc', scope, { rows, bytes: Number.MAX_SAFE_INTEGER }),
  ]) {
    expect(await lookedAt(site.database, sql, values, isOfRecords)).toBe(rows)
    // In addition, each series is looked up once.
    expect(await lookedAt(site.database, sql, values)).toBeLessThanOrEqual(2 * rows)
  }
})

test('the size of pieces follows from the time that the database works, not from waiting times', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const sizes: number[] = []
  const run: Run = async <Columns extends SqlRow>(
    { sql, values }: { sql: string; values: readonly SqlValue[] },
    _signal: AbortSignal,
    onTurn?: () => void,
  ) => {
    vi.advanceTimersByTime(1_000)
    onTurn?.()
    vi.advanceTimersByTime(5)
    if (sql.includes('count(*)')) return [{ total: 0n }] as SqlRow[] as Columns[]
    sizes.push(Number(values.at(-2)))
    return (sizes.length === 5 ? [] : [{ time: 0n }]) as SqlRow[] as Columns[]
  }
  await embeddedQueries(run).count(pageQuery({ channel }), { channel: 1, series: undefined }, 1e9, signal)
  expect(sizes).toEqual([1_000, 2_000, 4_000, 8_000, 10_000])
})

test("a query that waits for another's piece ends at once when it is aborted", async () => {
  const held = Promise.withResolvers<never[]>()
  const queries = embeddedQueries(() => held.promise)
  const long = queries.count(pageQuery({ channel }), { channel: 1, series: undefined }, 1e9, signal)
  const going = new AbortController()
  const waiting = queries.count(pageQuery({ channel }), { channel: 1, series: undefined }, 1e9, going.signal)
  going.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
  held.reject(new Error('held'))
  await expect(long).rejects.toThrow('held')
})
