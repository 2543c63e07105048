// What the server refuses while it is written: every point of the message goes, and no point of another.

import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { ResponseError } from '../../../sinks/influxdb/errors.ts'
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
  const bad = { format: 'typed', payload: { a: 'text' } }
  const offsets = async (store: InfluxStore) => (await store.rows()).map(({ position, index }) => `${position & 0xfff_ffff_ffffn}/${index}`)

  test.each([
    ['with a publisher', {}],
    ['without a publisher, which no delete can ask for', { publisher: '' }],
    ['without any tag', { publisher: '', channel: '', subtopic: '' }],
    ['whose tags are hostile', { publisher: 'a\\, "b"=c', subtopic: "x y='" }],
  ])('a message %s goes with all its points', (_what, tags) =>
    withStore(async store => {
      const documents = [good, { ...good, createdUs: noonUs - 5 }, bad, good]
      const { rejections } = await write(store, [plain(0), { offset: 1, ...tags, documents }, { offset: 2, ...tags, documents: [good] }])
      expect(rejections).toEqual([
        expect.objectContaining({
          message: 1,
          record: 2,
          rule: 'store-refused',
          reason: expect.stringContaining('already exists as type float'),
          hint: expect.stringContaining('a field keeps the type that it had first'),
        }),
      ])
      expect(await offsets(store)).toEqual(['0/0', '2/0'])
    }),
  )

  test('points of others at the same nanosecond stay as they are, texts and all', () =>
    withStore(async store => {
      // The same instant behind the microsecond, since the offsets are a thousand apart; other publishers, so other series.
      const others: TestMessage[] = [
        { offset: 1, publisher: 'thing-2', documents: [good, good] },
        { offset: 1001, publisher: 'thing-3', documents: [good] },
        { offset: 2001, publisher: 'thing-4', subtopic: 'other', documents: [good] },
      ]
      await write(store, others)
      const before = await store.points()
      const { rejections } = await write(store, [{ offset: 3001, publisher: '', documents: [good, bad, good] }])
      expect(rejections).toHaveLength(1)
      expect(await store.points()).toEqual(before)
      expect(await offsets(store)).toEqual(['1/0', '1/1', '1001/0', '2001/0'])
    }))

  test('a message whose every point is refused needs no delete, and thousands of good ones lose nothing', { timeout: 60_000 }, () =>
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
      expect(rejections.map(({ message }) => message)).toEqual([7, 1007, 2007, 3007, 4007])
      expect(stored).toBe(4995)
      expect(await store.rows()).toHaveLength(4995)
    }),
  )

  test('what was refused once is sent before all else of its message, which then is never sent', () =>
    withStore(async store => {
      const sink = await store.open()
      const deletes: unknown[] = []
      const remove = store.connection.remove.bind(store.connection)
      Object.assign(store.connection, {
        remove: (...given: Parameters<typeof remove>) => {
          deletes.push(given)
          return remove(...given)
        },
      })
      for (let offset = 0; offset < 3; offset++) {
        const batch = batchOf(offset, offset + 1, [{ offset, documents: [good, bad, good] }])
        const [counts] = await sink.write(sink.encode(batch), async () => undefined, signal)
        expect(counts).toMatchObject({ stored: 0, deadLettered: 1 })
        expect(deletes).toHaveLength(1)
        expect(await offsets(store)).toEqual([])
      }
      await sink.close()
    }))

  test('where the delete fails it is done by the next write, and the dead letter is not asked for again', () =>
    withStore(async store => {
      const sink = await store.open()
      const encoded = sink.encode(batchOf(0, 2, [{ offset: 0, documents: [good, bad] }, plain(1)]))
      let asked = 0
      const killing = async (): Promise<void> => {
        asked++
        await influx.kill()
      }
      const error = await sink.write(encoded, killing, signal).catch((error: unknown) => error)
      expect(sink.classify(error)).toBe('transient')
      await influx.restart()
      await sink.write(encoded, killing, signal)
      expect(asked).toBe(1)
      expect(await offsets(store)).toEqual(['1/0'])
    }))

  const dayUs = 86_400_000_000
  const now = Date.now() * 1000

  test(
    'what is older than the retention is rejected as that, known before or told by the server, and it adds up',
    { timeout: 60_000 },
    () =>
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
        expect(rejections).toEqual([expect.objectContaining({ message: 1, record: 1, rule: 'beyond-retention' })])
        const later = await write(store, [aged(3, 1), aged(4, 61)])
        expect(later.rejections).toEqual([
          expect.objectContaining({ message: 1, record: 1, rule: 'beyond-retention', reason: expect.stringContaining('60 days') }),
        ])
        expect(await offsets(store)).toEqual(['0/0', '0/1', '2/0', '2/1', '3/0', '3/1'])
      }, {}),
  )

  test('a refused message that is replayed before its rows are deleted keeps them, and no other does', () =>
    withStore(async store => {
      await store.open().then(sink => sink.close())
      const aged = (offset: number): TestMessage => ({
        offset,
        records: [
          { value: 1, timeUs: now },
          { value: 2, timeUs: now - 100 * dayUs },
        ],
      })
      const sink = await store.open()
      await maintain(store.connection, { ...store.options, retentionDays: 60 })
      const young: TestMessage = { offset: 0, records: [{ value: 1, timeUs: now }] }
      const replay = async (): Promise<void> => {
        await maintain(store.connection, { ...store.options, retentionDays: 400 })
        const replays = await store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
        const again = [1, 2].map((of, offset) => ({ ...aged(offset), original: { log: 1, partition: 0, offset: of } }))
        const [counts] = await replays.write(replays.encode(batchOf(0, 2, again)), async () => undefined, signal)
        expect(counts).toMatchObject({ received: 2, stored: 2 })
        await replays.close()
      }
      const [counts] = await sink.write(sink.encode(batchOf(0, 4, [young, aged(1), aged(2), aged(3)])), replay, signal)
      expect(counts).toMatchObject({ received: 4, stored: 1, deadLettered: 3 })
      expect(await offsets(store)).toEqual(['0/0', '1/0', '1/1', '2/0', '2/1'])
      await sink.close()
    }))

  test('maintenance sets the retention where an option names one, and leaves the registry and all else as it is', () =>
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
      expect(notices).toEqual([expect.stringMatching(/keeps 400 days, and store.retention_days is not set, so that stays/)])
      const schema = await prepareSchema(store.connection, { ...store.options, retentionDays: 30 }, notice)
      expect([await retention(store.connection.bucket), schema.keptSeconds(), notices.length]).toEqual([30, 30 * 86_400, 1])
    }))

  test('a bucket whose retention is raised while a sink is open takes what the sink took for too old', { timeout: 60_000 }, () =>
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
    ),
  )

  const never = (): Promise<void> => Promise.reject(new Error('it was stored before'))

  test(
    'a message that was stored counts as stored when it is read again, though it has aged beyond the retention',
    { timeout: 60_000 },
    () =>
      withStore(async store => {
        const message = (offset: number, days: number): TestMessage => ({
          offset,
          publisher: 'a b,c="d"\\e',
          records: [
            { value: offset, timeUs: now - days * dayUs },
            { value: 2, timeUs: now - offset },
          ],
        })
        const first = await write(store, [message(0, 100), message(1, 1), message(3, 100)])
        expect(first.stored).toBe(3)
        const rows = await store.rows()
        const unaware = await store.open()
        await maintain(store.connection, { ...store.options, retentionDays: 60 })
        const again = [message(0, 100), message(1, 1), message(2, 100), message(3, 100)]
        // Told by the server, then known before: one that was never stored is rejected, and nothing is taken from the others.
        for (const sink of [unaware, await store.open()]) {
          const rejections: Rejection[] = []
          const [counts] = await sink.write(sink.encode(batchOf(0, 4, again)), async some => void rejections.push(...some), signal)
          expect(counts).toMatchObject({ received: 4, stored: 3, deadLettered: 1 })
          expect(rejections).toEqual([expect.objectContaining({ message: 2, record: 0, rule: 'beyond-retention' })])
          expect(await store.rows()).toEqual(rows)
        }
        const known = await store.open()
        const queries = vi.spyOn(store.connection, 'query')
        await known.write(
          known.encode(
            batchOf(
              0,
              4,
              again.filter(({ offset }) => offset !== 2),
            ),
          ),
          never,
          signal,
        )
        expect(queries).toHaveBeenCalledTimes(1)
      }),
  )

  test('a message that was stored counts as stored when it is read again, though the server refuses it now', () =>
    withStore(async store => {
      const sink = await store.open()
      const batch = () => sink.encode(batchOf(0, 2, [{ offset: 0, documents: [good, { format: 'typed', payload: { a: 2 } }] }, plain(1)]))
      await sink.write(batch(), never, signal)
      const rows = await store.rows()
      // A server on which the field has got another type meanwhile.
      const send = store.connection.write.bind(store.connection)
      Object.assign(store.connection, {
        write: async (bucket: string, gzipped: Uint8Array, ended?: AbortSignal) => {
          if (gunzipSync(gzipped).includes('/index=1i')) {
            const message =
              'failure writing points to database: partial write: field type conflict: input field "a" on measurement "typed" is type float, already exists as type string dropped=1'
            throw new ResponseError('POST', 422, JSON.stringify({ code: 'unprocessable entity', message }))
          }
          await send(bucket, gzipped, ended)
        },
      })
      for (let times = 0; times < 2; times++) {
        expect(await sink.write(batch(), never, signal)).toMatchObject([{ stored: 2, deadLettered: 0 }])
        expect(await store.rows()).toEqual(rows)
      }
    }))

  test('an abort between the delete and what is written again loses nothing of another message', () =>
    withStore(async store => {
      await write(store, [{ offset: 1, publisher: 'thing-2', documents: [good, good] }])
      const before = await store.points()
      const stopping = new AbortController()
      const [remove, send] = [store.connection.remove.bind(store.connection), store.connection.write.bind(store.connection)]
      let failures = 0
      Object.assign(store.connection, {
        remove: async (...given: Parameters<typeof remove>) => {
          await remove(...given)
          stopping.abort()
          failures = 2
        },
        write: async (...given: Parameters<typeof send>) => {
          if (failures-- > 0) throw new ResponseError('POST', 503, '')
          await send(...given)
        },
      })
      const sink = await store.open()
      const encoded = sink.encode(batchOf(1001, 1002, [{ offset: 1001, publisher: '', documents: [good, bad, good] }]))
      await sink.write(encoded, async () => undefined, stopping.signal).catch(() => undefined)
      expect(stopping.signal.aborted).toBe(true)
      expect(await store.points()).toEqual(before)
    }))

  test('what could not be written again is written by the next write of the batch', () =>
    withStore(async store => {
      await write(store, [{ offset: 1, publisher: 'thing-2', documents: [good, good] }])
      const before = await store.points()
      const [remove, send] = [store.connection.remove.bind(store.connection), store.connection.write.bind(store.connection)]
      let isAway = false
      Object.assign(store.connection, {
        remove: async (...given: Parameters<typeof remove>) => {
          await remove(...given)
          isAway = true
        },
        write: async (...given: Parameters<typeof send>) => {
          if (isAway) throw new ResponseError('POST', 503, '')
          await send(...given)
        },
      })
      const sink = await store.open()
      const encoded = sink.encode(batchOf(1001, 1002, [{ offset: 1001, publisher: '', documents: [good, bad, good] }]))
      await expect(sink.write(encoded, async () => undefined, signal)).rejects.toThrow('503')
      expect(await store.points()).toHaveLength(before.length - 2)
      isAway = false
      await sink.write(encoded, never, signal)
      expect(await store.points()).toEqual(before)
    }))

  test('an abort ends a write whose dead letters are never acknowledged, before anything is sent and after', () =>
    withStore(async store => {
      const sink = await store.open()
      for (const documents of [[good, bad], [{ format: 'typed', payload: { time: 1 } }]]) {
        const stopping = new AbortController()
        const asked = Promise.withResolvers<void>()
        const hanging = (): Promise<void> => {
          asked.resolve()
          return new Promise<void>(() => undefined)
        }
        const writing = sink.write(sink.encode(batchOf(0, 1, [{ offset: 0, documents }])), hanging, stopping.signal)
        const ended = writing.catch((error: unknown) => error)
        await asked.promise
        stopping.abort()
        expect(sink.classify(await ended)).toBe('transient')
      }
      const unasked = vi.fn(async () => undefined)
      const encoded = sink.encode(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'typed', payload: { time: 1 } }] }]))
      await expect(sink.write(encoded, unasked, AbortSignal.abort())).rejects.toThrow('aborted')
      expect(unasked).not.toHaveBeenCalled()
      await sink.close()
    }))
})
