// The PostgreSQL reader, embedded and on a server: what every reader promises, and what this one does beside.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openServer } from '../../../config/postgres/server.ts'
import { openPostgresReader } from '../../../readers/postgres/reader.ts'
import { type Reader, StoreUnavailableError, senmlFormat } from '../../../readers/reader.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { readerConformance } from '../../conformance/reader.ts'
import { openFreshEmbedded } from '../../servers/embedded.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { openEmbeddedSite, openSite, type PostgresSite } from './site.ts'

const options = { countMax: 10_000 }
const signal = new AbortController().signal

describe('embedded', () => {
  readerConformance(openEmbeddedSite)
})

describeWithPostgres('on a server', postgres => {
  async function openServerSite(): Promise<PostgresSite> {
    const url = await postgres.createDatabase()
    return await openSite(await openServer({ url, applicationName: 'reader-test', connectionsMax: 4 }), async () => undefined)
  }

  describe('what every reader promises', () => {
    readerConformance(openServerSite)
  })

  test('a database in another time zone is read the same', async () => {
    const url = await postgres.createDatabase()
    const admin = await openServer({ url, applicationName: 'reader-test', connectionsMax: 1 })
    const { pathname } = new URL(url)
    await admin.execute(`ALTER DATABASE "${pathname.slice(1)}" SET timezone = 'Pacific/Auckland'`)
    await admin.close()
    const site = await openSite(await openServer({ url, applicationName: 'reader-test', connectionsMax: 4 }), async () => undefined)
    await site.store(batchOf(0, 20, nth => Date.UTC(2026, 9, 31, 12 + nth) * 1000))
    const rows = await readAll(site.reader, 'p')
    expect(rows).toEqual(await readAll(site.reader, undefined))
    expect(rows).toHaveLength(20)
    await site.close()
  })

  test('a server that is away is a store that cannot answer, and one that is back answers', async () => {
    const site = await openServerSite()
    await postgres.restart('immediate')
    await site.reader.check().catch((error: unknown) => expect(error).toBeInstanceOf(StoreUnavailableError))
    await expect.poll(() => site.reader.check(), { timeout: 10_000 }).toBeUndefined()
    expect((await readAll(site.reader, undefined)).length).toBe(0)
    await site.close()
  })
})

test('where nothing listens, the store cannot answer', async () => {
  const database = await openServer({ url: 'postgres://u:p@127.0.0.1:1/x', applicationName: 'reader-test', connectionsMax: 1 })
  const reader = openPostgresReader({ database, options })
  await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
  await expect(readAll(reader, undefined)).rejects.toBeInstanceOf(StoreUnavailableError)
  await database.close()
})

describe('beside', () => {
  let site: PostgresSite
  beforeAll(async () => {
    site = await openEmbeddedSite()
  })
  afterAll(() => site.close())

  test('before the first writer there is no schema, which the error says', async () => {
    const database = await openFreshEmbedded()
    const reader = openPostgresReader({ database, options })
    for (const format of [senmlFormat, 'weather']) {
      const query = { channel: 'c', format, publisher: undefined, offset: 0, limit: 1 }
      await expect(reader.read(query, signal)).rejects.toThrow(/start a writer/)
    }
    await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
    await database.close()
  })

  test('a total is exact up to the bound, and a lower bound beyond it, which a page further on raises', async () => {
    await site.store(batchOf(0, 12, nth => Date.UTC(2026, 9, 31) * 1000 + nth))
    const query = { channel: 'c', format: senmlFormat, offset: 0, limit: 2 }
    for (const publisher of [undefined, 'p']) {
      const total = async (countMax: number, offset = 0): Promise<[number, boolean]> => {
        const page = await openPostgresReader({ database: site.database, options: { countMax } }).read(
          { ...query, publisher, offset },
          signal,
        )
        return [page.total, page.totalExact]
      }
      expect(await total(13)).toEqual([12, true])
      expect(await total(12)).toEqual([12, true])
      expect(await total(11)).toEqual([11, false])
      expect(await total(0)).toEqual([2, false])
      expect(await total(5, 8)).toEqual([10, false])
      expect(await total(5, 11)).toEqual([12, true])
      expect(await total(5, 12)).toEqual([5, false])
    }
  })

  test('a format whose table was dropped is looked up anew', async () => {
    const batch = new RecordBatch()
    batch.beginMessage({ partition: 5, offset: 0, channel: 'd', subtopic: 'weather', publisher: 'p', protocol: 'http' })
    batch.appendDocument(0, 'weather', 1_700_000_000_000_000, 0, { a: 1 })
    batch.endMessage()
    batch.cover(5, 0, 1)
    await site.store(batch)
    const query = { channel: 'd', format: 'weather', publisher: undefined, offset: 0, limit: 10 }
    expect((await site.reader.read(query, signal)).total).toBe(1)

    const [table] = await site.database.query<{ table_name: string }>("SELECT table_name FROM sluice.formats WHERE format = 'weather'")
    await site.database.execute(
      `ALTER TABLE formats."${table!.table_name}" RENAME TO elsewhere; UPDATE sluice.formats SET table_name = 'elsewhere'`,
    )
    expect((await site.reader.read(query, signal)).total).toBe(1)

    await site.database.execute('DROP TABLE formats.elsewhere; DELETE FROM sluice.formats')
    expect(await site.reader.read(query, signal)).toEqual({ rows: [], total: 0, totalExact: true })
  })

  test('the days of a publisher keep a read from passing over the rows of others', async () => {
    const { database } = site
    await database.execute(`
      INSERT INTO messages (time, channel, subtopic, publisher, protocol, name, value, position, index)
      SELECT timestamptz '2026-10-01' + n * interval '1 minute', 'busy', '', 'other', 'http', 'n', n, n, 0 FROM generate_series(1, 20000) AS n;
      INSERT INTO messages (time, channel, subtopic, publisher, protocol, name, value, position, index)
      SELECT timestamptz '2026-10-01' + n * interval '1 second', 'busy', '', 'rare', 'http', 'n', n, n, 0 FROM generate_series(1, 20) AS n;
      INSERT INTO sluice.publisher_days VALUES ('busy', 'rare', 'messages', '2026-10-01');
      ANALYZE`)
    const { selectPage } = await import('../../../readers/postgres/select.ts')
    const { sql, values } = selectPage({ channel: 'busy', format: senmlFormat, publisher: 'rare', offset: 0, limit: 10 }, undefined)
    const plan = await database.query<{ 'QUERY PLAN': string }>(`EXPLAIN (ANALYZE, FORMAT JSON, TIMING off) ${sql}`, values)
    const removed = [...JSON.stringify(plan[0]!['QUERY PLAN']).matchAll(/Rows Removed by Filter\W+(\d+)/g)].map(match => Number(match[1]))
    // Of the 20,000 rows of others, 1,440 lie on the day; the table of days has a few rows of its own.
    expect(removed.reduce((sum, rows) => sum + rows, 0)).toBeLessThan(1_500)
  })
})

async function readAll(reader: Reader, publisher: string | undefined) {
  return (await reader.read({ channel: 'c', format: senmlFormat, publisher, offset: 0, limit: 1000 }, signal)).rows
}

/** `count` records of publisher p on channel c, one a message. */
function batchOf(partition: number, count: number, timeUs: (nth: number) => number): RecordBatch {
  const batch = new RecordBatch()
  for (let nth = 0; nth < count; nth++) {
    batch.beginMessage({ partition, offset: nth, channel: 'c', subtopic: '', publisher: 'p', protocol: 'http' })
    batch.appendRecord(0, 'n', undefined, timeUs(nth), 1, nth, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(partition, 0, count)
  return batch
}
