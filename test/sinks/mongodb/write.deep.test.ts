// What a batch leaves in a MongoDB store: keys that are there already, rows of refused messages, what an operator has added, types.

import { type Db, Long, MongoClient } from 'mongodb'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Rejection } from '../../../sinks/sink.ts'
import { counts } from '../../conformance/sink/fixture.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { openProxy } from '../../servers/process/proxy.ts'
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

  test('a message with some rows stored before is stored, and one with all rows stored before is a duplicate', async () => {
    const sink = await store.open()
    const pairs = [0, 1].map((offset): TestMessage => ({ offset, records: [{ value: offset }, { value: offset + 0.5 }] }))
    await sink.write(sink.encode(batchOf(0, 2, pairs)), keep, signal)
    await database.collection('messages').deleteOne({ value: 0.5 })
    expect(await sink.write(sink.encode(batchOf(0, 2, pairs)), keep, signal)).toEqual([counts({ received: 2, stored: 1, duplicate: 1 })])
    expect(await values()).toEqual([0, 0.5, 1, 1.5])
    await sink.close()
  })

  test('more rows than one insert can hold, all stored before, are duplicates', async () => {
    const sink = await store.open()
    await sink.write(sink.encode(plainBatch(0, 2500)), keep, signal)
    expect(await sink.write(sink.encode(plainBatch(0, 2500)), keep, signal)).toEqual([counts({ received: 2500, duplicate: 2500 })])
    expect(rejections).toEqual([])
    await sink.close()
  })

  test('a refused message that was stored completely before it was refused stays and is a duplicate', async () => {
    const sink = await store.open()
    const message: TestMessage = { offset: 0, records: [{ value: 1 }, { value: 2, updateTime: 7 }] }
    await sink.write(sink.encode(batchOf(0, 1, [message])), keep, signal)
    expect(await sink.write(sink.encode(batchOf(0, 1, [message])), keep, signal)).toEqual([counts({ received: 1, duplicate: 1 })])
    expect(rejections).toEqual([])
    expect(await values()).toEqual([1, 2])
    await sink.close()
  })

  test('of a refused message the stored rows stay, and its dead letter says so, even if that fails at first', async () => {
    const sink = await store.open()
    const encoded = sink.encode(batchOf(0, 2, [withTakenUpdateTime(0), plain(1)]))
    const failing = () => Promise.reject(new Error('the dead letters are away'))
    await expect(sink.write(encoded, failing, signal)).rejects.toThrow('the dead letters are away')
    expect(await sink.write(encoded, keep, signal)).toEqual([counts({ received: 2, duplicate: 1, deadLettered: 1 })])
    expect(rejections).toEqual([expect.objectContaining({ message: 0, record: 1, rule: 'store-refused', partial: true })])
    expect(rejections[0]!.reason).toMatch(/code 11000/)
    expect(rejections[0]!.hint).toMatch(/unique index/)
    expect(await values()).toEqual([1, 1])
    await sink.close()
  })

  test("rows from an earlier writer make a message's dead letter partial, unless it has a single row", async () => {
    const first = await store.open()
    const [refused] = withTakenUpdateTime(2).records?.slice(1) ?? []
    const batch = batchOf(0, 3, [withTakenUpdateTime(0), plain(1), { offset: 2, records: [refused!] }])
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
    expect(await store.rows()).toHaveLength(2)
    expect(rejections.map(({ message, partial }) => [message, partial])).toEqual([
      [0, true],
      [2, undefined],
    ])
    await first.close()
    await next.close()
  })

  test('what can be known before is rejected before a row is sent: sizes, keys, times, ids', async () => {
    const sink = await store.open()
    const large = 'x'.repeat(16 * 1024 * 1024)
    const bad: [Partial<TestMessage>, string, RegExp][] = [
      [{ records: [{ value: 1 }, { stringValue: large }] }, 'store-refused', /16777216 bytes/],
      [{ records: [{ value: 1 }, { dataValue: Buffer.alloc(16 * 1024 * 1024) }] }, 'store-refused', /16777216 bytes/],
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
      [{ documents: [{ format: 'engine', payload: { a: 10n ** 400n } }] }, 'store-refused', /largest double/],
      [{ documents: [{ format: 'engine', payload: { a: large } }] }, 'store-refused', /16777216 bytes/],
      [{ documents: [{ format: 'engine', payload: {}, createdUs: 2 ** 54 }] }, 'store-refused', /2262/],
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

  test('documents of almost the maximum size are stored, several in one batch', async () => {
    const sink = await store.open()
    const text = 'x'.repeat(15 * 1024 * 1024)
    const messages = [0, 1, 2, 3].map((offset): TestMessage => ({ offset, records: [{ stringValue: text }] }))
    expect(await sink.write(sink.encode(batchOf(0, 4, messages)), keep, signal)).toEqual([counts({ received: 4, stored: 4 })])
    expect(await database.collection('messages').countDocuments({ channel: 'channel-1' })).toBe(4)
    await sink.close()
  })

  test("a replay on a database without a writer's schema stops, and creates nothing", async () => {
    await database.dropDatabase()
    await expect(store.replays.openSink(1)).rejects.toThrow(/has schema 0, and this version needs 1: start its writer/)
    expect(await database.listCollections().toArray()).toEqual([])
  })

  test('a replay is recorded once, even if its rows exist already', async () => {
    const sink = await store.open()
    const replays = await store.replays.openSink(sink.logNumbers[0]!)
    await replays.write(batchOf(100, 101, [plain(100)], 7), new Set(), signal)
    await database.collection('sluice.replayed').deleteMany({})
    for (let time = 0; time < 2; time++) await replays.write(batchOf(100, 101, [plain(100)], 7), new Set(), signal)
    const noted = await database.collection('sluice.replayed').find().toArray()
    expect(noted.map(({ _id }) => _id as unknown)).toEqual([(1n << 56n) | (7n << 44n) | 100n])
    await sink.close()
  })

  test('each value has one type, and the numbers of a payload the smallest that fits', async () => {
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

  test('keys that a driver would interpret are data', async () => {
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

  test('a format whose name the server refuses as a collection is rejected, and the others are stored', async () => {
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

  test('a write that is aborted in the middle sends no further rows', async () => {
    const directUrl = `${mongo.url}aborted`
    const proxy = await openProxy({ port: Number(new URL(directUrl).port) })
    const url = directUrl.replace(/:\d+\//, `:${proxy.port}/`)
    // Nothing but an abort ends a request within the test.
    const options = { requestTimeoutMs: 3_600_000, connectTimeoutMs: 600_000, writesInFlight: 1 }
    const store = await openStore({ url, directUrl, options, poisons: {} })
    const sink = await store.open()
    const stopping = new AbortController()
    const cut = proxy.cutAfter(1_500_000)
    const writing = sink.write(sink.encode(plainBatch(0, 20_000)), async () => undefined, stopping.signal)
    void cut.then(() => stopping.abort(new Error('revoked')))
    await expect(writing).rejects.toThrow()
    const found = (await store.rows()).length
    expect(found).toBeLessThan(20_000)
    await sink.close()
    expect(await store.rows()).toHaveLength(found)
    await store.close()
    await proxy.close()
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

    test('a write concern that cannot be met stops the writer, and the error says what to do', async () => {
      const store = await openStore({ url: url.href, directUrl: url.href, options: { writeConcern: 'nowhere' }, poisons: {} })
      const sink = await store.open()
      const writing = sink.write(sink.encode(plainBatch(0, 1)), async () => undefined, signal)
      await expect(writing).rejects.toThrow(/write_concern/)
      await sink.close()
      await store.close()
    })
  })
}
