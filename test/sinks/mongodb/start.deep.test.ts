// How a sink starts: many at once on an empty database, and in a database of another program.

import type { Db, MongoClient } from 'mongodb'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import type { SinkOptions } from '../../../sinks/mongodb/options.ts'
import { readFormats, readLogs } from '../../../sinks/mongodb/registry.ts'
import { classify, openSink } from '../../../sinks/mongodb/sink.ts'
import { logsOf, type SinkIdentity, withNumbers } from '../../conformance/sink/fixture.ts'
import { startConformance } from '../../conformance/sink/starts.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { batchOf, plain } from '../batches.ts'
import { openOperator, optionsOf, rowsOf } from './store.ts'

const { signal } = new AbortController()
const ignoreRefused = async (): Promise<void> => undefined

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
  const rowIndexNames = (time: string): string[] =>
    ['_id_', `channel_1_${time}_-1__id_-1`, `channel_1_publisher_1_${time}_-1__id_-1`].sort()

  startConformance('MongoDB', async () => ({
    open,
    logs: () => readLogs(database),
    formats: async () => (await readFormats(database)).map(({ _id, channel }) => ({ format: _id, channel })),
    rowCount: async () => (await rowsOf(database)).length,
    async expectOneSchema() {
      expect(new Set((await readFormats(database)).map(({ number }) => number))).toEqual(new Set([1, 2, 3]))
      expect(await indexNames('messages')).toEqual(rowIndexNames('timeUs'))
      expect(await indexNames('engine-0')).toEqual(rowIndexNames('created'))
      expect(await indexNames('sluice.formats')).toEqual(['_id_', 'number_1'])
    },
  }))

  test('a registered format whose collection was not created, since the writer ended, gets it', async () => {
    await (await open()).close()
    await database
      .collection('sluice.formats')
      .insertOne({ _id: 'engine' as never, number: 1, collection: 'engine', channel: 'channel-1', createdAt: new Date() })
    const sink = await open()
    await sink.write(sink.encode(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'engine', payload: {} }] }])), ignoreRefused, signal)
    expect(await indexNames('engine')).toHaveLength(3)
  })

  test('numbers that an operator has deleted are not assigned again, and do no harm', async () => {
    const first = await open()
    const documents = ['a', 'b', 'c'].map((format, offset) => ({ offset, documents: [{ format, payload: {} }] }))
    await first.write(first.encode(batchOf(0, 3, documents)), ignoreRefused, signal)
    await database.collection('sluice.formats').deleteOne({ _id: 'b' as never })
    const second = await open()
    await second.write(second.encode(batchOf(3, 4, [{ offset: 3, documents: [{ format: 'd', payload: {} }] }])), ignoreRefused, signal)
    const formats = await database.collection('sluice.formats').find().sort({ number: 1 }).toArray()
    expect(formats.map(({ _id, number }) => `${String(_id)} ${number}`)).toEqual(['a 1', 'c 3', 'd 4'])
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
    await sink.write(sink.encode(batchOf(0, 1, [plain(0)])), ignoreRefused, signal)
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
