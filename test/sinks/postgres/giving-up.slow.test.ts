// A write that no caller waits for any longer ends soon, and never becomes final after it has thrown; and what a half-open connection holds is freed.

import { once } from 'node:events'
import { Client } from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { openSink } from '../../../sinks/postgres/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { positionsOf } from '../../pipeline/positions.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { batchOf, plain, plainBatch } from '../batches.ts'
import { emptyDatabase, options } from './store.ts'

type PostgresSink = Awaited<ReturnType<typeof openSink>>
const never = new AbortController().signal
const ignoreRefused = async () => undefined

describeWithOwnPostgres('an aborted write', postgres => {
  let url: string
  let others: Database
  let proxy: Proxy
  const cleanups: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    url = await postgres.createDatabase()
  })
  beforeEach(async () => {
    others = await openServer({ url, applicationName: 'others', connectionsMax: 4 })
    await emptyDatabase(others)
    proxy = await openProxy({ port: Number(new URL(url).port) })
    cleanups.push(
      () => others.close(),
      () => proxy.close(),
    )
  })
  afterEach(async () => {
    vi.useRealTimers()
    // Connections that are opened through a lost one end now, and not after their time limit.
    proxy.cut()
    for (const close of cleanups.splice(0).toReversed()) await close()
  })

  /** No time limit ends a write: by default a lock is waited for longer than a test may take. */
  async function open(through: 'the proxy' | 'no proxy', lockTimeoutMs = 3_600_000, statementTimeoutMs = 0): Promise<PostgresSink> {
    const near = through === 'the proxy' ? url.replace(/:\d+\//, `:${proxy.port}/`) : url
    const database = await openServer({ url: near, applicationName: 'sluice', connectionsMax: 3, statementTimeoutMs })
    const identity = { logName: 'messages', logId: 'id-1', writer: 'writer-1' }
    const sink = await withNumbers(openSink({ database, options: { ...options, lockTimeoutMs }, logs: [identity] }))
    cleanups.push(
      () => database.close(),
      () => sink.close(),
    )
    return sink
  }

  const stored = async () => (await others.query<{ count: number }>('SELECT count(*)::int FROM messages'))[0]?.count

  /** What the write throws after its abort. */
  async function giveUp(work: Promise<unknown>, controller: AbortController): Promise<unknown> {
    controller.abort(new Error('revoked'))
    return work.then(
      () => 'written',
      (error: unknown) => error,
    )
  }

  /** The same, without the time limit after which the client closes the connection: only the server can end the transaction. */
  async function endedByServer(work: Promise<unknown>, controller: AbortController): Promise<unknown> {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const thrown = await giveUp(work, controller)
    vi.useRealTimers()
    return thrown
  }

  /** Writes until it succeeds, as the pipeline does after a transient error. */
  async function writeAgain(sink: PostgresSink, encoded: ReturnType<PostgresSink['encode']>) {
    for (;;) {
      try {
        return await sink.write(encoded, ignoreRefused, never)
      } catch (error) {
        expect(sink.classify(error)).toBe('transient')
      }
    }
  }

  /** Resolves once the server says so: it has no event for it. */
  async function until(condition: string): Promise<void> {
    while ((await others.query<{ met: boolean }>(`SELECT ${condition} AS met`))[0]?.met !== true) {
      await once(AbortSignal.timeout(5), 'abort')
    }
  }

  const waitsFor = (kind: string) =>
    `EXISTS (SELECT FROM pg_stat_activity WHERE starts_with(application_name, 'sluice writer-1/') AND wait_event_type = 'Lock' AND wait_event = '${kind}')`
  const noTransaction = `NOT EXISTS (SELECT FROM pg_stat_activity WHERE starts_with(application_name, 'sluice writer-1/'))`

  test('in its COPY, with everything sent: the server rolls it back', async () => {
    const sink = await open('no proxy')
    const controller = new AbortController()
    await others.transaction(async transaction => {
      await transaction.execute('LOCK TABLE sluice.records IN EXCLUSIVE MODE')
      const writing = sink.write(sink.encode(plainBatch(0, 300)), ignoreRefused, controller.signal)
      await until(waitsFor('relation'))
      expect(await endedByServer(writing, controller)).toMatchObject({ message: 'revoked' })
      await until(noTransaction)
    })
    expect(await stored()).toBe(0)
    expect(await sink.positions?.([logPartition(0, 0)])).toEqual(positionsOf({ 0: 0 }))
    await sink.write(sink.encode(plainBatch(0, 300)), ignoreRefused, never)
    expect(await stored()).toBe(300)
  })

  test('while it waits for the dead letters: its partitions are free at once', async () => {
    const sink = await open('no proxy')
    const controller = new AbortController()
    const asked = Promise.withResolvers<void>()
    const deadLetters = Promise.withResolvers<void>()
    const poisoned = batchOf(0, 2, [plain(0), { offset: 1, records: [{ name: '\0', value: 1 }] }])
    const holdLetters = () => {
      asked.resolve()
      return deadLetters.promise
    }
    const writing = sink.write(sink.encode(poisoned), holdLetters, controller.signal)
    await asked.promise
    expect(await giveUp(writing, controller)).toMatchObject({ message: 'revoked' })
    deadLetters.reject(new Error('too late for anybody'))
    const another = await open('no proxy')
    await another.write(another.encode(plainBatch(0, 1)), ignoreRefused, never)
    expect(await stored()).toBe(1)
  })

  /** A commit that waits until whoever holds the advisory lock 7 lets go: by a trigger that PostgreSQL puts off until then. */
  async function slowCommits(): Promise<void> {
    await others.execute(`
      CREATE OR REPLACE FUNCTION wait_for_7() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END';
      DROP TRIGGER IF EXISTS slow_commit ON sluice.offsets;
      CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON sluice.offsets DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION wait_for_7()`)
    cleanups.push(() => others.execute('DROP TRIGGER slow_commit ON sluice.offsets'))
  }

  test.each([
    ['at once', plainBatch(0, 2)],
    ['stepwise', batchOf(0, 3, [plain(0), { offset: 1, records: [{ name: '\0', value: 1 }] }, plain(2)])],
  ])('in the middle of its COMMIT (%s): a write that has thrown is not committed', async (_way, batch) => {
    const sink = await open('no proxy')
    await slowCommits()
    const controller = new AbortController()
    await others.transaction(async transaction => {
      await transaction.query('SELECT pg_advisory_xact_lock(7)')
      const writing = sink.write(sink.encode(batch), ignoreRefused, controller.signal)
      await until(waitsFor('advisory'))
      expect(await endedByServer(writing, controller)).toMatchObject({ message: 'revoked' })
    })
    await until(noTransaction)
    expect(await stored()).toBe(0)
    expect(await sink.positions?.([logPartition(0, 0)])).toEqual(positionsOf({ 0: 0 }))
  })

  test('after its COMMIT, with a lost answer, is stored, and counts as duplicate when it is retried', async () => {
    const sink = await open('the proxy')
    await slowCommits()
    const controller = new AbortController()
    const encoded = sink.encode(plainBatch(0, 2))
    let writing: Promise<unknown> | undefined
    await others.transaction(async transaction => {
      await transaction.query('SELECT pg_advisory_xact_lock(7)')
      writing = sink.write(encoded, ignoreRefused, controller.signal)
      await until(waitsFor('advisory'))
      proxy.halfOpen()
    })
    await until('(SELECT count(*) = 2 FROM messages)')
    // The server cannot be asked by this way, and no answer comes: the connection is closed.
    expect(await giveUp(writing!, controller)).toMatchObject({ message: 'revoked' })
    const another = await open('no proxy')
    expect(await another.write(encoded, ignoreRefused, never)).toMatchObject([{ received: 2, duplicate: 2 }])
    expect(await stored()).toBe(2)
  })

  test('a partition that a half-open connection holds continues with another worker after the lock timeout', async () => {
    const lost = await open('the proxy')
    const poisoned = batchOf(0, 2, [plain(0), { offset: 1, records: [{ name: '\0', value: 1 }] }])
    const controller = new AbortController()
    const asked = Promise.withResolvers<void>()
    const askedForLetters = () => {
      asked.resolve()
      return new Promise<void>(() => undefined)
    }
    const writing = lost.write(lost.encode(poisoned), askedForLetters, controller.signal).catch((error: unknown) => error)
    await asked.promise
    proxy.halfOpen()
    const another = await open('no proxy', 300)
    const encoded = another.encode(poisoned)
    const error = await another.write(encoded, ignoreRefused, never).catch((error: unknown) => error)
    expect(error).toMatchObject({ sqlState: '55P03', message: expect.stringMatching(/terminated 1 of/) as string })
    expect(await writeAgain(another, encoded)).toMatchObject([{ stored: 1, deadLettered: 1 }])
    expect(await stored()).toBe(1)
    controller.abort()
    await writing
  })

  // The server ends neither its statement nor its transaction in time: while it reads a COPY it only looks for the end of the connection.
  test.each([
    ['lock', 300, 60_000, '55P03'],
    ['statement', 300, 300, '57014'],
    ['statement', 1_000, 300, '57014'],
  ])(
    'a partition whose holder lost its client in the middle of a COPY continues after the %s timeout (%i and %i ms)',
    async (_first, lockTimeoutMs, statementTimeoutMs, sqlState) => {
      const sink = await open('no proxy', lockTimeoutMs, statementTimeoutMs)
      await sink.write(sink.encode(plainBatch(0, 1)), ignoreRefused, never)
      const holder = new Client({ connectionString: url, application_name: 'sluice writer-1/gone', statement_timeout: 200 })
      const ended = once(holder, 'error')
      await holder.connect()
      cleanups.push(() => holder.end())
      await holder.query('BEGIN; SELECT next_offset FROM sluice.offsets FOR UPDATE')
      holder.query(copyFrom('COPY sluice.records FROM STDIN')).on('error', () => undefined)
      await until(`EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'sluice writer-1/gone' AND query LIKE 'COPY%')`)
      const batch = sink.encode(plainBatch(1, 2))
      const error = await sink.write(batch, ignoreRefused, never).catch((error: unknown) => error)
      expect(error).toMatchObject({ sqlState })
      expect(await writeAgain(sink, batch)).toMatchObject([{ stored: 1 }])
      await ended
      expect(await stored()).toBe(2)
    },
  )

  test("if the connection that creates a format's table is half-open, another worker creates it 5 s after the statement timeout", async () => {
    const statementTimeoutMs = 5_000
    const lost = await open('the proxy', 3_600_000, statementTimeoutMs)
    const document = batchOf(0, 1, [{ offset: 0, documents: [{ format: 'weather', payload: { dry: true } }] }])
    const controller = new AbortController()
    let writing: Promise<unknown> | undefined
    await others.transaction(async transaction => {
      await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.formats', 0))`)
      writing = lost.write(lost.encode(document), ignoreRefused, controller.signal).catch((error: unknown) => error)
      await until(`EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'sluice' AND wait_event = 'advisory')`)
      proxy.halfOpen()
    })
    const another = await open('no proxy')
    expect(await another.write(another.encode(document), ignoreRefused, never)).toMatchObject([{ stored: 1 }])
    controller.abort()
    await writing
  })

  test('connections of another writer are not terminated', async () => {
    const sink = await open('no proxy', 200)
    await sink.write(sink.encode(plainBatch(0, 1)), ignoreRefused, never)
    for (const applicationName of ['sluice writer-10/x', 'sluice writer/x', 'sluice']) {
      const strangers = await openServer({ url, applicationName, connectionsMax: 1 })
      await strangers.transaction(async transaction => {
        await transaction.query('SELECT next_offset FROM sluice.offsets FOR UPDATE')
        const error = await sink.write(sink.encode(plainBatch(1, 2)), ignoreRefused, never).catch((error: unknown) => error)
        expect(error, applicationName).toMatchObject({ message: expect.stringContaining('terminated 0 of') as string })
      })
      await strangers.close()
    }
  })
})
