// What the server refuses while it is written: the message is rejected, and no other.

import { expect, test, vi } from 'vitest'
import { maintain, prepareSchema } from '../../../sinks/influxdb/schema.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { batchOf, noonUs, plain, type TestMessage } from '../batches.ts'
import { type InfluxStore, openStore } from './store.ts'

const signal = new AbortController().signal

describeWithInflux('refusals', influx => {
  async function withStore(work: (store: InfluxStore) => Promise<void>, options = {}): Promise<void> {
    const store = await openStore(influx, { options })
    try {
      await work(store)
    } finally {
      await store.close()
    }
  }

  async function write(
    store: InfluxStore,
    messages: readonly TestMessage[],
    to = 10_000,
  ): Promise<{ rejections: Rejection[]; stored: number }> {
    const sink = await store.open()
    const rejections: Rejection[] = []
    const [counts] = await sink.write(sink.encode(batchOf(0, to, messages)), async some => void rejections.push(...some), signal)
    await sink.close()
    expect(counts!.received).toBe(counts!.stored + counts!.deadLettered)
    return { rejections, stored: counts!.stored }
  }

  const good = { format: 'typed', payload: { a: 1, text: 'line\r\nend \\ "' } }
  /** Another program has written a text there. */
  const bad = { format: 'typed', payload: { taken: 1 } }
  const offsets = async (store: InfluxStore) => (await store.rows()).map(({ position, index }) => `${position & 0xfff_ffff_ffffn}/${index}`)

  test.each([
    ['with a publisher', {}],
    ['without a publisher', { publisher: '' }],
    ['without any tag', { publisher: '', channel: '', subtopic: '' }],
    ['whose tags are hostile', { publisher: 'a\\, "b"=c', subtopic: "x y='" }],
  ])('of a message %s the points that the server stored stay, and its rejection says so', (_what, tags) =>
    withStore(async store => {
      const documents = [good, { ...good, createdUs: noonUs - 5 }, bad, good]
      const { rejections } = await write(store, [plain(0), { offset: 1, ...tags, documents }, { offset: 2, ...tags, documents: [good] }])
      expect(rejections).toEqual([
        expect.objectContaining({
          message: 1,
          record: 2,
          rule: 'store-refused',
          partial: true,
          reason: expect.stringContaining('already exists as type string'),
        }),
      ])
      expect(await offsets(store)).toEqual(['0/0', '1/0', '1/1', '1/3', '2/0'])
    }),
  )

  test('a message all of whose points are refused leaves none, and thousands of valid points are stored', () =>
    withStore(async store => {
      const messages = Array.from(
        { length: 5000 },
        (_, offset): TestMessage => ({
          offset,
          documents: [offset % 1000 === 7 ? bad : { format: 'typed', payload: { a: offset }, createdRestNs: 1 }],
        }),
      )
      const { rejections, stored } = await write(
        store,
        messages.map((message, at) => ({ ...message, documents: message.documents!.map(one => ({ ...one, createdUs: noonUs + at })) })),
      )
      expect(rejections.map(({ message, partial }) => [message, partial])).toEqual([7, 1007, 2007, 3007, 4007].map(at => [at, undefined]))
      expect(stored).toBe(4995)
      expect(await store.rows()).toHaveLength(4995)
    }))

  test('if a tenth of the values of a key is of other types, none is refused, and it takes no more requests', () =>
    withStore(async store => {
      const writes = vi.spyOn(store.connection, 'write')
      const valueOf = (nth: number): number | string | boolean => (nth % 10 > 0 ? nth : nth % 20 > 0 ? 'text' : true)
      const documents = (from: number, a: (nth: number) => number | string | boolean): TestMessage[] =>
        Array.from({ length: 2000 }, (_, nth) => ({
          offset: from + nth,
          documents: [{ format: 'typed', payload: { a: a(nth) }, createdUs: noonUs + nth }],
        }))
      const requests: number[] = []
      for (const messages of [documents(0, nth => nth), documents(2000, valueOf)]) {
        writes.mockClear()
        expect(await write(store, messages)).toEqual({ rejections: [], stored: 2000 })
        requests.push(writes.mock.calls.filter(([bucket]) => bucket === store.connection.bucket).length)
      }
      expect(requests).toEqual([4, 4])
      const values = (await store.rows()).slice(2000).map(({ payload }) => (payload as { a: unknown }).a)
      expect(values).toEqual(Array.from({ length: 2000 }, (_, nth) => valueOf(nth)))
    }))

  test('a dead letter that cannot be written fails the write, and is requested once more, also by a writer that starts again', () =>
    withStore(async store => {
      const away = new Error('the dead letters are away')
      for (let start = 0; start < 2; start++) {
        const sink = await store.open()
        const encoded = sink.encode(batchOf(0, 2, [{ offset: 0, documents: [good, bad] }, plain(1)]))
        await expect(sink.write(encoded, () => Promise.reject(away), signal)).rejects.toBe(away)
        const requested: Rejection[] = []
        for (let time = 0; time < 2; time++) {
          const [counts] = await sink.write(encoded, async some => void requested.push(...some), signal)
          expect(counts).toMatchObject({ received: 2, stored: 1, deadLettered: 1 })
        }
        expect(requested.map(({ message, partial }) => [message, partial])).toEqual([[0, true]])
        expect(await offsets(store)).toEqual(['0/0', '1/0'])
        await sink.close()
      }
    }))

  const dayUs = 86_400_000_000
  const now = Date.now() * 1000

  test('messages older than the retention are rejected as such, known before or reported by the server, and the counts add up', () =>
    withStore(async store => {
      await store.open().then(sink => sink.close())
      const aged = (offset: number, days: number): TestMessage => ({
        offset,
        records: [
          { value: 1, timeUs: now - offset },
          { value: 2, timeUs: now - days * dayUs },
        ],
      })
      // A sink that was opened before the bucket had a retention learns of it from the server.
      const before = await store.open()
      await maintain(store.connection, { ...store.options, retentionDays: 60 })
      const rejections: Rejection[] = []
      const [counts] = await before.write(
        before.encode(batchOf(0, 3, [aged(0, 1), aged(1, 100), aged(2, 2)])),
        async some => void rejections.push(...some),
        signal,
      )
      expect(counts).toMatchObject({ received: 3, stored: 2, deadLettered: 1 })
      expect(rejections).toEqual([expect.objectContaining({ message: 1, record: 1, rule: 'beyond-retention', partial: true })])
      const later = await write(store, [aged(3, 1), aged(4, 61)])
      expect(later.rejections).toEqual([
        expect.objectContaining({ message: 1, record: 1, rule: 'beyond-retention', reason: expect.stringContaining('60 days') }),
      ])
      expect(await offsets(store)).toEqual(['0/0', '0/1', '1/0', '2/0', '2/1', '3/0', '3/1'])
    }, {}))

  test('maintenance sets the retention if an option does, and changes nothing else', () =>
    withStore(async store => {
      const notices: string[] = []
      await (await store.open()).close()
      const retention = async (name: string): Promise<number> => {
        const { buckets } = await store.connection.ask<{ buckets: { retentionRules: { everySeconds: number }[] }[] }>(
          'GET',
          '/api/v2/buckets',
          {
            org: influx.org,
            name,
          },
        )
        return buckets[0]!.retentionRules[0]!.everySeconds / 86_400
      }
      await maintain(store.connection, { ...store.options, retentionDays: 0 })
      expect(await retention(store.connection.bucket)).toBe(0)
      await maintain(store.connection, { ...store.options, retentionDays: 400 })
      await maintain(store.connection, { ...store.options, retentionDays: 0 })
      expect(await retention(store.connection.bucket)).toBe(400)
      expect(await retention(store.connection.registryBucket)).toBe(0)
      const notice = (sentence: string): void => void notices.push(sentence)
      await prepareSchema(store.connection, store.options, notice)
      expect(notices).toEqual([expect.stringMatching(/keeps 400 days, and store.retention_days is not set, so the bucket stays as it is/)])
      const schema = await prepareSchema(store.connection, { ...store.options, retentionDays: 30 }, notice)
      expect([await retention(store.connection.bucket), schema.keptSeconds(), notices.length]).toEqual([30, 30 * 86_400, 1])
    }))

  test('after the retention of a bucket is raised, an open sink accepts what was too old before', () =>
    withStore(
      async store => {
        const sink = await store.open()
        await maintain(store.connection, { ...store.options, retentionDays: 400 })
        // As if the seconds had gone by for which the sink goes by what it has read.
        vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000)
        const encoded = sink.encode(batchOf(0, 1, [{ offset: 0, records: [{ value: 1, timeUs: now - 100 * dayUs }] }]))
        const [counts] = await sink.write(encoded, () => Promise.reject(new Error('it is kept')), signal)
        vi.restoreAllMocks()
        expect(counts).toMatchObject({ stored: 1, deadLettered: 0 })
      },
      { retentionDays: 60 },
    ))
})
