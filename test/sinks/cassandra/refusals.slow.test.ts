// What a real Cassandra holds of messages that it refuses, before, during and after their replay, and where clocks differ.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import { keyLength, rowStatements } from '../../../sinks/cassandra/statements.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { batchOf, noonUs, plain } from '../batches.ts'
import { dropKeyspace, emptyStore, identity, optionsFor, refusedByServer, rowsOf } from './store.ts'

const never = new AbortController().signal
const nobody = async (): Promise<void> => undefined
const packed = (offset: number): bigint => (1n << 56n) | BigInt(offset)

describeWithCassandra('what Cassandra refuses', cassandra => {
  let options: SinkOptions
  let operator: Connection
  const closings: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    options = optionsFor(cassandra.contactPoint)
    operator = await openConnection(options, 'operator')
  })
  beforeEach(() => emptyStore(operator))
  afterEach(async () => {
    for (const close of closings.splice(0).toReversed()) await close()
  })
  afterAll(async () => {
    await dropKeyspace(operator)
    await operator.close()
  })

  async function open(logName = 'messages') {
    const connection = await openConnection(options, 'writer')
    const sink = await openSink({ connection, options, ...identity, logName })
    closings.push(
      () => connection.close(),
      () => sink.close(),
    )
    return sink
  }

  const offsets = async (): Promise<number[]> => (await rowsOf(operator)).map(({ position }) => Number(position & 0xfff_ffff_ffffn))

  test('a message that only the server refuses leaves none of its rows, and its dead letter is durable before they go', async () => {
    const sink = await open()
    const seen: (readonly Rejection[])[] = []
    const batch = batchOf(0, 3, [plain(0), refusedByServer(1), plain(2)])
    const counted = await sink.write(sink.encode(batch), async some => void seen.push(some), never)
    expect(counted).toMatchObject([{ received: 3, stored: 2, deadLettered: 1 }])
    expect(seen).toEqual([
      [
        expect.objectContaining({
          message: 1,
          record: 1,
          rule: 'store-refused',
          reason: expect.stringContaining('oversized mutation') as string,
        }),
      ],
    ])
    expect(await offsets()).toEqual([0, 2])
  })

  test('a text for which an index of an operator has no room is refused, and no other message with it', async () => {
    const sink = await open()
    await operator.change(`CREATE INDEX texts ON ${operator.table('messages')} (string_value)`)
    try {
      const rejections: Rejection[] = []
      const long = { offset: 1, records: [{ value: 1 }, { stringValue: 'x'.repeat(70_000) }] }
      const batch = batchOf(0, 3, [plain(0), long, plain(2)])
      const counted = await sink.write(sink.encode(batch), async some => void rejections.push(...some), never)
      expect(counted).toMatchObject([{ received: 3, stored: 2, deadLettered: 1 }])
      expect(rejections).toMatchObject([
        { message: 1, record: 1, rule: 'store-refused', reason: expect.stringContaining('Cannot index value of size') as string },
      ])
      expect(await offsets()).toEqual([0, 2])
    } finally {
      await operator.change(`DROP INDEX ${operator.table('texts')}`)
    }
  })

  test('its rows go also where an earlier attempt had written them, and none is asked for again', async () => {
    const sink = await open()
    const encoded = sink.encode(batchOf(0, 2, [refusedByServer(0), plain(1)]))
    const away = new Error('the dead letters are away')
    await expect(sink.write(encoded, () => Promise.reject(away), never)).rejects.toBe(away)
    expect((await offsets()).length).toBeGreaterThan(1)
    const seen: Rejection[] = []
    await sink.write(encoded, async some => void seen.push(...some), never)
    await sink.write(encoded, async some => void seen.push(...some), never)
    expect(seen.map(({ message }) => message)).toEqual([0])
    expect(await offsets()).toEqual([1])
  })

  test('a refused message that a machine whose clock is ahead has begun to write leaves none of its rows either', async () => {
    const sink = await open()
    // In a channel of its own, where the tombstones of that time harm nobody.
    const message = { ...refusedByServer(50), channel: 'ahead' }
    const [row] = sink.encode(batchOf(50, 51, [message])).tables[0]!.requests[0]!
    const client = await operator.client()
    await client.execute(row!.query, row!.params, { prepare: true, timestamp: (Date.now() + 3_600_000) * 1000 })
    expect(await offsets()).toEqual([50])
    const rejections: Rejection[] = []
    await sink.write(sink.encode(batchOf(50, 52, [message, plain(51)])), async some => void rejections.push(...some), never)
    expect(rejections).toHaveLength(1)
    expect(await offsets()).toEqual([51])
  })

  test('a message whose refused row is in the store already is stored, and none of its rows is taken away', async () => {
    const sink = await open()
    const refused = sink.encode(batchOf(0, 1, [refusedByServer(0)]))
    const [row] = refused.tables[0]!.requests.flat().filter(({ record }) => record === 1)
    // The same row as it was stored when the nodes took more: of what is in it only the key counts.
    const key = row!.params.slice(0, keyLength)
    await operator.query(
      `INSERT INTO ${operator.table('messages')} (channel, day, time_us, position, "index", subtopic, publisher, protocol, name) VALUES (?, ?, ?, ?, ?, '', '', '', 'large')`,
      key,
    )
    const rejections: Rejection[] = []
    const counted = await sink.write(refused, async some => void rejections.push(...some), never)
    expect(counted).toMatchObject([{ received: 1, stored: 1, deadLettered: 0 }])
    expect(rejections).toEqual([])
    expect((await rowsOf(operator)).map(({ index, name }) => [index, name === 'large'])).toEqual([
      [0, false],
      [1, true],
      [2, false],
    ])
  })

  test('a write that is refused and replayed when it is allowed is stored: no tombstone outlives it', async () => {
    const sink = await open()
    await sink.write(sink.encode(batchOf(0, 1, [refusedByServer(0)])), nobody, never)
    const replays = await open('messages.replays.writer-1')
    const replayed = { ...plain(0), original: { log: 1, partition: 0, offset: 0 } }
    await replays.write(replays.encode(batchOf(0, 1, [replayed])), nobody, never)
    expect(await offsets()).toEqual([0])
    expect(await operator.query(`SELECT position FROM ${operator.table('sluice_replayed')}`)).toMatchObject([{ position: packed(0) }])
  })

  test('a refused message that is replayed before its rows are deleted keeps them, and no other does', async () => {
    const sink = await open()
    const replays = await open('messages.replays.writer-1')
    const original = { log: 1, partition: 0, offset: 0 }
    const replay = async (): Promise<void> => {
      await replays.write(replays.encode(batchOf(0, 1, [{ ...plain(0), original }])), nobody, never)
    }
    await sink.write(sink.encode(batchOf(0, 2, [refusedByServer(0), refusedByServer(1)])), replay, never)
    expect(new Set(await offsets())).toEqual(new Set([0]))
  })

  test('a replayed message that a clock ahead has deleted is tried again, and not taken for stored', async () => {
    const replays = await open('messages.replays.writer-1')
    const { remove } = rowStatements(operator.keyspace, 'messages')
    const day = new Date(noonUs / 1000).toISOString().slice(0, 10)
    await operator.query(remove, ['channel-1', day, BigInt(noonUs), packed(7), 0], { timestamp: (Date.now() + 2_000) * 1000 })
    const encoded = replays.encode(batchOf(0, 1, [{ ...plain(7), original: { log: 1, partition: 0, offset: 7 } }]))
    const failed = await replays.write(encoded, nobody, never).catch((error: unknown) => error)
    expect(failed).toMatchObject({ errorClass: 'transient', message: expect.stringContaining('clock is ahead') as string })
    expect(await operator.query(`SELECT position FROM ${operator.table('sluice_replayed')}`)).toEqual([])
    await expect
      .poll(() =>
        replays.write(encoded, nobody, never).then(
          () => 'stored',
          () => 'failed',
        ),
      )
      .toBe('stored')
    expect(await offsets()).toEqual([7])
  })
})
