// What the PostgreSQL sink does with a server that is used by others too: held locks, dropped tables, changed schemas.

import { once } from 'node:events'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Database, DatabaseError } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { maintain } from '../../../sinks/postgres/schema.ts'
import { openSink, type PostgresSinkOptions } from '../../../sinks/postgres/sink.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import { positionsOf } from '../../pipeline/positions.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { batchOf, plain, plainBatch } from '../batches.ts'
import { emptyDatabase, options } from './store.ts'

type PostgresSink = Awaited<ReturnType<typeof openSink>>
const signal = new AbortController().signal

describeWithOwnPostgres('the PostgreSQL sink and its server', postgres => {
  let url: string
  let database: Database
  /** Somebody else's connections to the same database. */
  let others: Database
  let sink: PostgresSink
  let rejections: Rejection[]
  const keep = async (some: readonly Rejection[]) => void rejections.push(...some)
  const write = (batch: RecordBatch) => sink.write(sink.encode(batch), keep, signal)
  const stored = async () => (await others.query<{ count: number }>('SELECT count(*)::int FROM messages'))[0]?.count
  const open = (some: Partial<PostgresSinkOptions> = {}) => withNumbers(openSink({ database, options, logs: logsOf(), ...some }))

  beforeAll(async () => {
    url = await postgres.createDatabase()
  })
  beforeEach(async () => {
    await connect()
    rejections = []
  })
  afterEach(disconnect)

  async function connect(): Promise<void> {
    database = await openServer({ url, applicationName: 'sluice', connectionsMax: 4 })
    others = await openServer({ url, applicationName: 'others', connectionsMax: 4 })
    await emptyDatabase(others)
    sink = await open()
  }

  async function disconnect(): Promise<void> {
    await sink.close()
    await database.close()
    await others.close()
  }

  /** Holds the partition's offset in a transaction until it is released, as a connection does whose client has vanished. */
  async function hold(by: Database) {
    let release = () => {}
    const released = new Promise<void>(resolve => (release = resolve))
    let held = () => {}
    const holding = new Promise<void>(resolve => (held = resolve))
    const ended = by
      .transaction(async transaction => {
        await transaction.query('SELECT next_offset FROM sluice.offsets FOR UPDATE')
        held()
        await released
        await transaction.query('SELECT 1')
      })
      .then(
        () => 'let go' as const,
        () => 'ended' as const,
      )
    await holding
    return { release, ended }
  }

  test('a partition that a lost connection of the same writer holds is freed after the lock timeout', async () => {
    await sink.close()
    sink = await open({ options: { ...options, lockTimeoutMs: 200 } })
    await write(plainBatch(0, 1))
    const vanished = await openServer({ url, applicationName: 'sluice writer-1/1 of another process', connectionsMax: 1 })
    const holder = await hold(vanished)
    const encoded = sink.encode(plainBatch(1, 2))
    const error = await sink.write(encoded, keep, signal).catch((error: unknown) => error)
    expect(error).toMatchObject({ sqlState: '55P03', message: expect.stringMatching(/too long.* terminated 1 of .* 200 ms/) })
    expect(sink.classify(error)).toBe('transient')
    await sink.write(encoded, keep, signal)
    holder.release()
    expect(await holder.ended).toBe('ended')
    expect(await stored()).toBe(2)
    await vanished.close()
  })

  test('a connection of another application is waited for, never terminated', async () => {
    await sink.close()
    sink = await open({ options: { ...options, lockTimeoutMs: 200 } })
    await write(plainBatch(0, 1))
    const holder = await hold(others)
    const error = await write(plainBatch(1, 2)).catch((error: unknown) => error)
    expect(error).toMatchObject({ message: expect.stringContaining('terminated 0 of') })
    holder.release()
    expect(await holder.ended).toBe('let go')
    await write(plainBatch(1, 2))
    expect(await stored()).toBe(2)
  })

  test('a connection cut in the middle of a COPY leaves nothing, and the retried batch is stored once', async () => {
    const encoded = sink.encode(plainBatch(0, 300))
    const error = await others.transaction(async transaction => {
      await transaction.execute('LOCK TABLE sluice.records IN EXCLUSIVE MODE')
      const writing = sink.write(encoded, keep, signal).catch((error: unknown) => error)
      await blocked(1)
      await others.query(
        `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE starts_with(application_name, 'sluice writer-1/')`,
      )
      return await writing
    })
    expect(sink.classify(error)).toBe('transient')
    expect(await stored()).toBe(0)
    await sink.write(encoded, keep, signal)
    expect(await stored()).toBe(300)
  })

  /** Resolves once so many of the writer's connections wait for a lock: asked of the server, which has no event for it. */
  async function blocked(count: number): Promise<void> {
    for (;;) {
      const waiting = await others.query(
        `SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, 'sluice writer-1/') AND wait_event_type = 'Lock'`,
      )
      if (waiting.length >= count) return
      await once(AbortSignal.timeout(5), 'abort')
    }
  }

  test('two workers that write the same batch at once store it once', async () => {
    const other = await open()
    const encode = () => plainBatch(0, 200)
    const results = await Promise.all([sink.write(sink.encode(encode()), keep, signal), other.write(other.encode(encode()), keep, signal)])
    expect(new Set(results.map(([count]) => count?.stored))).toEqual(new Set([0, 200]))
    expect(new Set(results.map(([count]) => count?.duplicate))).toEqual(new Set([0, 200]))
    expect(await stored()).toBe(200)
    await other.close()
  })

  test('a retried batch writes no second dead letter for a message', async () => {
    await sink.close()
    sink = await open({ options: { ...options, formatsMax: 1 } })
    const document = (offset: number, format: string) => ({ offset, documents: [{ format, payload: { a: 1 } }] })
    // One that the server refuses, and one that is refused before it is sent.
    const messages = [document(0, 'engine'), { offset: 1, records: [{ name: 'n\0', value: 1 }] }, document(2, 'one-too-many')]
    await write(batchOf(0, 3, messages))
    expect(rejections.map(({ message }) => message)).toEqual([1, 2])
    expect((await write(batchOf(0, 3, messages)))[0]).toMatchObject({ duplicate: 3, deadLettered: 0 })
    expect((await write(batchOf(0, 4, [...messages, plain(3)])))[0]).toMatchObject({ duplicate: 3, stored: 1 })
    expect(rejections).toHaveLength(2)
  })

  test('the counts of a partition are stored with its position, and add up', async () => {
    const poison = { offset: 5, records: [{ name: 'n\0', value: 1 }] }
    await write(
      batchOf(2, 9, [
        plain(2),
        { offset: 3 },
        { offset: 4, outcome: 'filtered' },
        poison,
        { offset: 6, outcome: 'deadLettered' },
        plain(8),
      ]),
    )
    await write(batchOf(6, 12, [{ offset: 6, outcome: 'deadLettered' }, plain(8), plain(9)]))
    const [row] = await others.query('SELECT * FROM sluice.offsets')
    expect(Object.entries(row!).map(([column, value]) => `${column} ${value as bigint}`)).toEqual([
      'writer writer-1',
      'log 1',
      'partition 0',
      'next_offset 12',
      'received 9',
      'stored 3',
      'empty 1',
      'filtered 1',
      'skipped 3',
      'lost 0',
      'duplicate 2',
      'dead_lettered 2',
      'copied_below 0',
    ])
  })

  test('what the log deleted unread is counted with the position, in one exchange and step by step', async () => {
    const lossy = (from: number, name: string) => {
      const batch = batchOf(from, from, [{ offset: from + 5, records: [{ name, value: 1 }] }])
      batch.ranges.length = 0
      batch.cover(logPartition(0, 0), from, from + 6, 5)
      return batch
    }
    await write(lossy(0, 'n'))
    await write(lossy(6, 'n\0'))
    expect(await others.query('SELECT lost::int, skipped::int, received::int, dead_lettered::int FROM sluice.offsets')).toEqual([
      { lost: 10, skipped: 10, received: 2, dead_lettered: 1 },
    ])
  })

  test('a row that only an index refuses (54000) is also found by its line', async () => {
    await others.execute('CREATE INDEX texts ON sluice.records (string_value)')
    const stringValue = Array.from({ length: 10_000 }, () => String.fromCharCode(33 + Math.floor(Math.random() * 94))).join('')
    const messages = Array.from({ length: 50 }, (_, offset) =>
      offset === 20 ? { offset, records: [{ value: 1 }, { stringValue }] } : plain(offset),
    )
    await write(batchOf(0, 50, messages))
    expect(rejections).toEqual([
      { message: 20, record: 1, rule: 'store-refused', reason: expect.stringMatching(/54000.*index row/) as string },
    ])
    expect(await stored()).toBe(49)
    await others.execute('DROP INDEX sluice.texts')
  })

  test('in the steady state a batch is one exchange with the server, whatever its content', async () => {
    const asked: string[] = []
    const counting: Database = {
      ...database,
      query: (sql, values) => {
        asked.push('query')
        return database.query(sql, values)
      },
      run: (steps, cut) => {
        asked.push('run')
        return database.run(steps, cut)
      },
      transaction: (work, cut) => {
        asked.push('transaction')
        return database.transaction(work, cut)
      },
    }
    const other = await open({ database: counting })
    const batch = (from: number) =>
      batchOf(from, from + 6, [
        plain(from),
        { offset: from + 1 },
        { offset: from + 2, outcome: 'filtered' },
        { offset: from + 3, documents: [{ format: 'engine', payload: {} }] },
        { offset: from + 4, publisher: `thing-${from}`, documents: [{ format: 'gearbox', payload: {} }] },
      ])
    await other.write(other.encode(batch(0)), keep, signal)
    asked.length = 0
    await other.write(other.encode(batch(6)), keep, signal)
    await other.write(other.encode(batchOf(12, 13, [])), keep, signal)
    expect(asked).toEqual(['run', 'run'])
    expect(await others.query('SELECT received::int, stored::int, skipped::int FROM sluice.offsets')).toEqual([
      { received: 10, stored: 6, skipped: 3 },
    ])
    await other.close()
  })

  test('a refused message is not tried again with the same encoded batch', async () => {
    let copies = 0
    const counting: Database = {
      ...database,
      transaction: work =>
        database.transaction(transaction =>
          work({
            ...transaction,
            copy: (target, binary) => {
              copies++
              return transaction.copy(target, binary)
            },
          }),
        ),
    }
    const other = await open({ database: counting })
    const encoded = other.encode(batchOf(0, 3, [plain(0), { offset: 1, records: [{ name: '\0', value: 1 }] }, plain(2)]))
    await expect(other.write(encoded, () => Promise.reject(new Error('away')), signal)).rejects.toThrow('away')
    copies = 0
    await other.write(encoded, keep, signal)
    expect(copies).toBe(1)
    expect(rejections).toHaveLength(1)
    await other.close()
  })

  test('ids that are too long for an index are refused before anything is sent', async () => {
    const channel = 'c'.repeat(2100)
    await write(batchOf(0, 2, [{ offset: 0, channel, records: [{ value: 1 }, { value: 2 }] }, plain(1)]))
    await write(batchOf(2, 3, [{ offset: 2, documents: [{ format: 'f'.repeat(2100), payload: {} }] }]))
    expect(rejections.map(({ message, rule }) => [message, rule])).toEqual([
      [0, 'identifier-length'],
      [0, 'identifier-length'],
    ])
    expect(await stored()).toBe(1)
  })

  test('a new format has its months at once, whatever its name is, and documents of other times are in its default partition', async () => {
    const format = 'a'.repeat(62)
    const document = (offset: number, createdUs: number) => ({ offset, documents: [{ format, payload: {}, createdUs }] })
    await write(batchOf(0, 2, [document(0, Date.now() * 1000), document(1, 0)]))
    const stored = () =>
      others.query(`SELECT tableoid::regclass::text AS table, (position & 1)::int AS offset FROM formats.${format} ORDER BY created`)
    const [registered] = await others.query<{ id: number }>('SELECT id FROM sluice.formats')
    const prefix = `sluice.format_${registered!.id}`
    const month = new Date().toISOString().slice(0, 7).replace('-', '_')
    const expected = [
      { table: `${prefix}_default`, offset: 1 },
      { table: `${prefix}_${month}`, offset: 0 },
    ]
    expect(await stored()).toEqual(expected)
    expect(await others.query(`SELECT FROM pg_inherits WHERE inhparent = 'formats.${format}'::regclass`)).toHaveLength(7)
    // Its months are those that maintenance creates.
    expect(await maintain(others)).toEqual([])
    expect(await stored()).toEqual(expected)
  })

  test('a dropped table of a format is created again, and the batch is stored', async () => {
    const document = (offset: number) => batchOf(offset, offset + 1, [{ offset, documents: [{ format: 'engine', payload: { offset } }] }])
    await write(document(0))
    await others.execute('DROP TABLE formats.engine')
    await write(document(1))
    await others.execute(`DROP TABLE formats.engine; DELETE FROM sluice.formats`)
    await write(document(2))
    expect(await others.query('SELECT payload FROM formats.engine')).toEqual([{ payload: '{"offset": 2}' }])
    expect(await sink.positions?.([logPartition(0, 0)])).toEqual(positionsOf({ 0: 3 }))
  })

  test('an existing table of an unregistered format is taken over', async () => {
    const document = (offset: number) => batchOf(offset, offset + 1, [{ offset, documents: [{ format: 'engine', payload: { offset } }] }])
    await write(document(0))
    await others.execute(`DELETE FROM sluice.formats`)
    await sink.close()
    sink = await open()
    await write(document(1))
    expect(await others.query('SELECT payload FROM formats.engine')).toHaveLength(2)
    // Its partitions keep the names that they have, and its months are still known.
    expect(await maintain(others)).toEqual([])
  })

  test.each([
    ['a missing column', 'ALTER TABLE sluice.records DROP COLUMN sum CASCADE'],
    ['a column of another type', 'DROP VIEW messages CASCADE; ALTER TABLE sluice.records ALTER COLUMN sum TYPE int'],
    ['the table gone', 'DROP TABLE sluice.records CASCADE'],
    ['a constraint of the operator', 'ALTER TABLE sluice.records ADD CHECK (value < 0)'],
  ])('another schema stops the writer and rejects no message: %s', async (_what, change) => {
    await disconnect()
    const shared = url
    url = await postgres.createDatabase()
    await connect()
    url = shared
    await others.execute(change)
    const error = await write(batchOf(0, 1, [{ offset: 0, records: [{ value: 1, sum: 2 }] }])).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(DatabaseError)
    expect(sink.classify(error)).toBe('systemic')
    expect(rejections).toEqual([])
  })

  test('a deleted offsets row fences the batch instead of starting again', async () => {
    await write(plainBatch(0, 2))
    await others.execute('DELETE FROM sluice.offsets')
    const error = await write(plainBatch(2, 3)).catch((error: unknown) => error)
    expect(sink.classify(error)).toBe('fenced')
    expect(await stored()).toBe(2)
  })

  test('and fences it after a lost connection as well, however often it is retried', async () => {
    await write(plainBatch(0, 2))
    const encoded = sink.encode(plainBatch(2, 3))
    const attempt = () => sink.write(encoded, keep, signal).catch((error: unknown) => sink.classify(error))
    await others.transaction(async transaction => {
      await transaction.execute('LOCK TABLE sluice.records IN EXCLUSIVE MODE')
      const lost = attempt()
      await blocked(1)
      await others.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, 'sluice')`)
      expect(await lost).toBe('transient')
    })
    await others.execute('DELETE FROM sluice.offsets')
    expect([await attempt(), await attempt(), await attempt()]).toEqual(['fenced', 'fenced', 'fenced'])
    expect(await others.query('SELECT FROM sluice.offsets')).toEqual([])
    expect(await stored()).toBe(2)
  })

  test('an aborted write does not start', async () => {
    const error = await sink.write(sink.encode(plainBatch(0, 1)), keep, AbortSignal.abort()).catch((error: unknown) => error)
    expect(sink.classify(error)).toBe('transient')
    expect(await stored()).toBe(0)
  })

  test('a wrong password and a missing database stop the writer, an absent server does not', async () => {
    const missing = await openServer({ url: url.replace(/[^/]*$/, 'nowhere'), applicationName: 'x', connectionsMax: 1 })
    const absent = await openServer({ url: 'postgres://postgres@127.0.0.1:1/x', applicationName: 'x', connectionsMax: 1 })
    expect(sink.classify(await open({ database: missing }).catch((error: unknown) => error))).toBe('systemic')
    expect(sink.classify(await open({ database: absent }).catch((error: unknown) => error))).toBe('transient')
    await missing.close()
    await absent.close()
  })

  test('if one of several logs has a gap, the error names it', async () => {
    await sink.close()
    sink = await open({ logs: logsOf({ otherLogs: ['events'] }) })
    const batch = plainBatch(0, 1)
    batch.cover(logPartition(1, 3), 0, 1)
    await write(batch)
    const behindGap = plainBatch(1, 2)
    behindGap.cover(logPartition(1, 3), 2, 3)
    await expect(write(behindGap)).rejects.toThrow('partition 3 of events: the batch starts at offset 2, but the store expects offset 1')
  })
})
