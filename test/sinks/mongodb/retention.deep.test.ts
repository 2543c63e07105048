// What the option `retention_days` deletes, and what it leaves.

import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import { maintain } from '../../../sinks/mongodb/schema.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { batchOf, noonUs, type TestMessage } from '../batches.ts'
import { type MongoStore, openStore, optionsOf } from './store.ts'

const dayUs = 86_400_000_000
const now = new Date(noonUs / 1000)
const { signal } = new AbortController()

describeWithMongo('FerretDB', mongo => {
  let store: MongoStore
  let connection: Connection
  const url = (): string => `${mongo.url}retention`

  beforeEach(async () => {
    store = await openStore({ url: url(), directUrl: url(), poisons: {} })
    connection = await openConnection(optionsOf(url()), 'maintenance')
  })
  afterEach(async () => {
    await connection.close()
    await store.close()
  })

  async function write(messages: readonly TestMessage[]): Promise<void> {
    const sink = await store.open()
    await sink.write(sink.encode(batchOf(0, messages.length, messages)), async () => undefined, signal)
    await sink.close()
  }
  const offsets = async (): Promise<number[]> => (await store.rows()).map(({ position }) => Number(position & 0xfff_ffff_ffffn))

  test('records by their time and documents by their creation time, in every channel, to the microsecond; the registries stay', async () => {
    const times = [noonUs - 7 * dayUs - 1, noonUs - 7 * dayUs, noonUs, noonUs + dayUs]
    const messages = ['', 'a', 'a b', '😀'].flatMap((channel, nth) =>
      times.map((timeUs, at): TestMessage => ({ offset: nth * 8 + at, channel, records: [{ timeUs, value: 1 }] })),
    )
    const documents = times.map(
      (createdUs, at): TestMessage => ({ offset: 100 + at, documents: [{ format: 'engine', payload: {}, createdUs }] }),
    )
    await write([...messages, ...documents])
    await maintain(connection, optionsOf(url(), { retentionDays: 7 }), now)
    expect(await offsets()).toEqual([1, 2, 3, 9, 10, 11, 17, 18, 19, 25, 26, 27, 101, 102, 103])
    expect(await store.database.collection('sluice.formats').countDocuments()).toBe(1)
    expect(await store.database.collection('sluice.logs').countDocuments()).toBe(1)
    await maintain(connection, optionsOf(url(), { retentionDays: 7 }), now)
    expect(await offsets()).toHaveLength(15)
  })

  test('0 keeps everything', async () => {
    await write([{ offset: 0, records: [{ timeUs: 1, value: 1 }] }])
    await maintain(connection, optionsOf(url()), now)
    expect(await offsets()).toEqual([0])
  })

  test('more rows than one statement deletes', async () => {
    const records = Array.from({ length: 2_300 }, (_, value) => ({ value, timeUs: noonUs - 100 * dayUs }))
    await write([
      { offset: 0, records },
      { offset: 1, records: [{ value: 1 }] },
    ])
    await maintain(connection, optionsOf(url(), { retentionDays: 7 }), now)
    expect(await offsets()).toEqual([1])
  })
})
