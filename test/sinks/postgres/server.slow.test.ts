// The PostgreSQL sink on a server, and which months an erasure drops there.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { openErasure } from '../../../sinks/postgres/erase.ts'
import { maintain, migrateStore } from '../../../sinks/postgres/schema.ts'
import { type SinkStore, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { throughProxy } from '../through-proxy.ts'
import { addFormat, emptyDatabase, storeOn } from './store.ts'

describeWithOwnPostgres('server', postgres => {
  let url: string
  let operator: Database
  let proxy: Proxy

  beforeAll(async () => {
    url = await postgres.createDatabase()
    operator = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
    proxy = await openProxy({ port: Number(new URL(url).port) })
  })
  afterAll(async () => {
    await operator.close()
    await proxy.close()
  })

  sinkConformance('PostgreSQL, server', openStore, { restarts: true, slow: true })

  describe('an erasure of all before a time', () => {
    const times = ['1999-01-01', '2026-01-10', '2026-02-28 23:59:59.999999', '2026-03-09 23:59:59.999999', '2026-03-10', '2026-06-01']
    let database: Database

    beforeEach(async () => {
      database = await openServer({ url: await postgres.createDatabase(), applicationName: 'erase', connectionsMax: 2 })
      await migrateStore(database)
      await addFormat(database, 'engine')
      await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
      for (const time of times.map(text => `timestamptz '${text}+00'`)) {
        await database.execute(`INSERT INTO sluice.records (time, channel, series, position, index) VALUES (${time}, 1, 1, 1, 0);
          INSERT INTO formats.engine (created, channel, subtopic, publisher, protocol, payload, position, index)
          VALUES ((extract(epoch FROM ${time}) * 1000000)::bigint * 1000, 'c', '', 'p', 'http', '{}', 1, 0)`)
      }
    })
    afterEach(() => database.close())

    const erased = async (erasing = database) => {
      const { signal } = new AbortController()
      const rows = await openErasure(erasing).erase({ beforeMs: Date.UTC(2026, 2, 10) }, signal, async () => undefined)
      const [left] = await database.query(
        `SELECT (SELECT count(*) FROM sluice.records)::int AS records, (SELECT count(*) FROM formats.engine)::int AS documents`,
      )
      const months = await database.query<{ name: string }>(
        `SELECT relname AS name FROM pg_class WHERE relname ~ '^(records|format_1)_2026_0[12]$' ORDER BY 1`,
      )
      return { rows, left, months: months.map(({ name }) => name) }
    }

    test('drops the months that end before it, and deletes rows of its own month and of odd clocks', async () => {
      await database.execute(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not these''; END';
        CREATE TRIGGER refuse BEFORE DELETE ON sluice.records_2026_02 FOR EACH ROW EXECUTE FUNCTION refuse()`)
      expect(await erased()).toEqual({ rows: 8, left: { records: 2, documents: 2 }, months: [] })
    })

    test('goes on where the retention has dropped a month before it', async () => {
      const racing: Database = {
        ...database,
        async query(sql, ...rest) {
          if (sql.includes('count(*) AS rows FROM sluice.records_2026_01')) await database.execute('DROP TABLE sluice.records_2026_01')
          return database.query(sql, ...rest)
        },
      }
      expect(await erased(racing)).toMatchObject({ rows: 7, left: { records: 2, documents: 2 }, months: [] })
    })

    test('deletes the rows of a month that it may not drop, or that another process holds', async () => {
      await database.transaction(async dump => {
        await dump.execute('LOCK TABLE sluice.records_2026_01 IN ACCESS SHARE MODE')
        expect(await erased()).toEqual({ rows: 8, left: { records: 2, documents: 2 }, months: ['records_2026_01'] })
      })
    })
  })

  async function openStore(): Promise<SinkStore> {
    await emptyDatabase(operator)
    const database = await openServer({ url: url.replace(/:\d+\//, `:${proxy.port}/`), applicationName: 'writer-1', connectionsMax: 4 })
    return {
      ...storeOn(database, () => database.close()),
      readableDuringWrite: true,
      ...throughProxy(proxy),
      cutConnections: async () => {
        await operator.query(
          `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
        )
      },
      restart: () => postgres.restart('immediate'),
    }
  }
})
