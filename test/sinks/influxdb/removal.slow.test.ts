// What is there of a refused message is taken away, whoever wrote it, and what is not there costs nothing.

import { expect, test, vi } from 'vitest'
import { instantOf } from '../../../sinks/influxdb/flux.ts'
import { predicateOf } from '../../../sinks/influxdb/removal.ts'
import { maintain } from '../../../sinks/influxdb/schema.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { batchOf, noonUs, plain, type TestMessage } from '../batches.ts'
import { type InfluxStore, openStore } from './store.ts'

const signal = new AbortController().signal
const dayUs = 86_400_000_000

/** Documents of as many instants, a millisecond apart, of which the last one is refused. */
function conflicting(offset: number, count: number): TestMessage {
  const documents = Array.from({ length: count }, (_, nth) => ({
    format: 'typed',
    payload: { a: nth === count - 1 ? 'text' : nth },
    createdUs: noonUs + offset * 1_000_000 + nth * 1000,
  }))
  return { offset, documents }
}

describeWithInflux('removal', influx => {
  async function withStore(work: (store: InfluxStore) => Promise<void>): Promise<void> {
    const store = await openStore(influx)
    try {
      await work(store)
    } finally {
      vi.restoreAllMocks()
      await store.close()
    }
  }

  test(
    'of many instants each is deleted once; of what is refused again nothing is there, and one question says so',
    { timeout: 60_000 },
    () =>
      withStore(async store => {
        const sink = await store.open()
        const [queries, removes] = [vi.spyOn(store.connection, 'query'), vi.spyOn(store.connection, 'remove')]
        const write = (...messages: TestMessage[]) => {
          const batch = batchOf(messages[0]!.offset, messages.at(-1)!.offset + 1, messages)
          return sink.write(sink.encode(batch), async () => undefined, signal)
        }
        expect(await write(plain(0), conflicting(1, 40))).toMatchObject([{ stored: 1, deadLettered: 1 }])
        expect(removes).toHaveBeenCalledTimes(39)
        expect(new Set(removes.mock.calls.map(([, start]) => start)).size).toBe(39)
        queries.mockClear()
        removes.mockClear()
        expect(await write(conflicting(2, 40), conflicting(3, 40), plain(4))).toMatchObject([{ stored: 1, deadLettered: 2 }])
        // Whether the culprits are stored from before, and whether anything of their messages is.
        expect([queries.mock.calls.length, removes.mock.calls.length]).toEqual([2, 0])
        expect((await store.rows()).map(({ table }) => table)).toEqual(['messages', 'messages'])
      }),
  )

  test('what a process that died had stored of a message goes, though its successor sends nothing of it', { timeout: 60_000 }, () =>
    withStore(async store => {
      const dying = await store.open()
      const away = (): Promise<void> => Promise.reject(new Error('it has died'))
      await expect(dying.write(dying.encode(batchOf(1, 2, [conflicting(1, 5)])), away, signal)).rejects.toThrow('it has died')
      expect(await store.rows()).toHaveLength(4)
      const successor = await store.open()
      await successor.write(successor.encode(batchOf(0, 1, [conflicting(0, 1)])), async () => undefined, signal)
      const sends = vi.spyOn(store.connection, 'write')
      await successor.write(successor.encode(batchOf(1, 2, [conflicting(1, 5)])), async () => undefined, signal)
      expect(sends).toHaveBeenCalledTimes(1)
      expect(await store.rows()).toEqual([])
    }),
  )

  test('of a message that the retention has cut nothing stays', { timeout: 60_000 }, () =>
    withStore(async store => {
      const nowUs = Date.now() * 1000
      const records = [100, 0].map(days => ({ value: days, timeUs: nowUs - days * dayUs }))
      const messages = [plain(0), { offset: 1, records }].map(message => ({ ...message, publisher: '' }))
      messages[0] = { ...messages[0]!, records: [{ value: 7, timeUs: nowUs }] }
      const first = await store.open()
      await first.write(first.encode(batchOf(0, 2, messages)), async () => undefined, signal)
      expect(await store.rows()).toHaveLength(3)
      const instant = instantOf(BigInt(records[0]!.timeUs) * 1000n + 1n)
      await store.connection.remove(store.connection.bucket, instant, instant, predicateOf({ _measurement: 'messages' }))
      expect(await store.rows()).toHaveLength(2)
      await maintain(store.connection, { ...store.options, retentionDays: 60 })
      const again = await store.open()
      const rejections: Rejection[] = []
      await again.write(again.encode(batchOf(0, 2, messages)), async some => void rejections.push(...some), signal)
      expect(rejections).toEqual([expect.objectContaining({ message: 1, record: 0, rule: 'beyond-retention' })])
      expect((await store.rows()).map(({ value }) => value)).toEqual([7])
    }),
  )

  test('a retention that was cut while a sink is open is read again, and its refusals take two requests', { timeout: 60_000 }, () =>
    withStore(async store => {
      const sink = await store.open()
      await maintain(store.connection, { ...store.options, retentionDays: 60 })
      // As if the seconds had gone by for which the sink goes by what it has read.
      vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000)
      const sends = vi.spyOn(store.connection, 'write')
      const rejections: Rejection[] = []
      // Every second one is too old.
      const message = (offset: number) => ({ offset, records: [{ value: 1, timeUs: Date.now() * 1000 - (offset % 2) * 100 * dayUs }] })
      const batchFrom = (from: number) => {
        const messages = Array.from({ length: 40 }, (_, nth) => message(from + nth))
        return sink.encode(batchOf(from, from + 40, messages))
      }
      await sink.write(batchFrom(0), async some => void rejections.push(...some), signal)
      expect(sends).toHaveBeenCalledTimes(2)
      expect(rejections.map(({ message }) => message)).toEqual(Array.from({ length: 20 }, (_, nth) => nth * 2 + 1))
      for (const { rule, reason } of rejections) expect([rule, reason]).toEqual(['beyond-retention', expect.stringContaining('60 days')])
      // From now on it is known before.
      await sink.write(batchFrom(40), async some => void rejections.push(...some), signal)
      expect([sends.mock.calls.length, rejections.length]).toEqual([3, 40])
      expect(await store.rows()).toHaveLength(40)
    }),
  )
})
