// What every sink promises (sinks/sink.ts), and what one that keeps its offsets with its rows promises besides. Run against the
// fake of the other tests and against each store. Longer than most files: one suite, read from top to bottom as the contract.

import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { MessageCounts, Rejection, Sink } from '../../sinks/sink.ts'
import type { JsonObject, RecordBatch } from '../../transformers/record-batch.ts'
import { append, batchOf, noonUs, plain, plainBatch, type TestMessage } from '../sinks/batches.ts'

/** A row as the store gives it back; absent values are undefined. `table` is `messages` or the format. */
export interface StoredRow {
  readonly table: string
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  /** Packed as in sinks/sink.ts. */
  readonly position: bigint
  readonly index: number
  readonly name?: string | undefined
  readonly unit?: string | undefined
  readonly timeUs?: number | undefined
  readonly value?: number | undefined
  readonly stringValue?: string | undefined
  readonly boolValue?: boolean | undefined
  readonly dataValue?: Uint8Array | undefined
  readonly sum?: number | undefined
  readonly updateTime?: number | undefined
  readonly createdNs?: bigint | undefined
  readonly payload?: JsonObject | undefined
}

export interface SinkIdentity {
  logName?: string
  logId?: string
  writer?: string
  acceptNewLog?: boolean
}

/** An empty store, and what a test needs of it. */
export interface SinkStore {
  /** Opens a sink on it, as a writer's worker would; the log is called `messages` where it is not said otherwise. */
  open(identity?: SinkIdentity): Promise<Sink>
  /** All rows, by position and index. */
  rows(): Promise<StoredRow[]>
  /** Messages that this store truly refuses, by why. Their second record, or second document, is the culprit. */
  readonly poisons: Readonly<Record<string, (offset: number) => TestMessage>>
  /** False where the store cannot be read while a write is under way. */
  readonly readableDuringWrite: boolean
  /** Cuts every connection of the store's sinks. Where there are none, the suite is told so. */
  cutConnections?(): Promise<void>
  /** How many JSON formats it takes, and how many of one channel. */
  readonly formatsMax: number
  readonly formatsPerChannelMax: number
  close(): Promise<void>
}

const signal = new AbortController().signal

/** @param connections false for a store in the same process: there is nothing between it and its sinks that could be cut */
export function sinkConformance(name: string, openStore: () => Promise<SinkStore>, { connections = true } = {}): void {
  describe(`the contract of a sink: ${name}`, () => {
    let store: SinkStore
    let sink: Sink
    let rejections: Rejection[]
    const keep = async (some: readonly Rejection[]) => void rejections.push(...some)
    const write = (batch: RecordBatch) => sink.write(sink.encode(batch), keep, signal)
    const position = async (partition = 0) => (await sink.positions?.([partition]))?.get(partition)
    const values = async () => (await store.rows()).map(row => row.value)

    beforeEach(async () => {
      store = await openStore()
      sink = await store.open()
      rejections = []
    })
    afterEach(async () => {
      await sink.close()
      await store.close()
    })

    test('a partition that it does not know has no position', async () => {
      expect(await sink.positions?.([0, 7])).toEqual(new Map())
    })

    test('a batch without rows moves on: gaps, and messages empty, filtered and dead-lettered before', async () => {
      const messages: TestMessage[] = [{ offset: 11 }, { offset: 12, outcome: 'filtered' }, { offset: 14, outcome: 'deadLettered' }]
      expect(await write(batchOf(10, 16, messages))).toEqual([counts({ received: 3, empty: 1, filtered: 1, deadLettered: 1, skipped: 3 })])
      expect(await write(batchOf(16, 20, []))).toEqual([counts({ skipped: 4 })])
      expect(await store.rows()).toEqual([])
      expect(await position()).toBe(20)
    })

    test('messages that the log deleted unread are counted once, among the skipped', async () => {
      const batch = () => {
        const batch = batchOf(10, 10, [plain(17), plain(18)])
        batch.ranges.length = 0
        batch.cover(0, 10, 20, 7)
        return batch
      }
      expect(await write(batch())).toEqual([counts({ received: 2, stored: 2, skipped: 8, lost: 7 })])
      expect(await write(batch())).toEqual([counts({ received: 2, duplicate: 2 })])
      expect(() => batch().cover(0, 20, 30, 1)).toThrow(RangeError)
    })

    test.each(Object.entries(everyValue))('a value comes back as it was: %s', async (_kind, record) => {
      const at = { name: 'urn:dev:1:a', timeUs: noonUs + 123_457 }
      expect(await write(batchOf(0, 1, [{ offset: 0, records: [{ ...at, ...record }] }]))).toEqual([counts({ received: 1, stored: 1 })])
      expect(await store.rows()).toEqual([senmlRow(sink, 0, 0, { ...at, ...record })])
    })

    test('records at one instant are all kept, with their ordinals', async () => {
      const records = [
        { name: 'a', value: 1 },
        { name: 'a', value: 2 },
        { name: 'a', unit: 'C', value: 1 },
        { name: 'b', stringValue: 'x', unit: 'C' },
        { name: 'a', value: 1 },
      ]
      await write(
        batchOf(0, 2, [
          { offset: 0, records },
          { offset: 1, records },
        ]),
      )
      const expected = [0, 1].flatMap(offset => records.map((record, index) => senmlRow(sink, offset, index, record)))
      expect(await store.rows()).toEqual(expected)
    })

    test('a document keeps its nesting and every digit', async () => {
      const payload = { d: { tmp: 1.5, list: [1, 'two', null, { deep: true }] }, id: 8_659_456_789_564_231_564n, 'a/b': '€😀', __proto: 0 }
      await write(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'engine', payload, createdRestNs: 789 }] }]))
      const [row] = await store.rows()
      expect(row).toMatchObject({ table: 'engine', channel: 'channel-1', createdNs: BigInt(noonUs) * 1000n + 789n, index: 0 })
      expect(row?.payload).toEqual(payload)
    })

    test('several partitions and the largest offset', async () => {
      const last = 2 ** 44 - 1
      const batch = batchOf(last - 1, last, [plain(last - 1)], 4095)
      batch.beginMessage({ partition: 3, offset: 5, channel: 'c', subtopic: '', publisher: '', protocol: 'kafka' })
      batch.appendRecord(0, 'a', undefined, noonUs, 1, 5, undefined, Number.NaN, Number.NaN)
      batch.endMessage()
      batch.cover(3, 5, 6)
      expect(await write(batch)).toEqual([counts({ received: 1, stored: 1 }), counts({ received: 1, stored: 1 })])
      expect((await store.rows()).map(row => row.position)).toEqual([packed(sink, 5, 3), packed(sink, last - 1, 4095)])
      expect([await position(3), await position(4095)]).toEqual([6, last])
    })

    test('the same batch twice leaves the rows of one', async () => {
      await write(plainBatch(0, 3))
      const again = await write(plainBatch(0, 3))
      expect(again).toEqual([counts({ received: 3, duplicate: 3 })])
      expect(await values()).toEqual([0, 1, 2])
      expect(await position()).toBe(3)
    })

    test('a batch that is written is filled anew, and harms nothing that it held', async () => {
      const batch = batchOf(0, 2, [plain(0), { offset: 1, documents: [{ format: 'engine', payload: { first: 1 } }] }])
      expect(await write(batch)).toEqual([counts({ received: 2, stored: 2 })])
      batch.clear()
      append(batch, { partition: 0, ...plain(2) })
      append(batch, { offset: 3, documents: [{ format: 'engine', payload: { second: 2 } }] })
      batch.cover(0, 2, 4)
      expect(await write(batch)).toEqual([counts({ received: 2, stored: 2 })])
      const rows = await store.rows()
      expect(rows.map(row => row.value ?? row.payload)).toEqual([0, { first: 1 }, 2, { second: 2 }])
    })

    test('a batch from far below leaves rows and position as they are', async () => {
      await write(plainBatch(0, 3))
      await write(plainBatch(3, 5))
      expect(await write(plainBatch(0, 3))).toEqual([counts({ received: 3, duplicate: 3 })])
      expect(await values()).toEqual([0, 1, 2, 3, 4])
      expect(await position()).toBe(5)
    })

    test('the same encoded batch twice, the second time by another worker, leaves the rows of one', async () => {
      const other = await store.open()
      const encoded = sink.encode(plainBatch(0, 3))
      await sink.write(encoded, keep, signal)
      expect(await other.write(encoded, keep, signal)).toEqual([counts({ received: 3, duplicate: 3 })])
      expect(await values()).toEqual([0, 1, 2])
      await other.close()
    })

    test('of a batch that overlaps, only what is new is written', async () => {
      await write(batchOf(0, 4, [plain(0), plain(1), plain(3)]))
      const overlapping = await write(batchOf(1, 7, [plain(1), plain(3), plain(4), plain(6)]))
      expect(overlapping).toEqual([counts({ received: 4, duplicate: 2, stored: 2, skipped: 1 })])
      expect(await values()).toEqual([0, 1, 3, 4, 6])
      expect(await position()).toBe(7)
    })

    test('a gap is fenced, and nothing is written, not even to other partitions', async () => {
      await write(plainBatch(0, 3))
      const batch = plainBatch(4, 6)
      batch.cover(1, 0, 9)
      const error = await write(batch).then(unexpected, (error: unknown) => error)
      expect(sink.classify(error)).toBe('fenced')
      expect(await values()).toEqual([0, 1, 2])
      expect(await position()).toBe(3)
      expect(await write(plainBatch(3, 4))).toEqual([counts({ received: 1, stored: 1 })])
    })

    test('what the store refuses is rejected alone, wherever it lies', async () => {
      for (const [why, poison] of Object.entries(store.poisons)) {
        for (const at of [0, 4, 8]) {
          const from = (await position()) ?? 0
          const before = (await store.rows()).length
          const messages = Array.from({ length: 9 }, (_, index) => (index === at ? poison(from + at) : pair(from + index)))
          expect(await write(batchOf(from, from + 9, messages)), why).toEqual([counts({ received: 9, stored: 8, deadLettered: 1 })])
          expect(rejections.splice(0), why).toEqual([expect.objectContaining({ message: at, record: 1, rule: 'store-refused' })])
          expect((await store.rows()).length - before, why).toBe(16)
          expect((await store.rows()).some(row => row.position === packed(sink, from + at))).toBe(false)
        }
      }
    })

    test('a batch of nothing but refused messages moves on', async () => {
      const kinds = Object.values(store.poisons)
      const messages = Array.from({ length: 200 }, (_, offset) => kinds[offset % kinds.length]!(offset))
      expect(await write(batchOf(0, 200, messages))).toEqual([counts({ received: 200, deadLettered: 200 })])
      expect(rejections.map(rejection => rejection.message)).toEqual(messages.map((_, index) => index))
      expect(await store.rows()).toEqual([])
      expect(await position()).toBe(200)
    })

    test('rejections are acknowledged before any row of the batch can be seen', async () => {
      const poison = Object.values(store.poisons)[0]!
      let seen: unknown
      const look = async () => {
        await wait(20)
        seen = store.readableDuringWrite ? (await store.rows()).length : 0
      }
      await sink.write(sink.encode(batchOf(0, 3, [plain(0), poison(1), plain(2)])), look, signal)
      expect(seen).toBe(0)
      expect(await values()).toEqual([0, 2])
    })

    test('where rejections cannot be acknowledged nothing is written; once they are, they are not asked for again', async () => {
      const poison = Object.values(store.poisons)[0]!
      const encoded = sink.encode(batchOf(0, 3, [plain(0), poison(1), plain(2)]))
      const away = new Error('the dead letters are away')
      await expect(sink.write(encoded, () => Promise.reject(away), signal)).rejects.toBe(away)
      expect(await store.rows()).toEqual([])
      expect((await position()) ?? 0).toBe(0)
      expect(await sink.write(encoded, keep, signal)).toEqual([counts({ received: 3, stored: 2, deadLettered: 1 })])
      await sink.write(encoded, keep, signal)
      expect(rejections).toHaveLength(1)
      expect(await values()).toEqual([0, 2])
    })

    const testWithConnections = connections ? test : () => undefined
    testWithConnections(
      'a connection cut in the middle is transient; the same encoded batch again is stored once and rejected once',
      async () => {
        const poison = Object.values(store.poisons)[0]!
        const messages = Array.from({ length: 500 }, (_, offset) => (offset === 250 ? poison(offset) : plain(offset)))
        const encoded = sink.encode(batchOf(0, 500, messages))
        const keepThenCut = async (some: readonly Rejection[]) => {
          await keep(some)
          await store.cutConnections!()
        }
        const error = await sink.write(encoded, keepThenCut, signal).then(unexpected, (error: unknown) => error)
        expect(sink.classify(error)).toBe('transient')
        expect(await store.rows()).toEqual([])
        expect(await sink.write(encoded, keep, signal)).toEqual([counts({ received: 500, stored: 499, deadLettered: 1 })])
        expect(await store.rows()).toHaveLength(499)
        expect(rejections.map(rejection => rejection.message)).toEqual([250])
      },
    )

    test('close waits for the write under way', async () => {
      const poison = Object.values(store.poisons)[0]!
      let release = () => {}
      const held = new Promise<void>(resolve => (release = resolve))
      const order: string[] = []
      const writing = sink.write(sink.encode(batchOf(0, 2, [plain(0), poison(1)])), () => held, signal).then(() => order.push('written'))
      const closing = sink.close().then(() => order.push('closed'))
      await wait(30)
      expect(order).toEqual([])
      release()
      await Promise.all([writing, closing])
      expect(order).toEqual(['written', 'closed'])
      await sink.close()
    })

    test('as many formats as are allowed, of a channel and of the store, and one more', async () => {
      const documents = (channel: number, count: number, offset: number): TestMessage[] =>
        Array.from({ length: count }, (_, at) => ({
          offset: offset + at,
          channel: `channel-${channel}`,
          documents: [{ format: `format-${offset + at}`, payload: { at } }],
        }))
      const perChannel = store.formatsPerChannelMax
      const first = await write(batchOf(0, perChannel + 1, documents(0, perChannel + 1, 0)))
      expect(first).toEqual([counts({ received: perChannel + 1, stored: perChannel, deadLettered: 1 })])
      const messages: TestMessage[] = []
      for (let channel = 1; messages.length < store.formatsMax - perChannel + 1; channel++) {
        const count = Math.min(perChannel, store.formatsMax - perChannel + 1 - messages.length)
        messages.push(...documents(channel, count, perChannel + 1 + messages.length))
      }
      const from = perChannel + 1
      const rest = await write(batchOf(from, from + messages.length, messages))
      expect(rest).toEqual([counts({ received: messages.length, stored: messages.length - 1, deadLettered: 1 })])
      expect(rejections).toEqual([
        expect.objectContaining({ message: perChannel, rule: 'format-limit' }),
        expect.objectContaining({ message: messages.length - 1, rule: 'format-limit' }),
      ])
      expect(await store.rows()).toHaveLength(store.formatsMax)
    }, 30_000)

    test('formats with hostile names are kept apart and harm nothing', async () => {
      const payload = (format: string) => ({ says: format })
      const messages = hostileFormats.map((format, offset) => ({ offset, documents: [{ format, payload: payload(format) }] }))
      await write(batchOf(0, messages.length, messages))
      await write(batchOf(messages.length, messages.length + 1, [plain(messages.length)]))
      const rows = await store.rows()
      expect(rows.map(row => row.table)).toEqual([...hostileFormats, 'messages'])
      expect(rows.map(row => row.payload)).toEqual([...hostileFormats.map(payload), undefined])
      expect(rejections).toEqual([])
    })

    describe('messages that were dead-lettered and replayed', () => {
      const original = (offset: number) => ({ log: 1, partition: 7, offset })
      const replayed = (offset: number, at: number): TestMessage => ({ ...pair(offset), offset: at, original: original(offset) })
      const positions = async () => (await store.rows()).map(row => row.position)
      let replays: Sink
      const writeReplays = (batch: RecordBatch) => replays.write(replays.encode(batch), keep, signal)

      beforeEach(async () => {
        replays = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
      })
      afterEach(() => replays.close())

      test('keep the position that they had at first', async () => {
        await write(plainBatch(0, 1))
        await writeReplays(
          batchOf(0, 2, [replayed(100, 0), { offset: 1, original: original(200), documents: [{ format: 'engine', payload: {} }] }]),
        )
        const at = (offset: number) => packed(sink, offset, 7)
        expect(await positions()).toEqual([packed(sink, 0), at(100), at(100), at(200)])
        expect(await position()).toBe(1)
        expect(await replays.positions?.([0])).toEqual(replays.positions && new Map([[0, 2]]))
      })

      test('are stored once, however often they are replayed: in one batch, in the next, and at other positions', async () => {
        await writeReplays(batchOf(0, 2, [replayed(100, 0), replayed(100, 1)]))
        await writeReplays(batchOf(2, 4, [replayed(100, 2), replayed(101, 3)]))
        expect(await values()).toEqual([100, 100.5, 101, 101.5])
      })

      test('are not stored again where they were stored although they have a dead letter', async () => {
        const document = { documents: [{ format: 'engine', payload: { a: 1 }, createdRestNs: 123 }] }
        await write(batchOf(99, 102, [pair(100), { offset: 101, ...document }], 7))
        await writeReplays(batchOf(0, 2, [replayed(100, 0), { offset: 1, ...document, original: original(101) }]))
        expect(await positions()).toHaveLength(3)
      })

      test('that are refused once more are rejected once more, and stored by a later replay', async () => {
        const poison = Object.values(store.poisons)[0]!
        const refused = { ...poison(0), original: original(100) }
        const counted = await writeReplays(batchOf(0, 3, [refused, { ...poison(1), original: original(100) }, replayed(101, 2)]))
        expect(counted).toEqual([counts({ received: 3, stored: 1, deadLettered: 2 })])
        expect(rejections.map(({ message, rule }) => [message, rule])).toEqual([
          [0, 'store-refused'],
          [1, 'store-refused'],
        ])
        await writeReplays(batchOf(3, 4, [replayed(100, 3)]))
        expect(await values()).toEqual([100, 100.5, 101, 101.5])
      })

      test('that another worker wrote meanwhile and that were refused there are stored by a later replay', async () => {
        const refused = { ...Object.values(store.poisons)[0]!(0), original: original(100) }
        const other = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
        const late = other.encode(batchOf(0, 2, [refused, replayed(101, 1)]))
        await writeReplays(batchOf(0, 2, [refused, replayed(101, 1)]))
        expect(await other.write(late, keep, signal)).toEqual([counts({ received: 2, duplicate: 2 })])
        expect(rejections.map(({ message }) => message)).toEqual([0])
        await writeReplays(batchOf(2, 3, [replayed(100, 2)]))
        expect(await values()).toEqual([100, 100.5, 101, 101.5])
        await other.close()
      })

      test('that come again behind one which another worker wrote, and which was refused there, are stored', async () => {
        const refused = { ...Object.values(store.poisons)[0]!(0), original: original(100) }
        const other = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
        const late = other.encode(batchOf(0, 2, [refused, replayed(100, 1)]))
        await writeReplays(batchOf(0, 1, [refused]))
        expect(await other.write(late, keep, signal)).toEqual([counts({ received: 2, duplicate: 1, stored: 1 })])
        await writeReplays(batchOf(2, 3, [replayed(100, 2)]))
        expect(await values()).toEqual([100, 100.5])
        await other.close()
      })
    })

    test('a store belongs to one writer for each log', async () => {
      await expect(store.open({ writer: 'another' })).rejects.toThrow(/"writer-1".*"another"/)
    })

    test('a log made anew is noticed, and begins at no position once it is accepted', async () => {
      await write(plainBatch(0, 3))
      await expect(store.open({ logId: 'id-2' })).rejects.toThrow(/id-2.*id-1.*accept-new-log/)
      await sink.close()
      sink = await store.open({ logId: 'id-2', acceptNewLog: true })
      expect(await position()).toBeUndefined()
      await write(plainBatch(0, 1))
      expect(await values()).toEqual([0, 1, 2, 0])
      await sink.close()
      sink = await store.open({ logId: 'id-2' })
      expect(await position()).toBe(1)
    })

    test('what it does not know stops the writer', () => {
      expect(sink.classify(new Error('something else'))).toBe('systemic')
    })
  })
}

const everyValue = {
  zero: { value: 0 },
  'a negative number': { value: -12.625 },
  'the largest numbers': { value: 1e308, sum: -1e308, updateTime: 1e308 },
  'the smallest number': { value: 5e-324 },
  'beyond 2^53': { value: 2 ** 53 + 2 },
  true: { boolValue: true },
  false: { boolValue: false },
  'the empty string': { stringValue: '', unit: '' },
  'a long text': { stringValue: 'ü€😀x'.repeat(10_000) },
  'a text with quotes and line ends': { stringValue: `\\.\n\r\t'"\\N,;` },
  'no bytes': { dataValue: new Uint8Array(0) },
  bytes: { dataValue: Uint8Array.from({ length: 256 }, (_, at) => at) },
  'a sum alone': { sum: 0 },
  'a sum beside a value': { value: 1, sum: 2.5, unit: 'Cel', updateTime: 0 },
  'a time before 1970': { value: 1, timeUs: -1 },
  'a time far ahead': { value: 1, timeUs: 4_102_444_800_000_001 },
} satisfies Record<string, TestMessage['records'] extends (infer R)[] | undefined ? R : never>

const hostileFormats = [
  'temp',
  'Temp',
  'TEMP',
  'temp_channel_created_idx',
  'x'.repeat(200),
  `${'x'.repeat(199)}y`,
  '_x',
  'x',
  '$',
  '$temp',
  'temp$',
  'room-1',
  'room_1',
  'room 1',
  `"; DROP TABLE messages; --`,
  `'); DROP TABLE messages; --`,
  'select',
  'offsets',
  'pg_class',
  'system.users',
  '1',
  'größe',
  '😀',
  '%s',
  '\\',
  '__proto__',
  'constructor',
]

function counts(some: Partial<MessageCounts>): MessageCounts {
  return { received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, lost: 0, ...some }
}

function pair(offset: number): TestMessage {
  return { offset, records: [{ value: offset }, { value: offset + 0.5 }] }
}

function packed(sink: Sink, offset: number, partition = 0): bigint {
  return (BigInt(sink.logNumber) << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
}

function senmlRow(sink: Sink, offset: number, index: number, record: object): StoredRow {
  const origin = { table: 'messages', channel: 'channel-1', subtopic: 'room', publisher: 'thing-1', protocol: 'http' }
  return { ...origin, position: packed(sink, offset), index, name: 'temperature', timeUs: noonUs, ...record }
}

function unexpected(): never {
  throw new Error('the write succeeded')
}
