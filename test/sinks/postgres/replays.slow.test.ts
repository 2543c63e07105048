// A replay beside a writer on a real PostgreSQL: the writer stands between a dead letter and its commit, is killed, and starts again.

import { once } from 'node:events'
import { Client } from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { openReplaySink, openSink } from '../../../sinks/postgres/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { positionsOf } from '../../pipeline/positions.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { batchOf, plain, plainBatch } from '../batches.ts'
import { options } from './store.ts'

const never = new AbortController().signal

describeWithPostgres('a replay beside a writer', postgres => {
  let url: string
  let operator: Database

  beforeAll(async () => {
    url = await postgres.createDatabase()
    operator = await openServer({ url, applicationName: 'operator', connectionsMax: 2 })
  })
  afterAll(() => operator.close())

  test('between dead letter and commit it stores nothing; after a kill and a restart the writer stores the message once', async () => {
    const writerOn = async () => {
      const database = await openServer({ url, applicationName: 'writer', connectionsMax: 3 })
      const sink = await withNumbers(
        openSink({
          database,
          options,
          logs: [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }],
        }),
      )
      return { database, sink }
    }
    const first = await writerOn()
    await first.sink.write(first.sink.encode(plainBatch(0, 5)), async () => undefined, never)
    // The letter is durable; the writer stands in its transaction, with the partition locked.
    const lettered = Promise.withResolvers<void>()
    const killed = Promise.withResolvers<never>()
    const reject = async (): Promise<never> => {
      lettered.resolve()
      return killed.promise
    }
    const refused = { offset: 5, records: [{ value: 5 }, { name: 'n\0', value: 6 }] }
    const write = first.sink.write(first.sink.encode(batchOf(5, 7, [refused, plain(6)])), reject, never)
    write.catch(() => undefined)
    await lettered.promise

    const replays = await openReplaySink({ database: operator, options, writer: 'writer-1', logNumber: first.sink.logNumbers[0]! })
    const valid = batchOf(5, 6, [plain(5)])
    expect(await replays.write(valid, new Set(), never)).toEqual({ refused: new Map(), notPassed: new Set([0]) })

    killed.reject(new Error('killed'))
    await expect(write).rejects.toThrow('killed')
    await first.sink.close()
    await first.database.close()

    // By other options the message is valid, and the writer reads it again.
    const second = await writerOn()
    expect(await second.sink.positions!([logPartition(0, 0)])).toEqual(positionsOf({ 0: 5 }))
    await second.sink.write(second.sink.encode(batchOf(5, 7, [plain(5), plain(6)])), async () => undefined, never)
    expect(await replays.write(valid, new Set(), never)).toEqual({ refused: new Map(), notPassed: new Set() })
    const rows = await operator.query<{ value: number }>('SELECT value FROM public.messages ORDER BY position, index')
    expect(rows.map(({ value }) => value)).toEqual([0, 1, 2, 3, 4, 5, 6])
    await second.sink.close()
    await second.database.close()
  })

  // The server ends neither its statement nor its transaction in time: while it reads a COPY it only looks for the end of the connection.
  test('one whose client was lost in the middle of a COPY does not keep others from replaying', async () => {
    const database = await openServer({ url, applicationName: 'replays', connectionsMax: 2, statementTimeoutMs: 1_000 })
    const replays = await openReplaySink({ database, options, writer: 'writer-1', logNumber: 1 })
    const holder = new Client({ connectionString: url, application_name: 'sluice-replay writer-1 gone', statement_timeout: 200 })
    const ended = once(holder, 'error')
    await holder.connect()
    await holder.query(`BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('sluice.replayed', 0))`)
    holder.query(copyFrom('COPY sluice.records FROM STDIN')).on('error', () => undefined)
    const copying = `SELECT FROM pg_stat_activity WHERE application_name = 'sluice-replay writer-1 gone' AND query LIKE 'COPY%'`
    await expect.poll(() => operator.query(copying)).toHaveLength(1)
    expect(await replays.write(batchOf(3, 4, [plain(3)]), new Set(), never)).toEqual({ refused: new Map(), notPassed: new Set() })
    await ended
    await database.close()
  })

  test('it has its own application name and lock timeout, and holds no partition of the writer', async () => {
    const replays = await openReplaySink({ database: operator, options, writer: 'writer-1', logNumber: 1 })
    const before = await openServer({ url, applicationName: 'watcher', connectionsMax: 2 })
    await before.execute(`CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO witnessed SELECT current_setting('application_name'), current_setting('lock_timeout'), (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'sluice.offsets'::regclass AND mode <> 'AccessShareLock');
      RETURN NEW; END $$;
      CREATE TABLE witnessed (name text, lock_timeout text, locks int);
      CREATE TRIGGER seen AFTER INSERT ON sluice.replayed FOR EACH STATEMENT EXECUTE FUNCTION seen()`)
    await before.query('UPDATE sluice.offsets SET next_offset = 100 WHERE log = 1')
    await replays.write(batchOf(50, 51, [plain(50)]), new Set(), never)
    expect(await before.query('SELECT * FROM witnessed')).toEqual([
      { name: expect.stringMatching(/^sluice-replay writer-1 [0-9a-f]{12}$/), lock_timeout: '10s', locks: 0 },
    ])
    await before.close()
  })

  test('a missing migration stops it, and it applies none', async () => {
    await operator.query('DELETE FROM sluice.migrations')
    await expect(openReplaySink({ database: operator, options, writer: 'writer-1', logNumber: 1 })).rejects.toThrow(
      /lacks the migrations 0001-store: start its writer/,
    )
    expect(await operator.query('SELECT name FROM sluice.migrations')).toEqual([])
  })
})
