// The PostgreSQL reader on a server: what every reader promises, and callers, time zones and restarts.

import { describe, expect, test } from 'vitest'
import { openServer } from '../../../database/server.ts'
import { type Reader, StoreUnavailableError } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { pageQuery, readerConformance } from '../../conformance/reader/index.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { openSite, type PostgresSite } from './site.ts'
import { insertRecords } from './stored-rows.ts'

const signal = new AbortController().signal

describeWithOwnPostgres('on a server', postgres => {
  async function openServerSite(): Promise<PostgresSite> {
    const url = await postgres.createDatabase()
    return await openSite(
      await openServer({ url, applicationName: 'reader-test', connectionsMax: 4, watchesClients: true, plansEach: true }),
      async () => undefined,
    )
  }

  describe('what every reader promises', () => {
    readerConformance(openServerSite)
  })

  test('a statement whose caller goes away ends on the server', async () => {
    const site = await openServerSite()
    const columns = 'time, channel, subtopic, publisher, protocol, name, value, position, index'
    await insertRecords(site.database, columns, `SELECT now(), 'c', '', 'p', 'http', 'n', n, n, 0 FROM generate_series(1, 300000) AS n`)
    const going = new AbortController()
    const slow = `SELECT count(*) FROM sluice.records AS one, sluice.records AS other WHERE one.value < other.value`
    const asked = site.database.query(slow, [], { signal: going.signal })
    const running = async (): Promise<number> =>
      Number(
        (
          await site.database.query<{ count: bigint }>(
            "SELECT count(*) AS count FROM pg_stat_activity WHERE query = $1 AND state = 'active'",
            [slow],
          )
        )[0]!.count,
      )
    await expect.poll(running).toBe(1)
    going.abort(new Error('gone'))
    await expect(asked).rejects.toThrow('gone')
    await expect.poll(running).toBe(0)
    await site.close()
  })

  test('a database in another time zone gives the same answers', async () => {
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

  test('a server that is down makes the store unavailable, until it is back', async () => {
    const site = await openServerSite()
    await postgres.restart('immediate')
    await site.reader.check().catch((error: unknown) => expect(error).toBeInstanceOf(StoreUnavailableError))
    await expect.poll(() => site.reader.check()).toBeUndefined()
    expect((await readAll(site.reader, undefined)).length).toBe(0)
    await site.close()
  })
})

async function readAll(reader: Reader, publisher: string | undefined) {
  return await reader.read(pageQuery({ channel: 'c', publisher }), signal)
}

/** `count` records of publisher p on channel c, one a message. */
function batchOf(partition: number, count: number, timeUs: (nth: number) => number): RecordBatch {
  const batch = new RecordBatch()
  for (let nth = 0; nth < count; nth++) {
    batch.beginMessage({ at: logPartition(0, partition), offset: nth, channel: 'c', subtopic: '', publisher: 'p', protocol: 'http' })
    batch.appendRecord(0, 'n', undefined, timeUs(nth), 1, nth, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(logPartition(0, partition), 0, count)
  return batch
}
