// The same answers however records are stored: with the number of a series, in the rest of their thing, or some so and some so. A publisher, subtopic
// and name here is in several series, since its records have several protocols and units.

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Asking, Database, SqlRow, SqlValue } from '../../../database/database.ts'
import { openPostgresReader } from '../../../readers/postgres/reader.ts'
import { type Aggregation, type Filter, keyOf, type Reader, type SenmlRow, senmlFormat } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'
import type { StoredRow } from '../../conformance/reader/oracle.ts'
import { openOracleReader } from '../oracle-reader.ts'
import { isOfRecords, lookedAt } from './plans.ts'
import { openEmbeddedSite, type PostgresSite } from './site.ts'
import { insertRecords } from './stored-rows.ts'

const { signal } = new AbortController()
const channel = 'c'
const startUs = Date.UTC(2026, 9, 31, 20) * 1000
const stepUs = 600_000_001

/** Few groups at few times, so that many rows have the same time; sums of the values are exact. */
const rows: readonly StoredRow[] = Array.from({ length: 160 }, (_, offset) => {
  const nth = (offset * 7919) % 160
  const row: SenmlRow = {
    kind: 'senml',
    channel: nth % 40 === 39 ? 'other' : channel,
    subtopic: ['', 'a', 'a.b'][nth % 3]!,
    publisher: ['p', 'q'][nth % 2]!,
    protocol: ['http', 'mqtt', 'coap'][Math.floor(nth / 5) % 3]!,
    position: (1n << 56n) | BigInt(offset),
    index: 0,
    name: ['n', 'm', 'ö'][Math.floor(nth / 7) % 3]!,
    unit: [undefined, 'W', 'Cel'][Math.floor(nth / 11) % 3],
    timeUs: startUs + (nth < 40 ? 0 : Math.floor(nth / 9)) * stepUs,
    value: nth % 13 === 0 ? undefined : ((nth * 37) % 64) / 8 - 4,
    stringValue: nth % 13 === 0 ? 'text' : undefined,
    boolValue: undefined,
    dataValue: undefined,
    sum: undefined,
    updateTime: undefined,
  }
  return { format: senmlFormat, row }
})

function batch(): RecordBatch {
  const stored = new RecordBatch()
  for (const [offset, { row }] of rows.entries()) {
    const { name, unit, timeUs, value = Number.NaN, stringValue, subtopic, publisher, protocol } = row as SenmlRow
    stored.beginMessage({ at: logPartition(0, 0), offset, channel: row.channel, subtopic, publisher, protocol })
    const kind = stringValue === undefined ? ValueKind.number : ValueKind.string
    stored.appendRecord(0, name, unit, timeUs, kind, value, stringValue, Number.NaN, Number.NaN)
    stored.endMessage()
  }
  stored.cover(logPartition(0, 0), 0, rows.length)
  return stored
}

const filters: readonly Partial<Filter>[] = [
  {},
  { publisher: 'p' },
  { publisher: 'nobody' },
  { publisher: 'q', name: 'n' },
  { publisher: 'q', name: 'n', unit: 'W', subtopic: 'a', protocol: 'http' },
  { name: 'ö' },
  { name: 'nothing' },
  { unit: '' },
  { unit: 'Cel', publisher: 'p' },
  { subtopic: '' },
  { subtopic: 'a.b', unit: '' },
  { protocol: 'mqtt' },
  { value: { comparator: 'lt', number: 0 }, publisher: 'p' },
  { stringValue: 'text', name: 'm' },
  { fromNs: BigInt(startUs) * 1000n, toNs: BigInt(startUs + 12 * stepUs) * 1000n, publisher: 'q' },
  { fromNs: BigInt(startUs + stepUs) * 1000n, name: 'm' },
]

const after = keyOf(rows[70]!.row)
const aggregations: readonly Aggregation[] = ['max', 'avg', 'count', 'first', 'last']

const requests: readonly [what: string, ask: (reader: Reader, filter: Filter) => Promise<unknown>][] = [
  ['a page', (reader, filter) => reader.read(pageQuery({ ...filter, limit: 17, offset: 3 }), signal)],
  ['all rows, oldest first', (reader, filter) => reader.read(pageQuery({ ...filter, direction: 'asc', limit: 500 }), signal)],
  ['the rows after another, newest first', (reader, filter) => reader.read(pageQuery({ ...filter, after, limit: 9 }), signal)],
  [
    'the rows after another, oldest first',
    (reader, filter) => reader.read(pageQuery({ ...filter, after, direction: 'asc', limit: 9 }), signal),
  ],
  ['a count', (reader, filter) => reader.count(filter, 1e6, signal)],
  ['a count that stops', (reader, filter) => reader.count(filter, 5, signal)],
  ['the newest of each series', (reader, filter) => reader.latest(pageQuery({ ...filter, limit: 100 }), signal)],
  [
    'a page of the newest of each series, oldest first',
    (reader, filter) => reader.latest(pageQuery({ ...filter, direction: 'asc', limit: 4, offset: 1 }), signal),
  ],
  ['the newest of each series after a row', (reader, filter) => reader.latest(pageQuery({ ...filter, after, limit: 4 }), signal)],
  ...aggregations.map((aggregation): (typeof requests)[number] => [
    `buckets: ${aggregation}`,
    (reader, filter) => reader.aggregate(aggregateQuery({ ...filter, aggregation, intervalUs: 3_600_000_000, limit: 1000 }), signal),
  ]),
  [
    'a page of buckets, newest first',
    (reader, filter) =>
      reader.aggregate(
        aggregateQuery({ ...filter, aggregation: 'last', intervalUs: 3_600_000_000, direction: 'desc', limit: 5, offset: 2 }),
        signal,
      ),
  ],
]

/** As in docs/stores/postgres.md. */
const indexOfRanges =
  'DROP INDEX sluice.records_series_time; CREATE INDEX records_series_time ON sluice.records USING brin (series) WITH (pages_per_range = 8)'

describe.each([
  ['all in numbered series', 100_000, undefined],
  ['all in the rests of their things', 0, undefined],
  ['some in numbered series, whose index has ranges of pages', 10, indexOfRanges],
])('%s', (_stored, seriesPerChannelMax, change) => {
  const oracle = openOracleReader(rows)
  let site: PostgresSite
  /** As a server and as an embedded database does it: with series one by one, and with the rows of the channel. */
  let readers: readonly [who: string, Reader][]
  beforeAll(async () => {
    site = await openEmbeddedSite({ seriesPerChannelMax })
    if (change !== undefined) await site.database.execute(change)
    await site.store(batch())
    const database: Database = { ...site.database, kind: 'server' }
    readers = [
      ['embedded', openPostgresReader({ database: site.database, pieceRowsMax: 50 })],
      ['server', openPostgresReader({ database })],
      ['embedded, of many series', openPostgresReader({ database: site.database, seriesMax: 0 })],
      ['server, of many series', openPostgresReader({ database, seriesMax: 0 })],
    ]
  })
  afterAll(() => site.close())

  test.each(requests)('%s', async (_what, ask) => {
    for (const some of filters) {
      const filter = pageQuery({ ...some, channel })
      const expected = await ask(oracle, filter)
      for (const [who, reader] of readers) expect(await ask(reader, filter), `${who}: ${Object.keys(some).join(', ')}`).toEqual(expected)
    }
  })

  test.each([1, 7, 50, 1000])('the subtopics among the newest %d rows', async rowsMax => {
    for (const publisher of [undefined, 'p', 'nobody']) {
      const query = formatsQuery({ channel, publisher, rowsMax })
      // Of rows with the same time the store chooses which are examined.
      const expected = await oracle.formats(query, signal)
      for (const [who, reader] of readers) {
        const found = await reader.formats(query, signal)
        expect([who, found.map(({ format, hasMore }) => [format, hasMore])]).toEqual([
          who,
          expected.map(({ format, hasMore }) => [format, hasMore]),
        ])
        if (rowsMax === 1000) expect([who, found]).toEqual([who, expected])
      }
    }
  })
})

const columns = 'time, channel, subtopic, publisher, protocol, name, value, position, index'
const named = (publisher: string, name: string, rows: string, at = `n * interval '1 second'`) =>
  `SELECT timestamptz '2026-10-20Z' + ${at}, '${channel}', '', '${publisher}', 'http', ${name}, n, n, 0 FROM generate_series(${rows}) AS n`

test.each(['server', 'embedded'] as const)('a cursor does not pass rows of a series that is added while a page is read: %s', async kind => {
  const site = await openEmbeddedSite()
  onTestFinished(() => site.close())
  await insertRecords(site.database, columns, named('p', `'n' || n % 2`, '1, 10'))
  let asked = 0
  const database: Database = {
    ...site.database,
    kind,
    async query<Row extends SqlRow>(sql: string, values: readonly SqlValue[] = [], asking: Asking = {}) {
      const found = await site.database.query<Row>(sql, values, asking)
      // After the look-up of numbers: an earlier row in a new series, and a later one in another.
      if (++asked === 1) {
        await insertRecords(site.database, columns, named('p', `'new'`, '11, 11'))
        await insertRecords(site.database, columns, named('p', `'n1'`, '12, 12'))
      }
      return found
    },
  }
  const page = pageQuery({ channel, publisher: 'p', direction: 'asc', limit: 100 })
  const values = (await openPostgresReader({ database }).read(page, signal)).map(row => (row as SenmlRow).value)
  expect(values).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
})

describe('many series', () => {
  let site: PostgresSite
  let wideSite: PostgresSite
  beforeAll(async () => {
    site = await openEmbeddedSite()
    await insertRecords(site.database, columns, named('hundred', `'n' || n % 100`, '1, 30000'))
    // One series has nearly all of the newest rows.
    await insertRecords(site.database, columns, named('skewed', `'n' || CASE n % 10 WHEN 0 THEN 1 + n / 10 % 99 ELSE 0 END`, '1, 30000'))
    await insertRecords(site.database, columns, named('others', `'x'`, '1, 200000'))
    wideSite = await openEmbeddedSite()
    await insertRecords(wideSite.database, columns, named('thousands', `'n' || n % 1200`, '1, 2400', `n / 7 * interval '1 second'`))
    await insertRecords(wideSite.database, columns, named('silent', `'n' || n % 1200`, '1, 2400', `n * interval '-1 second'`))
    await insertRecords(wideSite.database, columns, named('others', `'x'`, '1, 300'))
    await insertRecords(wideSite.database, columns, named('others', `'x'`, '1, 10000', `n * interval '-0.1 second'`))
    for (const { database } of [site, wideSite]) await database.execute('ANALYZE')
  })
  afterAll(async () => {
    await site.close()
    await wideSite.close()
  })
  const siteOf = (publisher: string): PostgresSite => (publisher === 'thousands' || publisher === 'silent' ? wideSite : site)

  /** A reader, and how many records each of its statements looks at. */
  function watched(kind: Database['kind'], of: PostgresSite): { reader: Reader; looked: number[] } {
    const looked: number[] = []
    const database: Database = {
      ...of.database,
      kind,
      async query<Row extends SqlRow>(sql: string, values: readonly SqlValue[] = [], asking: Asking = {}) {
        looked.push(await lookedAt(of.database, sql, values, isOfRecords))
        return await of.database.query<Row>(sql, values, asking)
      },
    }
    return { reader: openPostgresReader({ database }), looked }
  }
  const lookedIn = (looked: readonly number[]): number => looked.reduce((sum, rows) => sum + rows, 0)

  test.each([
    ['server', 'hundred', 100, 500],
    ['server', 'hundred', 1000, 5_000],
    ['server', 'skewed', 200, 1_000],
    ['server', 'thousands', 10, 1_300],
    ['server', 'silent', 10, 4_000],
    ['embedded', 'hundred', 100, 4_000],
  ] as const)('a page reads little more than its rows: %s, %s, %d rows', async (kind, publisher, limit, most) => {
    const { reader, looked } = watched(kind, siteOf(publisher))
    expect(await reader.read(pageQuery({ channel, publisher, limit }), signal)).toHaveLength(limit)
    expect(lookedIn(looked)).toBeLessThanOrEqual(most)
  })

  test('the embedded database reads only the rows of the thing', async () => {
    const { reader, looked } = watched('embedded', site)
    expect(await reader.count(pageQuery({ channel, publisher: 'skewed', value: { comparator: 'gt', number: 0 } }), 1e9, signal)).toBe(
      30_000,
    )
    // Of 260,000 in the channel. Finding the ends of pieces reads most of them a few times more.
    expect(lookedIn(looked)).toBeLessThan(200_000)
  })

  test.each(['hundred', 'skewed', 'thousands', 'silent'])('the same pages as from the rows of the channel: %s', async publisher => {
    const { database, reader: embedded } = siteOf(publisher)
    const whole = openPostgresReader({ database: { ...database, kind: 'server' }, seriesMax: 0 })
    const readers = [openPostgresReader({ database: { ...database, kind: 'server' } }), embedded]
    for (const direction of ['asc', 'desc'] as const) {
      for (const limit of [1, 30, 300, 3000]) {
        const page = pageQuery({ channel, publisher, direction, limit })
        const expected = await whole.read(page, signal)
        const next = { ...page, after: keyOf(expected.at(-1)!), offset: 3 }
        for (const reader of readers) {
          expect(await reader.read(page, signal)).toEqual(expected)
          expect(await reader.read(next, signal)).toEqual(await whole.read(next, signal))
        }
      }
    }
  })

  test('the rests of many things do not make a name be searched in the rows of the channel', async () => {
    const wide = await openEmbeddedSite()
    onTestFinished(() => wide.close())
    await insertRecords(wide.database, columns, named('others', `'x'`, '1, 5000'))
    await insertRecords(wide.database, columns, named('p', `'rare'`, '1, 3', `interval '0'`))
    await insertRecords(
      wide.database,
      columns,
      `SELECT timestamptz '2026-10-20Z', '${channel}', '', 'q' || n, 'http', repeat('long', 1000), n, n, 0 FROM generate_series(1, 210) AS n`,
    )
    await wide.database.execute('ANALYZE')
    const { reader, looked } = watched('server', wide)
    expect(await reader.read(pageQuery({ channel, name: 'rare', limit: 10 }), signal)).toHaveLength(3)
    expect(lookedIn(looked)).toBeLessThan(1000)
  })
})
