// What the PostgreSQL sink does with a server that is used by others too: held locks, dropped tables, changed schemas.

import { once } from 'node:events'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Database, DatabaseError } from '../../../config/postgres/database.ts'
import { openServer } from '../../../config/postgres/server.ts'
import { openSink, type PostgresSinkOptions } from '../../../sinks/postgres/sink.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { batchOf, noonUs, plain, plainBatch } from '../batches.ts'
import { emptyDatabase, options } from './store.ts'

type PostgresSink = Awaited<ReturnType<typeof openSink>>
const signal = new AbortController().signal

describeWithPostgres('the PostgreSQL sink and its server', postgres => {
  let url: string
  let database: Database
  /** Somebody else's connections to the same database. */
  let others: Database
  let sink: PostgresSink
  let rejections: Rejection[]
  const keep = async (some: readonly Rejection[]) => void rejections.push(...some)
  const write = (batch: RecordBatch) => sink.write(sink.encode(batch), keep, signal)
  const stored = async () => (await others.query<{ count: number }>('SELECT count(*)::int FROM messages'))[0]?.count
  const open = (some: Partial<PostgresSinkOptions> = {}) =>
    openSink({ database, options, logName: 'messages', logId: 'id-1', writer: 'writer-1', acceptNewLog: false, ...some })

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

  /** Holds the partition's offset in a transaction until told to let go, as a connection does whose client has vanished. */
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

  test('a partition that a vanished connection of the same writer holds is freed after the lock timeout', async () => {
    await sink.close()
    sink = await open({ options: { ...options, lockTimeoutMs: 200 } })
    await write(plainBatch(0, 1))
    const vanished = await openServer({ url, applicationName: 'sluice writer-1/1 of another process', connectionsMax: 1 })
    const holder = await hold(vanished)
    const encoded = sink.encode(plainBatch(1, 2))
    const error = await sink.write(encoded, keep, signal).catch((error: unknown) => error)
    expect(error).toMatchObject({ sqlState: '55P03', message: expect.stringMatching(/within 200 ms.* 1 were ended/) })
    expect(sink.classify(error)).toBe('transient')
    await sink.write(encoded, keep, signal)
    holder.release()
    expect(await holder.ended).toBe('ended')
    expect(await stored()).toBe(2)
    await vanished.close()
  })

  test('a connection of another application is waited for, never ended', async () => {
    await sink.close()
    sink = await open({ options: { ...options, lockTimeoutMs: 200 } })
    await write(plainBatch(0, 1))
    const holder = await hold(others)
    const error = await write(plainBatch(1, 2)).catch((error: unknown) => error)
    expect(error).toMatchObject({ message: expect.stringContaining('0 were ended') })
    holder.release()
    expect(await holder.ended).toBe('let go')
    await write(plainBatch(1, 2))
    expect(await stored()).toBe(2)
  })

  test('a connection cut in the middle of a COPY leaves nothing, and the batch again is stored once', async () => {
    const encoded = sink.encode(plainBatch(0, 300))
    const error = await others.transaction(async transaction => {
      await transaction.execute('LOCK TABLE messages IN EXCLUSIVE MODE')
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

  test('the counts of a partition are kept beside its position, and add up', async () => {
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
      'duplicate 2',
      'dead_lettered 2',
      'lost 0',
    ])
  })

  test('what the log deleted unread is counted beside the position, in both ways of a batch', async () => {
    const lossy = (from: number, name: string) => {
      const batch = batchOf(from, from, [{ offset: from + 5, records: [{ name, value: 1 }] }])
      batch.ranges.length = 0
      batch.cover(0, from, from + 6, 5)
      return batch
    }
    await write(lossy(0, 'n'))
    await write(lossy(6, 'n\0'))
    expect(await others.query('SELECT lost::int, skipped::int, received::int, dead_lettered::int FROM sluice.offsets')).toEqual([
      { lost: 10, skipped: 10, received: 2, dead_lettered: 1 },
    ])
  })

  test('a message replayed again is not stored again, even where it now decodes to another time, or its rows were deleted', async () => {
    const replayed = (at: number, timeUs: number) =>
      batchOf(at, at + 1, [{ offset: at, original: { log: 1, partition: 3, offset: 9 }, records: [{ value: 1, timeUs }] }])
    await write(replayed(0, noonUs))
    expect(await write(replayed(1, noonUs + 1))).toMatchObject([{ received: 1, duplicate: 1 }])
    await others.execute('DELETE FROM messages')
    expect(await write(replayed(2, noonUs))).toMatchObject([{ received: 1, duplicate: 1 }])
    expect(await others.query('SELECT position FROM sluice.replayed')).toEqual([{ position: (1n << 56n) | (3n << 44n) | 9n }])
    expect(await stored()).toBe(0)
  })

  test('a row that only an index refuses (54000) is found by its line too', async () => {
    await others.execute('CREATE INDEX names ON messages (name)')
    const name = Array.from({ length: 10_000 }, () => String.fromCharCode(33 + Math.floor(Math.random() * 94))).join('')
    const messages = Array.from({ length: 50 }, (_, offset) =>
      offset === 20 ? { offset, records: [{ value: 1 }, { name }] } : plain(offset),
    )
    await write(batchOf(0, 50, messages))
    expect(rejections).toEqual([
      { message: 20, record: 1, rule: 'store-refused', reason: expect.stringMatching(/54000.*index row/) as string },
    ])
    expect(await stored()).toBe(49)
    await others.execute('DROP INDEX names')
  })

  test('in the steady state a batch is one exchange with the server, whatever is in it', async () => {
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

  test('what was refused once is not tried again with the same encoded batch', async () => {
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

  test('a format table that was dropped is made again, and the batch is stored', async () => {
    const document = (offset: number) => batchOf(offset, offset + 1, [{ offset, documents: [{ format: 'engine', payload: { offset } }] }])
    await write(document(0))
    await others.execute('DROP TABLE formats.engine')
    await write(document(1))
    await others.execute(`DROP TABLE formats.engine; DELETE FROM sluice.formats`)
    await write(document(2))
    expect(await others.query('SELECT payload FROM formats.engine')).toEqual([{ payload: '{"offset": 2}' }])
    expect(await sink.positions?.([0])).toEqual(new Map([[0, 3]]))
  })

  test('a format table that is not registered is taken over', async () => {
    const document = (offset: number) => batchOf(offset, offset + 1, [{ offset, documents: [{ format: 'engine', payload: { offset } }] }])
    await write(document(0))
    await others.execute(`DELETE FROM sluice.formats`)
    await sink.close()
    sink = await open()
    await write(document(1))
    expect(await others.query('SELECT payload FROM formats.engine')).toHaveLength(2)
  })

  test.each([
    ['a column that is gone', 'ALTER TABLE messages DROP COLUMN unit'],
    ['a column of another type', 'ALTER TABLE messages ALTER COLUMN sum TYPE int'],
    ['the table gone', 'DROP TABLE messages'],
    ['a constraint of the operator', 'ALTER TABLE messages ADD CHECK (value < 0)'],
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

  test('an offsets row that an operator removed is fenced, not begun anew', async () => {
    await write(plainBatch(0, 2))
    await others.execute('DELETE FROM sluice.offsets')
    const error = await write(plainBatch(2, 3)).catch((error: unknown) => error)
    expect(sink.classify(error)).toBe('fenced')
    expect(await stored()).toBe(2)
  })

  test('and it is fenced after a connection that was lost in between, however often it is tried', async () => {
    await write(plainBatch(0, 2))
    const encoded = sink.encode(plainBatch(2, 3))
    const attempt = () => sink.write(encoded, keep, signal).catch((error: unknown) => sink.classify(error))
    await others.transaction(async transaction => {
      await transaction.execute('LOCK TABLE messages IN EXCLUSIVE MODE')
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

  test('an aborted write has not begun', async () => {
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

  test('127 logs have a number, and one more stops the writer', async () => {
    await others.execute(
      `INSERT INTO sluice.logs (number, name, id, writer) SELECT n, 'log-' || n, 'id', 'writer-1' FROM generate_series(2, 126) AS n`,
    )
    expect((await open({ logName: 'last' })).logNumber).toBe(127)
    await expect(open({ logName: 'more' })).rejects.toThrow(/127 logs.*"more"/)
  })
})
