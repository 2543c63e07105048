// What a write to a real Cassandra does beside storing rows: which days it lists, how it is given up.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection, type Row } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithOwnCassandra } from '../../servers/cassandra.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { batchOf, noonUs, plain, plainBatch } from '../batches.ts'
import { dropKeyspace, emptyStore, identity, optionsFor, rowsOf, through } from './store.ts'

const never = new AbortController().signal
const ignoreRefused = async (): Promise<void> => undefined

describeWithOwnCassandra('a write to Cassandra', cassandra => {
  let options: SinkOptions
  let operator: Connection
  let proxy: Proxy
  const cleanups: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    options = optionsFor(cassandra.contactPoint)
    operator = await openConnection(options, 'operator')
  })
  beforeEach(async () => {
    await emptyStore(operator)
    proxy = await openProxy({ port: Number(cassandra.contactPoint.split(':')[1]) })
    cleanups.push(() => proxy.close())
  })
  afterEach(async () => {
    for (const close of cleanups.splice(0).toReversed()) await close()
  })
  afterAll(async () => {
    await dropKeyspace(operator)
    await operator.close()
  })

  async function open(some: Partial<SinkOptions> = {}, logName = 'messages') {
    const own = { ...through(options, proxy.port), ...some }
    const connection = await openConnection(own, 'writer')
    const sink = await withNumbers(openSink({ connection, options: own, logs: [{ ...identity, logName }] }))
    cleanups.push(
      () => connection.close(),
      () => sink.close(),
    )
    return sink
  }

  const count = async (table: string): Promise<number> =>
    Number((await operator.query(`SELECT count(*) AS rows FROM ${operator.table(table)}`))[0]!['rows'])
  const offsets = async (): Promise<number[]> => (await rowsOf(operator)).map(({ position }) => Number(position & 0xfff_ffff_ffffn))

  test('columns without a value are left out, not null: no cell is written for them', async () => {
    const sink = await open()
    await sink.write(sink.encode(plainBatch(0, 1)), ignoreRefused, never)
    const client = await operator.client()
    const { info } = await client.execute(
      `SELECT * FROM ${operator.table('messages')} WHERE channel = 'channel-1' AND day = '2026-03-01'`,
      [],
      { traceQuery: true },
    )
    const live = async (): Promise<string> => {
      const events = await operator.query('SELECT activity FROM system_traces.events WHERE session_id = ?', [info.traceId], {
        consistency: 1,
      })
      return events.map((row: Row) => row['activity'] as string).find(activity => activity.includes('live rows')) ?? ''
    }
    await expect.poll(live).toMatch(/Read 1 live rows and 0 tombstone/)
    const [row] = await operator.query(
      `SELECT writetime(value) AS value, writetime(unit) AS unit, writetime(string_value) AS text FROM ${operator.table('messages')}`,
    )
    expect(row).toMatchObject({ unit: null, text: null, value: expect.any(BigInt) as bigint })
  })

  test('days are listed with their rows, once, and again by a sink that does not know them', async () => {
    const days = async (): Promise<string[]> => {
      const rows = await operator.query(`SELECT channel, publisher, format, day FROM ${operator.table('sluice_publisher_days')}`)
      return rows.map(row => [row['channel'], row['publisher'], row['format'], String(row['day'])].join(' ')).sort()
    }
    const sink = await open()
    const yesterday = noonUs - 86_400e6
    const records = [{ value: 1 }, { value: 2, timeUs: yesterday }, { value: 3, timeUs: -1 }]
    await sink.write(
      sink.encode(
        batchOf(0, 2, [
          { offset: 0, records },
          { offset: 1, publisher: 'thing-2', documents: [{ format: 'engine', payload: {} }] },
        ]),
      ),
      ignoreRefused,
      never,
    )
    expect(await days()).toEqual([
      'channel-1 thing-1 messages 1969-12-31',
      'channel-1 thing-1 messages 2026-02-28',
      'channel-1 thing-1 messages 2026-03-01',
      'channel-1 thing-2 engine 2026-03-01',
    ])
    expect(await count('sluice_channel_days')).toBe(4)
    await unlist()
    await sink.write(sink.encode(plainBatch(2, 3)), ignoreRefused, never)
    expect(await days()).not.toContain('channel-1 thing-1 messages 2026-03-01')
    const other = await open()
    await other.write(other.encode(plainBatch(2, 3)), ignoreRefused, never)
    expect(await days()).toContain('channel-1 thing-1 messages 2026-03-01')
  })

  /** As `maintain` may have done while a batch was tried again. */
  async function unlist(): Promise<void> {
    const day = "day = '2026-03-01'"
    await operator.query(
      `DELETE FROM ${operator.table('sluice_channel_days')} WHERE channel = 'channel-1' AND format = 'messages' AND ${day}`,
    )
    await operator.query(
      `DELETE FROM ${operator.table('sluice_publisher_days')} WHERE channel = 'channel-1' AND publisher = 'thing-1' AND format = 'messages' AND ${day}`,
    )
  }

  test('days of a failed write are listed again, also with a batch that was encoded before', async () => {
    const sink = await open()
    await sink.write(sink.encode(plainBatch(0, 1)), ignoreRefused, never)
    const encoded = sink.encode(plainBatch(1, 2))
    proxy.refuse()
    proxy.cut()
    await expect(sink.write(encoded, ignoreRefused, never)).rejects.toThrow()
    await unlist()
    await proxy.heal()
    await expect
      .poll(() =>
        sink.write(encoded, ignoreRefused, never).then(
          () => 'stored',
          () => 'failed',
        ),
      )
      .toBe('stored')
    expect([await count('sluice_channel_days'), await count('sluice_publisher_days')]).toEqual([1, 1])
  })

  test('a dropped table of a format is created again, and its batch stored', async () => {
    const sink = await open()
    const documents = (offset: number) => batchOf(offset, offset + 1, [{ offset, documents: [{ format: 'engine', payload: { offset } }] }])
    await sink.write(sink.encode(documents(0)), ignoreRefused, never)
    await operator.change(`DROP TABLE ${operator.table('engine')}`)
    expect(await sink.write(sink.encode(documents(1)), ignoreRefused, never)).toMatchObject([{ stored: 1 }])
    expect(await offsets()).toEqual([1])
  })

  test('a batch of many channels, with partitions of a few rows and single ones, is stored completely', async () => {
    const sink = await open()
    const messages = Array.from({ length: 3000 }, (_, offset) => ({
      ...plain(offset),
      channel: `channel-${offset % 7 === 0 ? offset : offset % 40}`,
      publisher: `thing-${offset % 3}`,
    }))
    await sink.write(sink.encode(batchOf(0, 3000, messages)), ignoreRefused, never)
    expect(new Set(await offsets()).size).toBe(3000)
  })

  test.each(['halted', 'half open'])(
    'a write to a server that is %s can be aborted at once, and is stored once when it is retried',
    async how => {
      // Nothing but the abort ends a request within the test.
      const sink = await open({ requestTimeoutMs: 600_000 })
      await sink.write(sink.encode(plainBatch(0, 1)), ignoreRefused, never)
      if (how === 'halted') cassandra.pause()
      else proxy.halfOpen()
      const encoded = sink.encode(plainBatch(1, 2000))
      const controller = new AbortController()
      const writing = sink.write(encoded, ignoreRefused, controller.signal).catch((error: unknown) => error)
      controller.abort(new Error('revoked'))
      expect(await writing).toMatchObject({ message: 'revoked' })
      if (how === 'halted') cassandra.resume()
      else await proxy.heal()
      // Lost connections stay lost.
      proxy.cut()
      const again = async () =>
        sink.write(encoded, ignoreRefused, never).then(
          () => 'stored',
          error => sink.classify(error),
        )
      await expect.poll(again).toBe('stored')
      expect(new Set(await offsets()).size).toBe(2000)
      expect(await count('messages')).toBe(2000)
    },
  )

  test('a paused server without an abort causes a time-out, which is transient', async () => {
    // The sink opens within the time-out, also on a busy machine.
    const sink = await open({ requestTimeoutMs: 5_000 })
    await sink.write(sink.encode(plainBatch(0, 1)), ignoreRefused, never)
    cassandra.pause()
    try {
      const error = await sink.write(sink.encode(plainBatch(0, 10)), ignoreRefused, never).catch((error: unknown) => error)
      expect(error).toMatchObject({ name: 'OperationTimedOutError' })
      expect(sink.classify(error)).toBe('transient')
    } finally {
      cassandra.resume()
    }
  })

  test('a slow network is not an error', async () => {
    const sink = await open()
    proxy.latency(100)
    expect(await sink.write(sink.encode(plainBatch(0, 2000)), ignoreRefused, never)).toMatchObject([{ stored: 2000 }])
  })

  test('nothing is sent after the signal has aborted', async () => {
    const sink = await open()
    const aborted = AbortSignal.abort(new Error('revoked'))
    await expect(sink.write(sink.encode(plainBatch(0, 10)), ignoreRefused, aborted)).rejects.toThrow('revoked')
    expect(await count('messages')).toBe(0)
  })
})
