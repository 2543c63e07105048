// What a real Cassandra holds of messages that it refuses, before and after their replay.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openReplaySink, openSink } from '../../../sinks/cassandra/sink.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { batchOf, plain } from '../batches.ts'
import { dropKeyspace, emptyStore, identity, optionsFor, refusedByServer, rowsOf } from './store.ts'

const never = new AbortController().signal
const ignoreRefused = async (): Promise<void> => undefined
const packed = (offset: number): bigint => (1n << 56n) | BigInt(offset)

describeWithCassandra('what Cassandra refuses', cassandra => {
  let options: SinkOptions
  let operator: Connection
  const cleanups: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    options = optionsFor(cassandra.contactPoint)
    operator = await openConnection(options, 'operator')
  })
  beforeEach(() => emptyStore(operator))
  afterEach(async () => {
    for (const close of cleanups.splice(0).toReversed()) await close()
  })
  afterAll(async () => {
    await dropKeyspace(operator)
    await operator.close()
  })

  async function open(logName = 'messages') {
    const connection = await openConnection(options, 'writer')
    const sink = await withNumbers(openSink({ connection, options, logs: [{ ...identity, logName }] }))
    cleanups.push(
      () => connection.close(),
      () => sink.close(),
    )
    return sink
  }

  const offsets = async (): Promise<number[]> => (await rowsOf(operator)).map(({ position }) => Number(position & 0xfff_ffff_ffffn))

  test('of a message that only the server refuses the stored rows stay, and its rejection says so', async () => {
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
          partial: true,
          reason: expect.stringContaining('oversized mutation') as string,
        }),
      ],
    ])
    const rows = await rowsOf(operator)
    const left = rows.filter(({ position }) => position === packed(1))
    expect(left.map(({ index }) => index)).not.toContain(1)
    expect(left.length).toBeGreaterThan(0)
    expect(rows).toHaveLength(2 + left.length)
  })

  test("a text that is too long for an operator's index is refused, and no other message", async () => {
    const sink = await open()
    await operator.change(`CREATE INDEX texts ON ${operator.table('messages')} (string_value)`)
    try {
      const rejections: Rejection[] = []
      const long = { offset: 1, records: [{ value: 1 }, { stringValue: 'x'.repeat(70_000) }] }
      const batch = batchOf(0, 3, [plain(0), long, plain(2)])
      const counted = await sink.write(sink.encode(batch), async some => void rejections.push(...some), never)
      expect(counted).toMatchObject([{ received: 3, stored: 2, deadLettered: 1 }])
      expect(rejections).toMatchObject([
        {
          message: 1,
          record: 1,
          rule: 'store-refused',
          partial: true,
          reason: expect.stringContaining('Cannot index value of size') as string,
        },
      ])
      expect(new Set(await offsets())).toEqual(new Set([0, 1, 2]))
    } finally {
      await operator.change(`DROP INDEX ${operator.table('texts')}`)
    }
  })

  test('a dead letter that cannot be written fails the write, and is requested once more, also by a writer that starts again', async () => {
    const away = new Error('the dead letters are away')
    for (let start = 0; start < 2; start++) {
      const sink = await open()
      const encoded = sink.encode(batchOf(0, 2, [refusedByServer(0), plain(1)]))
      await expect(sink.write(encoded, () => Promise.reject(away), never)).rejects.toBe(away)
      const requested: Rejection[] = []
      for (let time = 0; time < 2; time++) {
        const counted = await sink.write(encoded, async some => void requested.push(...some), never)
        expect(counted).toMatchObject([{ received: 2, stored: 1, deadLettered: 1 }])
      }
      expect(requested.map(({ message, partial }) => [message, partial])).toEqual([[0, true]])
      expect((await offsets()).filter(offset => offset === 1)).toEqual([1])
    }
  })

  test('a replay on a keyspace of another version stops', async () => {
    const sink = await open()
    const setVersion = (value: string) =>
      operator.query(`UPDATE ${operator.table('sluice_schema')} SET value = ? WHERE name = 'version' IF EXISTS`, [value])
    await setVersion('0')
    try {
      await expect(openReplaySink({ connection: operator, options, logNumber: sink.logNumbers[0]! })).rejects.toThrow(/have schema 0/)
    } finally {
      await setVersion('1')
    }
  })

  test('a refused message that is replayed when it is allowed is stored, over the rows that were left', async () => {
    const sink = await open()
    await sink.write(sink.encode(batchOf(0, 1, [refusedByServer(0)])), ignoreRefused, never)
    const replays = await openReplaySink({ connection: operator, options, logNumber: sink.logNumbers[0]! })
    const records = refusedByServer(0).records!.map(({ timeUs }, value) => ({ ...(timeUs === undefined ? {} : { timeUs }), value }))
    await replays.write(batchOf(0, 1, [{ offset: 0, records }]), new Set([0]), never)
    expect((await rowsOf(operator)).map(({ index, value }) => [index, value])).toEqual(records.map(({ value }) => [value, value]))
    expect(await operator.query(`SELECT position FROM ${operator.table('sluice_replayed')}`)).toMatchObject([{ position: packed(0) }])
  })
})
