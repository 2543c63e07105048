// The retention deletes whole days that are too old, with their lists, and nothing that is registered; and how an erasure deletes a publisher's rows.

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import { deleteOldDays } from '../../../sinks/cassandra/day-registry.ts'
import { openErasure } from '../../../sinks/cassandra/erase.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { maintain } from '../../../sinks/cassandra/schema.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import type { Sink } from '../../../sinks/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { batchOf, plain, type TestMessage } from '../batches.ts'
import { dropKeyspace, emptyStore, identity, optionsFor, rowsOf } from './store.ts'

const dayMs = 86_400_000
const signal = new AbortController().signal
const ignoreRefused = async (): Promise<void> => undefined

describeWithCassandra('the retention of Cassandra', cassandra => {
  let options: SinkOptions
  let connection: Connection
  let sink: Sink
  const todayMs = Math.floor(Date.now() / dayMs) * dayMs
  const ago = (days: number) => (todayMs - days * dayMs + 3_600_000) * 1000

  beforeAll(async () => {
    options = optionsFor(cassandra.contactPoint, { retentionDays: 10, retentionChannels: ['short:5'] })
    connection = await openConnection(options, 'retention')
  })
  beforeEach(async () => {
    await emptyStore(connection)
    sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
  })
  afterAll(async () => {
    await dropKeyspace(connection)
    await connection.close()
  })

  const record = (offset: number, days: number): TestMessage => ({
    offset,
    channel: `channel-${offset % 3}`,
    records: [{ value: days, timeUs: ago(days) }],
  })
  const write = (messages: TestMessage[]) =>
    sink.write(sink.encode(batchOf(messages[0]!.offset, messages.at(-1)!.offset + 1, messages)), ignoreRefused, signal)
  const kept = async () => (await rowsOf(connection)).map(({ position }) => Number(position & 0xfff_ffff_ffffn))
  const count = async (table: string) =>
    Number((await connection.query(`SELECT count(*) AS rows FROM ${connection.table(table)}`))[0]!['rows'])

  test('days before the last ten and today are deleted, of records and documents, and the registry stays', async () => {
    const documents = (offset: number, days: number): TestMessage => ({
      offset,
      documents: [{ format: 'engine', payload: {}, createdUs: ago(days) }],
    })
    await write([record(0, 0), record(1, 10), record(2, 11), record(3, 400), documents(4, 9), documents(5, 12), record(6, -2)])
    await maintain(connection, { ...options, retentionDays: 0 })
    expect(await kept()).toHaveLength(7)
    await maintain(connection, options)
    expect(await kept()).toEqual([0, 1, 4, 6])
    expect(await count('sluice_channel_days')).toBe(4)
    expect(await count('sluice_publisher_days')).toBe(4)
    expect(await count('sluice_logs')).toBe(1)
    expect(await count('sluice_formats')).toBe(1)
  })

  test('a row of an old day that comes afterwards is listed, and deleted the next time', async () => {
    const short = (offset: number) => ({ ...record(offset, 6), channel: 'short' })
    await write([record(0, 20), short(1)])
    await maintain(connection, options)
    await write([record(3, 20), short(4)])
    expect(await kept()).toEqual([3, 4])
    expect(await count('sluice_channel_days')).toBe(2)
    await maintain(connection, options)
    expect(await kept()).toEqual([])
    expect(await count('sluice_channel_days')).toBe(0)
  })

  test('a format whose table was dropped does not prevent other deletions', async () => {
    await write([
      { offset: 0, documents: [{ format: 'engine', payload: {}, createdUs: ago(30) }] },
      { ...plain(1), records: [{ value: 1, timeUs: ago(30) }] },
    ])
    await connection.change(`DROP TABLE ${connection.table('engine')}`)
    await maintain(connection, options)
    expect(await count('messages')).toBe(0)
    expect(await count('sluice_channel_days')).toBe(0)
  })

  test('adjacent rows of an erased publisher are deleted by one tombstone, which takes no row that is written between them meanwhile', async () => {
    const row = (offset: number, publisher: string): TestMessage => ({
      offset,
      channel: 'shared',
      publisher,
      records: [{ value: offset, timeUs: ago(5) + offset }],
    })
    const publishers = ['a', 'a', 'b', 'a', 'a', 'a', 'b', 'a']
    await write(publishers.map((publisher, offset) => row(2 * offset, publisher)))
    let deletes = 0
    const watched: Connection = {
      ...connection,
      async query(cql, ...more) {
        if (!cql.startsWith('DELETE')) return connection.query(cql, ...more)
        if (deletes++ === 0) await write([row(7, 'b'), row(9, 'a')])
        return connection.query(cql, ...more)
      },
    }
    const anHourLater = () => Date.now() + 3_600_000
    expect(await openErasure(watched, anHourLater).erase({ publisher: 'a' }, signal, ignoreRefused)).toBe(6)
    expect(deletes).toBe(3)
    expect(await kept()).toEqual([4, 7, 9, 12])
    // Rows that were written just now are deleted one by one.
    deletes = 1
    await write([row(8, 'a')])
    expect(await openErasure(watched).erase({ channel: 'shared', publisher: 'a' }, signal, ignoreRefused)).toBe(2)
    expect([deletes, await kept()]).toEqual([3, [4, 7, 12]])
  })

  test('a bucket of several days is deleted when the last of them is too old', async () => {
    await write([record(0, 11)])
    await deleteOldDays(connection, { ...options, bucketDays: 7 })
    expect(await kept()).toEqual([0])
    await deleteOldDays(connection, { ...options, bucketDays: 7 }, Date.now() + 7 * dayMs)
    expect(await kept()).toEqual([])
  })
})
