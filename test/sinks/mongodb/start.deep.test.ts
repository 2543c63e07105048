// How a sink starts: ten at once on an empty database, of one writer and of two, and in a database that is none of ours.

import type { Db, MongoClient } from 'mongodb'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import type { EncodedBatch } from '../../../sinks/mongodb/encode.ts'
import type { SinkOptions } from '../../../sinks/mongodb/options.ts'
import { classify, openSink } from '../../../sinks/mongodb/sink.ts'
import type { Rejection, Sink } from '../../../sinks/sink.ts'
import { logsOf, type SinkIdentity, withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { batchOf, plain, type TestMessage } from '../batches.ts'
import { identity, openOperator, optionsOf } from './store.ts'

const { signal } = new AbortController()
const nobody = async (): Promise<void> => undefined
const ten = Array.from({ length: 10 }, (_, nth) => nth)

describeWithMongo('the start of a MongoDB sink', mongo => {
  let url: string
  let operator: MongoClient
  let database: Db
  let databases = 0
  const connections: Connection[] = []

  async function open(
    { onNotice, ...given }: SinkIdentity & { onNotice?: (sentence: string) => void } = {},
    some: Partial<SinkOptions> = {},
  ) {
    const options = optionsOf(url, some)
    const connection = await openConnection(options, 'test')
    connections.push(connection)
    return await withNumbers(openSink({ connection, options, logs: logsOf(given), ...(onNotice === undefined ? {} : { onNotice }) }), given)
  }

  beforeEach(() => {
    url = `${mongo.url}start_${databases++}`
    operator = openOperator(url)
    database = operator.db()
  })
  afterEach(async () => {
    for (const connection of connections.splice(0)) await connection.close()
    await operator.close()
  })

  const indexNames = async (collection: string): Promise<string[]> =>
    (await database.collection(collection).listIndexes().toArray()).map(({ name }) => name as string).sort()

  test('ten workers of a writer at once: one number for the log, every index once, and each stores', async () => {
    const sinks = await Promise.all(ten.map(() => open()))
    expect(sinks.map(sink => sink.logNumbers[0]!)).toEqual(ten.map(() => 1))
    await Promise.all(
      sinks.map((sink, partition) => {
        const document = { offset: 50, documents: [{ format: `engine-${partition % 3}`, payload: {} }] }
        return sink.write(sink.encode(batchOf(0, 51, [plain(0), document], partition)), nobody, signal)
      }),
    )
    expect(await database.collection('sluice.logs').countDocuments()).toBe(1)
    expect(await database.collection('messages').countDocuments()).toBe(10)
    const formats = await database.collection('sluice.formats').find().sort({ number: 1 }).toArray()
    expect(formats.map(({ number }) => number as number)).toEqual([1, 2, 3])
    expect(formats.map(({ _id }) => String(_id)).sort()).toEqual(['engine-0', 'engine-1', 'engine-2'])
    for (const [collection, time] of [
      ['messages', 'timeUs'],
      ['engine-0', 'created'],
    ] as const) {
      expect(await indexNames(collection)).toEqual(
        ['_id_', `channel_1_${time}_-1__id_-1`, `channel_1_publisher_1_${time}_-1__id_-1`].sort(),
      )
    }
    expect(await indexNames('sluice.formats')).toEqual(['_id_', 'number_1'])
  })

  test('ten workers of two writers at once: one of the writers has the log, and the others get an error', async () => {
    const opened = await Promise.allSettled(ten.map(nth => open({ writer: `writer-${nth % 2}` })))
    const there = opened.filter(one => one.status === 'fulfilled')
    const refused = opened.filter(one => one.status === 'rejected')
    expect([there.length, refused.length]).toEqual([5, 5])
    expect(there.every(({ value }) => value.logNumbers[0] === 1)).toBe(true)
    for (const { reason } of refused) {
      expect(classify(reason)).toBe('systemic')
      expect(String(reason)).toMatch(/belong to the writer "writer-[01]" .*, but this writer is called "writer-[01]"/)
    }
    expect(await database.collection('sluice.logs').countDocuments()).toBe(1)
  })

  test('ten logs at once get ten numbers', async () => {
    const sinks = await Promise.all(ten.map(nth => open({ logName: `log-${nth}` })))
    expect(sinks.map(sink => sink.logNumbers[0]!).sort((one, other) => one - other)).toEqual(ten.map(nth => nth + 1))
  })

  test('ten that add formats at once, of one channel and of many, do not exceed the limits', async () => {
    const rejections: Rejection[] = []
    const keep = async (some: readonly Rejection[]): Promise<void> => void rejections.push(...some)
    const sinks: Sink<EncodedBatch>[] = await Promise.all(ten.map(() => open({}, { formatsMax: 12, formatsPerChannelMax: 5 })))
    await Promise.all(
      sinks.map((sink, partition) => {
        const messages: TestMessage[] = [0, 1, 2].map(offset => ({
          offset,
          channel: partition < 5 ? 'channel-1' : `channel-${partition}`,
          documents: [{ format: `format-${partition}-${offset}`, payload: {} }],
        }))
        return sink.write(sink.encode(batchOf(0, 3, messages, partition)), keep, signal)
      }),
    )
    const formats = await database.collection('sluice.formats').find().toArray()
    expect(formats).toHaveLength(12)
    expect(formats.filter(({ channel }) => channel === 'channel-1').length).toBeLessThanOrEqual(5)
    expect(rejections).toHaveLength(18)
    expect(new Set(rejections.map(({ rule }) => rule))).toEqual(new Set(['format-limit']))
  })

  test('a registered format whose collection was not created, since the writer ended, gets it', async () => {
    await (await open()).close()
    await database
      .collection('sluice.formats')
      .insertOne({ _id: 'engine' as never, number: 1, collection: 'engine', channel: 'channel-1', createdAt: new Date() })
    const sink = await open()
    await sink.write(sink.encode(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'engine', payload: {} }] }])), nobody, signal)
    expect(await indexNames('engine')).toHaveLength(3)
  })

  test('numbers that an operator has deleted are not assigned again, and do no harm', async () => {
    const first = await open()
    const documents = ['a', 'b', 'c'].map((format, offset) => ({ offset, documents: [{ format, payload: {} }] }))
    await first.write(first.encode(batchOf(0, 3, documents)), nobody, signal)
    await database.collection('sluice.formats').deleteOne({ _id: 'b' as never })
    const second = await open()
    await second.write(second.encode(batchOf(3, 4, [{ offset: 3, documents: [{ format: 'd', payload: {} }] }])), nobody, signal)
    const formats = await database.collection('sluice.formats').find().sort({ number: 1 }).toArray()
    expect(formats.map(({ _id, number }) => `${String(_id)} ${number}`)).toEqual(['a 1', 'c 3', 'd 4'])
  })

  test('a log that the writer has read before into another store is not started in the middle', async () => {
    const options = optionsOf(url)
    const connection = await openConnection(options, 'test')
    connections.push(connection)
    const opening = withNumbers(openSink({ connection, options, logs: [{ ...identity, hasCommits: async () => true }] }))
    await expect(opening).rejects.toThrow(/does not know the log "messages"/)
    expect(await database.collection('sluice.logs').countDocuments()).toBe(0)
    await (
      await withNumbers(openSink({ connection, options, logs: [{ ...identity, hasCommits: async () => true, acceptNewLog: 'id-1' }] }))
    ).close()
  })

  test('the log that was accepted last is the one that is written from, whatever the clocks say', async () => {
    await (await open()).close()
    await database.collection('sluice.logs').updateOne({ _id: 1 as never }, { $set: { acceptedAt: new Date(Date.now() + 3_600_000) } })
    expect((await open({ logId: 'id-2', acceptNewLog: 'id-2' })).logNumbers[0]).toBe(2)
    expect((await open({ acceptNewLog: 'id-1' })).logNumbers[0]).toBe(1)
    expect((await open()).logNumbers[0]).toBe(1)
    await expect(open({ logId: 'id-2' })).rejects.toThrow(/id-2/)
  })

  test('a store of a later version is not opened', async () => {
    await database.collection('sluice.schema').insertOne({ _id: 2 as never, createdAt: new Date() })
    const error: unknown = await open().catch((error: unknown) => error)
    expect(classify(error)).toBe('systemic')
    expect(String(error)).toMatch(/schema 2, and this version knows 1.*start that version/)
    expect(await database.collection('sluice.logs').countDocuments()).toBe(0)
  })

  test('an index of an operator with our name and other keys is reported, and the sink stores', async () => {
    await database.collection('messages').createIndex({ name: 1 }, { name: 'channel_1_timeUs_-1__id_-1' })
    const notices: string[] = []
    const sink = await open({ onNotice: sentence => void notices.push(sentence) })
    await sink.write(sink.encode(batchOf(0, 1, [plain(0)])), nobody, signal)
    expect(notices).toEqual([expect.stringMatching(/"messages" lacks the indexes channel_1_timeUs_-1__id_-1/)])
    expect(await indexNames('messages')).toHaveLength(3)
  })

  test('an index with the same keys under another name is accepted', async () => {
    await database.collection('messages').createIndex({ channel: 1, timeUs: -1, _id: -1 }, { name: 'mine' })
    const notices: string[] = []
    await open({ onNotice: sentence => void notices.push(sentence) })
    expect(notices).toEqual([])
    expect(await indexNames('messages')).toHaveLength(3)
  })
})
