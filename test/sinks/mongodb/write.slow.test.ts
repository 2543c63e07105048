// What a batch leaves in a MongoDB store: keys that are there already, rows of refused messages, what an operator has added, types.

import { type Db, Long, MongoClient } from 'mongodb'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Rejection } from '../../../sinks/sink.ts'
import { counts } from '../../conformance/sink/fixture.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { batchOf, noonUs, plain, plainBatch, type TestMessage } from '../batches.ts'
import { commonPoisons, ferretPoisons, type MongoStore, openStore, withTakenUpdateTime } from './store.ts'

const { signal } = new AbortController()

function suite(urlOf: () => string): void {
  let store: MongoStore
  let database: Db
  let rejections: Rejection[]
  const keep = async (some: readonly Rejection[]): Promise<void> => void rejections.push(...some)

  beforeEach(async () => {
    store = await openStore({ url: urlOf(), directUrl: urlOf(), poisons: { ...commonPoisons, ...ferretPoisons } })
    database = store.database
    rejections = []
  })
  afterEach(() => store.close())

  const values = async (): Promise<(number | undefined)[]> => (await store.rows()).map(({ value }) => value)

  test('a message of which some rows are there already is stored, and one of which all are is a duplicate', async () => {
    const sink = await store.open()
    const pairs = [0, 1].map((offset): TestMessage => ({ offset, records: [{ value: offset }, { value: offset + 0.5 }] }))
    await sink.write(sink.encode(batchOf(0, 2, pairs)), keep, signal)
    await database.collection('messages').deleteOne({ value: 0.5 })
    expect(await sink.write(sink.encode(batchOf(0, 2, pairs)), keep, signal)).toEqual([counts({ received: 2, stored: 1, duplicate: 1 })])
    expect(await values()).toEqual([0, 0.5, 1, 1.5])
    await sink.close()
  })

  test('more rows than one insert takes, all there already, are duplicates', async () => {
    const sink = await store.open()
    await sink.write(sink.encode(plainBatch(0, 2500)), keep, signal)
    expect(await sink.write(sink.encode(plainBatch(0, 2500)), keep, signal)).toEqual([counts({ received: 2500, duplicate: 2500 })])
    expect(rejections).toEqual([])
    await sink.close()
  })

  test('a refused message that is in the store whole, from before it was refused, stays and is a duplicate', async () => {
    const sink = await store.open()
    const message: TestMessage = { offset: 0, records: [{ value: 1 }, { value: 2, updateTime: 7 }] }
    await sink.write(sink.encode(batchOf(0, 1, [message])), keep, signal)
    expect(await sink.write(sink.encode(batchOf(0, 1, [message])), keep, signal)).toEqual([counts({ received: 1, duplicate: 1 })])
    expect(rejections).toEqual([])
    expect(await values()).toEqual([1, 2])
    await sink.close()
  })

  test('the dead letter is durable before the other rows of its message go, and they go also where that fails at first', async () => {
    const sink = await store.open()
    const encoded = sink.encode(batchOf(0, 2, [withTakenUpdateTime(0), plain(1)]))
    let atReject: (number | undefined)[] = []
    const failing = async (): Promise<void> => {
      atReject = await values()
      throw new Error('the dead letters are away')
    }
    await expect(sink.write(encoded, failing, signal)).rejects.toThrow('the dead letters are away')
    expect(atReject).toContain(1)
    expect(await values()).toHaveLength(2)
    expect(await sink.write(encoded, keep, signal)).toEqual([counts({ received: 2, duplicate: 1, deadLettered: 1 })])
    expect(rejections.map(({ message, record, rule }) => [message, record, rule])).toEqual([[0, 1, 'store-refused']])
    expect(rejections[0]!.reason).toMatch(/code 11000/)
    expect(rejections[0]!.hint).toMatch(/unique index/)
    expect(await store.rows()).toHaveLength(1)
    await sink.close()
  })

  test('a writer that ended between the dead letter and the deletion: the next one deletes', async () => {
    const first = await store.open()
    const batch = batchOf(0, 2, [withTakenUpdateTime(0), plain(1)])
    const gone = first.write(
      first.encode(batch),
      () => {
        throw new Error('gone')
      },
      signal,
    )
    await expect(gone).rejects.toThrow('gone')
    const next = await store.open()
    await next.write(next.encode(batch), keep, signal)
    expect(await store.rows()).toHaveLength(1)
    expect(rejections).toHaveLength(1)
    await first.close()
    await next.close()
  })

  test('all that is known before is rejected before a row is sent: sizes, levels, names, ids', async () => {
    const sink = await store.open()
    const large = 'x'.repeat(16 * 1024 * 1024)
    let deep: TestMessage['documents'] = [{ format: 'engine', payload: {} }]
    for (let level = 0; level < 110; level++) deep = [{ format: 'engine', payload: { a: deep[0]!.payload } }]
    const bad: [Partial<TestMessage>, string, RegExp][] = [
      [{ records: [{ value: 1 }, { stringValue: large }] }, 'store-refused', /16777216 bytes/],
      [{ records: [{ value: 1 }, { dataValue: Buffer.alloc(16 * 1024 * 1024) }] }, 'store-refused', /16777216 bytes/],
      [{ records: [{ value: 1 }, { name: 'a\ud800', value: 2 }] }, 'store-refused', /name.*surrogate/],
      [{ records: [{ value: 1 }, { unit: '\udc00', value: 2 }] }, 'store-refused', /unit.*surrogate/],
      [{ records: [{ value: 1 }, { stringValue: '\ud800' }] }, 'store-refused', /text.*surrogate/],
      [{ channel: '\ud800', records: [{ value: 1 }] }, 'store-refused', /channel.*surrogate/],
      [{ publisher: '\ud800', records: [{ value: 1 }] }, 'store-refused', /publisher.*surrogate/],
      [{ subtopic: '\ud800', records: [{ value: 1 }] }, 'store-refused', /subtopic.*surrogate/],
      [{ publisher: 'p'.repeat(2100), records: [{ value: 1 }] }, 'identifier-length', /2048/],
      [
        {
          documents: [
            { format: 'engine', payload: {} },
            { format: 'engine', payload: { 'a\0b': 1 } },
          ],
        },
        'store-refused',
        /NUL/,
      ],
      [{ documents: [{ format: 'engine', payload: { a: '\ud800' } }] }, 'store-refused', /surrogate/],
      [{ documents: [{ format: 'engine', payload: { '\ud800': 1 } }] }, 'store-refused', /surrogate/],
      [{ documents: [{ format: 'engine', payload: { a: 10n ** 400n } }] }, 'store-refused', /largest double/],
      [{ documents: [{ format: 'engine', payload: { a: large } }] }, 'store-refused', /16777216 bytes/],
      [{ documents: [{ format: 'engine', payload: {}, createdUs: 2 ** 54 }] }, 'store-refused', /2262/],
      [{ documents: deep }, 'store-refused', /100 levels/],
    ]
    const messages = bad.map(([message], offset): TestMessage => ({ offset, ...message }))
    let there = -1
    const look = async (some: readonly Rejection[]): Promise<void> => {
      there = (await store.rows()).length
      await keep(some)
    }
    const [counted] = await sink.write(sink.encode(batchOf(0, bad.length + 1, [...messages, plain(bad.length)])), look, signal)
    expect(counted).toEqual(counts({ received: bad.length + 1, stored: 1, deadLettered: bad.length }))
    expect(there).toBe(0)
    // Their formats, too: nothing of them is stored.
    expect(await database.collection('sluice.formats').countDocuments()).toBe(0)
    expect(rejections.map(({ rule }) => rule)).toEqual(bad.map(([, rule]) => rule))
    for (const [at, [, , reason]] of bad.entries()) expect(rejections[at]!.reason).toMatch(reason)
    expect(rejections.every(({ hint }) => hint !== undefined)).toBe(true)
    expect(await values()).toEqual([bad.length])
    await sink.close()
  })

  test('documents that are nearly as large as MongoDB takes are stored, several in one batch', async () => {
    const sink = await store.open()
    const text = 'x'.repeat(15 * 1024 * 1024)
    const messages = [0, 1, 2, 3].map((offset): TestMessage => ({ offset, records: [{ stringValue: text }] }))
    expect(await sink.write(sink.encode(batchOf(0, 4, messages)), keep, signal)).toEqual([counts({ received: 4, stored: 4 })])
    expect(await database.collection('messages').countDocuments({ channel: 'channel-1' })).toBe(4)
    await sink.close()
  })

  test('a replay that is refused where the same message is stored takes none of its rows with it', async () => {
    const sink = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
    const original = { log: 1, partition: 7, offset: 100 }
    const good: TestMessage = { offset: 1, original, records: [{ value: 1 }, { value: 2 }] }
    await sink.write(sink.encode(batchOf(0, 2, [{ ...withTakenUpdateTime(0), original }, good])), keep, signal)
    expect(rejections).toEqual([])
    expect(await values()).toEqual([1, 2])
    expect(await database.collection('sluice.replayed').countDocuments()).toBe(1)
    await sink.close()
  })

  test('a refused message that is replayed before its rows are deleted keeps them, and no other does', async () => {
    const sink = await store.open()
    const replays = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
    const original = { log: 1, partition: 0, offset: 0 }
    const replay = async (): Promise<void> => {
      await database.collection('messages').dropIndex('updateTime_1')
      await replays.write(replays.encode(batchOf(7, 8, [{ ...withTakenUpdateTime(7), original }])), keep, signal)
    }
    const [counted] = await sink.write(sink.encode(batchOf(0, 2, [withTakenUpdateTime(0), withTakenUpdateTime(1)])), replay, signal)
    expect(counted).toEqual(counts({ received: 2, deadLettered: 2 }))
    expect(await values()).toEqual([1, 2])
    await sink.close()
    await replays.close()
  })

  test('a replay is noted once, also by a writer that finds its rows there', async () => {
    const sink = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
    const replay: TestMessage = { ...plain(100), offset: 0, original: { log: 1, partition: 7, offset: 100 } }
    await sink.write(sink.encode(batchOf(0, 1, [replay])), keep, signal)
    await database.collection('sluice.replayed').deleteMany({})
    for (let time = 0; time < 2; time++) await sink.write(sink.encode(batchOf(0, 1, [replay])), keep, signal)
    const noted = await database.collection('sluice.replayed').find().toArray()
    expect(noted.map(({ _id }) => _id as unknown)).toEqual([(1n << 56n) | (7n << 44n) | 100n])
    await sink.close()
  })

  test('a replay that leaves no row is not noted: it is empty now, filtered, or dead-lettered before', async () => {
    const sink = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
    const original = (offset: number) => ({ log: 1, partition: 7, offset })
    const replays: TestMessage[] = [
      { offset: 0, original: original(100) },
      { offset: 1, original: original(101), outcome: 'filtered' },
      { offset: 2, original: original(102), outcome: 'deadLettered' },
      { ...plain(3), original: original(103) },
    ]
    await sink.write(sink.encode(batchOf(0, 4, replays)), keep, signal)
    const noted = await database.collection('sluice.replayed').find().toArray()
    expect(noted.map(({ _id }) => _id as unknown)).toEqual([(1n << 56n) | (7n << 44n) | 103n])
    await sink.close()
  })

  test('values have one type each, and the numbers of a payload the one that holds them', async () => {
    const sink = await store.open()
    const payload = {
      int: 1,
      negative: -(2 ** 31),
      beyond: 2 ** 31,
      zero: -0,
      half: 0.5,
      large: 2n ** 63n - 1n,
      larger: 2n ** 64n,
      even: 2 ** 53 + 2,
    }
    await sink.write(
      sink.encode(
        batchOf(0, 2, [
          { offset: 0, records: [{ value: 1, sum: 2, updateTime: 3, unit: 'Cel' }] },
          { offset: 1, documents: [{ format: 'engine', payload, createdRestNs: 7 }] },
        ]),
      ),
      keep,
      signal,
    )
    const exact = new MongoClient(urlOf(), { promoteValues: false, promoteLongs: false })
    const record = await exact.db().collection('messages').findOne({ channel: 'channel-1' })
    const typeOf = (value: unknown): string =>
      (value as Record<string, string | undefined>)['_bsontype'] ?? (value as object).constructor.name
    const types = Object.fromEntries(Object.entries(record!).map(([name, value]) => [name, typeOf(value)]))
    const texts = { channel: 'String', subtopic: 'String', publisher: 'String', protocol: 'String', name: 'String', unit: 'String' }
    const numbers = { timeUs: 'Long', value: 'Double', sum: 'Double', updateTime: 'Double' }
    expect(types).toEqual({ _id: 'Binary', ...texts, time: 'Date', ...numbers })
    const document = await exact.db().collection('engine').findOne()
    expect(Long.isLong(document!['created'])).toBe(true)
    expect(String(document!['created'])).toBe(`${noonUs}007`)
    expect(document!['createdAt']).toEqual(new Date(noonUs / 1000))
    const found = document!['payload'] as Record<string, unknown>
    const kinds = Object.fromEntries(Object.entries(found).map(([name, value]) => [name, typeOf(value)]))
    const [double, int32] = ['Double', 'Int32']
    expect(kinds).toEqual({
      int: int32,
      negative: int32,
      beyond: double,
      zero: double,
      half: double,
      large: 'Long',
      larger: double,
      even: double,
    })
    await exact.close()
    await sink.close()
  })

  test('keys that a driver takes for its own are data', async () => {
    const sink = await store.open()
    const payload = JSON.parse(
      '{"_bsontype":"Long","low":1,"high":2,"d":{"_bsontype":"ObjectId"},"__proto__":{"a":1},"constructor":2,"toBSON":3,"":4}',
    ) as Record<string, number>
    await sink.write(sink.encode(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'engine', payload }] }])), keep, signal)
    const [row] = await store.rows()
    expect(JSON.stringify(row!.payload)).toBe(JSON.stringify(payload))
    await sink.close()
  })
}

describeWithMongo('FerretDB', mongo => {
  suite(() => `${mongo.url}write`)

  test('a format whose name the server takes for no collection is rejected, and the others are stored', async () => {
    const url = `${mongo.url}names`
    const store = await openStore({ url, directUrl: url, poisons: {} })
    const sink = await store.open()
    const messages = ['_ferretdb_x', 'engine'].map((format, offset): TestMessage => ({ offset, documents: [{ format, payload: {} }] }))
    const rejections: Rejection[] = []
    await sink.write(sink.encode(batchOf(0, 2, messages)), async some => void rejections.push(...some), signal)
    expect(rejections).toEqual([
      expect.objectContaining({ message: 0, rule: 'store-refused', reason: expect.stringMatching(/_ferretdb_x/) as string }),
    ])
    expect(await store.rows()).toHaveLength(1)
    expect(await store.database.collection('sluice.formats').distinct('_id')).toEqual(['engine'])
    await sink.close()
    await store.close()
  })
})

const real = process.env['MONGODB_URL']
if (real !== undefined) {
  describe('the server of MONGODB_URL', () => {
    const url = new URL(real)
    url.pathname = '/sluice_write'
    suite(() => url.href)

    test('a validator of an operator refuses a message, with its code and a hint, and no other; what was stored before stays', async () => {
      const store = await openStore({ url: url.href, directUrl: url.href, poisons: {} })
      const sink = await store.open()
      const rejections: Rejection[] = []
      const keep = async (some: readonly Rejection[]): Promise<void> => void rejections.push(...some)
      await sink.write(sink.encode(plainBatch(0, 3)), keep, signal)
      await store.database.command({ collMod: 'messages', validator: { value: { $lt: 2 } } })
      const pair: TestMessage = { offset: 3, records: [{ value: 1 }, { value: 9 }] }
      const counted = await sink.write(sink.encode(batchOf(0, 5, [plain(0), plain(1), plain(2), pair, { offset: 4 }])), keep, signal)
      expect(counted).toEqual([counts({ received: 5, duplicate: 3, deadLettered: 1, empty: 1 })])
      expect(rejections).toEqual([expect.objectContaining({ message: 3, record: 1, hint: expect.stringMatching(/validator/) as string })])
      expect((await store.rows()).map(({ value }) => value)).toEqual([0, 1, 2])
      await sink.close()
      await store.close()
    })

    test('keys with dots and dollars, and arrays in arrays, are data', async () => {
      const store = await openStore({ url: url.href, directUrl: url.href, poisons: {} })
      const sink = await store.open()
      const payload = { 'a.b': 1, $set: { $x: 2 }, list: [[1, [2]]] }
      await sink.write(
        sink.encode(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'engine', payload }] }])),
        async () => undefined,
        signal,
      )
      expect((await store.rows())[0]!.payload).toEqual(payload)
      await sink.close()
      await store.close()
    })

    test('a write concern that cannot be had stops the writer with what to do', async () => {
      const store = await openStore({ url: url.href, directUrl: url.href, options: { writeConcern: 'nowhere' }, poisons: {} })
      const sink = await store.open()
      const writing = sink.write(sink.encode(plainBatch(0, 1)), async () => undefined, signal)
      await expect(writing).rejects.toThrow(/write_concern/)
      await sink.close()
      await store.close()
    })
  })
}
