// Readers of the other stores as separate processes: each answers a thing with the same bytes as the relational one.

import { expect, test } from 'vitest'
import type { StoreName } from '../../../roles/stores/store.ts'
import type { ReaderSite } from '../../conformance/reader/index.ts'
import { openSite as openCassandraSite } from '../../readers/cassandra/site.ts'
import { openSite as openInfluxSite } from '../../readers/influxdb/site.ts'
import { openSite as openMongoSite } from '../../readers/mongodb/site.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { describeWithPostgres, type PostgresAccess } from '../../servers/postgres.ts'
import { makeSite } from '../../up/operator.ts'
import { lastLine, readerEnvironment, readerWordsOf, spawnRole, startReader, whenReady } from '../processes.ts'
import { fill, openReadSite, read } from '../read-site.ts'

/** @param environment the store's address */
async function expectSameAnswers(postgres: PostgresAccess, store: StoreName, other: ReaderSite, environment: Record<string, string>) {
  const at = await openReadSite(postgres)
  const { site } = at
  const stranger = await makeSite(at.api.url)
  const both: Pick<ReaderSite, 'store'> = {
    async store(batch) {
      await at.store.store(batch)
      await other.store(batch)
    },
  }
  await fill({ store: both }, site.channel, site.thing, 25)
  await fill({ store: both }, site.channel, stranger.thing, 25)
  const relational = await startReader(at.api.internalUrl, at.storeUrl)
  const reader = await whenReady(spawnRole(readerWordsOf(store), { ...readerEnvironment(at.api.internalUrl, at.storeUrl), ...environment }))

  const cursor = String((await read(relational, site, site.device)).json?.['next_cursor'])
  const queries = ['', `?cursor=${cursor}`, '?limit=all', '?v=20&comparator=ge', '?latest=true', '?aggregation=count&interval=10s']
  for (const query of queries) {
    const [expected, answer] = await Promise.all([relational, reader].map(one => read(one, site, site.device, query)))
    expect([query, answer!.status, answer!.text]).toEqual([query, 200, expected!.text])
  }
  const whole = await read(reader, site, site.owner)
  expect(whole.json?.['total']).toBe(50)
  expect((await read(reader, site, stranger.device)).status).toBe(403)
  for (const role of [relational, reader]) expect(await role.stop()).toBe(0)
  await other.close()
  await at.close()
}

describeWithPostgres('a reader of', postgres => {
  describeWithCassandra('Cassandra', cassandra => {
    test('answers as the relational one does', async () => {
      const site = await openCassandraSite(cassandra.contactPoint)
      await expectSameAnswers(postgres, 'widecolumn', site, { SVC_WIDECOLUMN_URL: site.options.url })
    })
  })

  describeWithInflux('InfluxDB', influx => {
    test('answers as the relational one does', async () => {
      const site = await openInfluxSite(influx)
      const { url, token } = site.options
      await expectSameAnswers(postgres, 'timeseries', site, { SVC_TIMESERIES_URL: url, SVC_TIMESERIES_TOKEN: token })
    })

    test('stops with a clear error if its token is wrong', async () => {
      const site = await openInfluxSite(influx)
      const environment = { SVC_TIMESERIES_URL: site.options.url, SVC_TIMESERIES_TOKEN: 'hidden-word' }
      const { ended, printed } = spawnRole(readerWordsOf('timeseries'), { SVC_INTERNAL_LISTEN: '127.0.0.1:0', ...environment })
      expect(await ended).toBe(1)
      expect(lastLine(printed()).msg).toMatch(/store\.token \(SVC_TIMESERIES_TOKEN\)/)
      expect(printed()).not.toMatch(/hidden-word|^\s+at /m)
      await site.close()
    })
  })

  describeWithMongo('MongoDB', mongo => {
    test('answers as the relational one does', async () => {
      const url = `${mongo.url}reader_process`
      await expectSameAnswers(postgres, 'document', await openMongoSite(url), { SVC_DOCUMENT_URL: url })
    })
  })
})
