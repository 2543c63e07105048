// A store that goes back under a running sink: to what it was some commits ago, as after an asynchronous failover or a restored backup.

import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { openSink } from '../../../sinks/postgres/sink.ts'
import type { MessageCounts } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { positionsOf } from '../../pipeline/positions.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { batchOf, plain, plainBatch } from '../batches.ts'
import { options } from './store.ts'

type PostgresSink = Awaited<ReturnType<typeof openSink>>
const signal = new AbortController().signal
const ignoreRefused = async () => undefined

describeWithPostgres('a store that was restored to an older state', postgres => {
  let url: string
  let database: Database
  /** Connected to another database of the server, so that it can put another one in the place of the sink's. */
  let operator: Database
  let sink: PostgresSink
  const write = (batch: RecordBatch) => sink.write(sink.encode(batch), ignoreRefused, signal)
  const name = () => new URL(url).pathname.slice(1)

  beforeEach(async () => {
    url = await postgres.createDatabase()
    operator = await openServer({ url: postgres.url, applicationName: 'operator', connectionsMax: 1 })
    database = await openServer({ url, applicationName: 'sluice', connectionsMax: 3 })
    sink = await withNumbers(openSink({ database, options, logs: [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }] }))
  })
  afterEach(async () => {
    await sink.close()
    await database.close()
    await operator.close()
  })

  /** The database as it is now; connections to it are ended, since PostgreSQL copies none that is in use. */
  async function keep(): Promise<void> {
    await endConnections()
    await operator.execute(`CREATE DATABASE ${name()}_before TEMPLATE ${name()}`)
  }

  async function goBack(): Promise<void> {
    await endConnections()
    await operator.execute(`ALTER DATABASE ${name()} RENAME TO ${name()}_lost`)
    await operator.execute(`ALTER DATABASE ${name()}_before RENAME TO ${name()}`)
  }

  async function endConnections(): Promise<void> {
    await operator.query('SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1', [name()])
  }

  /** Writes until the connections that were ended are replaced, as the pipeline does after a transient error. */
  async function writeAgain(batch: RecordBatch): Promise<readonly MessageCounts[] | 'fenced' | 'stale'> {
    const encoded = sink.encode(batch)
    for (;;) {
      try {
        return await sink.write(encoded, ignoreRefused, signal)
      } catch (error) {
        const errorClass = sink.classify(error)
        if (errorClass === 'fenced' || errorClass === 'stale') return errorClass
        expect(errorClass).toBe('transient')
      }
    }
  }

  const rows = async () => (await database.query<{ value: number }>('SELECT value FROM messages ORDER BY position')).map(row => row.value)

  test('fences a batch above its offset, and stores again what it lost', async () => {
    await write(plainBatch(0, 2))
    await keep()
    expect(await writeAgain(batchOf(2, 4, [plain(2), plain(3)]))).toMatchObject([{ stored: 2 }])
    await goBack()
    expect(await writeAgain(batchOf(4, 5, [plain(4)]))).toBe('fenced')
    expect(await database.query('SELECT next_offset FROM sluice.offsets')).toEqual([{ next_offset: 2n }])
    expect(await writeAgain(batchOf(2, 5, [plain(2), plain(3), plain(4)]))).toMatchObject([{ stored: 3 }])
    expect(await rows()).toEqual([0, 1, 2, 3, 4])
  })

  test('fences a partition that it no longer knows, and starts it again only after its position was requested', async () => {
    await keep()
    expect(await writeAgain(plainBatch(0, 2))).toMatchObject([{ stored: 2 }])
    await goBack()
    expect(await writeAgain(plainBatch(2, 3))).toBe('fenced')
    expect(await writeAgain(plainBatch(2, 3))).toBe('fenced')
    expect(await sink.positions?.([logPartition(0, 0)])).toEqual(new Map())
    expect(await writeAgain(plainBatch(0, 3))).toMatchObject([{ stored: 3 }])
    expect(await rows()).toEqual([0, 1, 2])
  })

  test('refuses a batch with a series that it lost, though its offsets are the same, and stores it with another number', async () => {
    await write(plainBatch(0, 1))
    await keep()
    const named = { offset: 1, records: [{ name: 'new', value: 1 }] }
    const poisoned = batchOf(1, 3, [named, { offset: 2, records: [{ stringValue: 'a\0b' }] }])
    // The number is committed, and the batch is not; before that the connections that were ended are replaced.
    const failed = () =>
      sink
        .write(sink.encode(poisoned), () => Promise.reject(new Error('no dead letters')), signal)
        .catch((error: unknown) => (error as Error).message)
    while ((await failed()) !== 'no dead letters');
    expect(await database.query(`SELECT count(*)::int FROM sluice.series`)).toEqual([{ count: 2 }])
    await goBack()
    expect(await writeAgain(batchOf(1, 2, [named]))).toBe('stale')
    await sink.positions?.([logPartition(0, 0)])
    expect(await writeAgain(batchOf(1, 2, [named]))).toMatchObject([{ stored: 1 }])
    expect(await rows()).toEqual([0, 1])
  })

  test('fences a partition whose position was requested and that is lost before its first batch', async () => {
    await keep()
    await writeAgain(plainBatch(0, 2))
    const other = await withNumbers(
      openSink({
        database,
        options,
        logs: [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }],
      }),
    )
    expect(await other.positions?.([logPartition(0, 0)])).toEqual(positionsOf({ 0: 2 }))
    await goBack()
    await sink.close()
    sink = other
    expect(await writeAgain(plainBatch(2, 3))).toBe('fenced')
    expect(await writeAgain(batchOf(2, 3, [plain(2)]))).toBe('fenced')
  })
})
