// Many sinks that start at once where there is nothing yet, each on a connection of its own like a process: one schema, one number for each log, and
// formats within the limits.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { FormatLimits, RegisteredFormat } from '../../../sinks/formats.ts'
import type { RegisteredLog } from '../../../sinks/logs.ts'
import type { Rejection, Sink } from '../../../sinks/sink.ts'
import { batchOf, plain } from '../../sinks/batches.ts'
import { signal } from './bench.ts'
import type { SinkIdentity } from './fixture.ts'

/** A store without a schema. The caller closes its connections. */
export interface UnmadeStore {
  /** Opens a sink on a connection of its own. */
  open(identity?: SinkIdentity, limits?: Partial<FormatLimits>): Promise<Sink>
  logs(): Promise<readonly RegisteredLog[]>
  formats(): Promise<readonly RegisteredFormat[]>
  rowCount(): Promise<number>
  /** Checks that ten starts have made the schema once, also that of a format called `engine-0`. */
  expectOneSchema?(): Promise<void>
}

const ten = Array.from({ length: 10 }, (_, nth) => nth)

/** @param transactional as in `SinkTraits` */
export function startConformance(name: string, openStore: () => Promise<UnmadeStore>, { transactional = false } = {}): void {
  describe(`many starts at once: ${name}`, () => {
    let store: UnmadeStore
    const opened: Sink[] = []

    beforeEach(async () => {
      store = await openStore()
    })
    afterEach(async () => {
      for (const sink of opened.splice(0)) await sink.close()
    })

    async function open(...given: Parameters<UnmadeStore['open']>): Promise<Sink> {
      const sink = await store.open(...given)
      opened.push(sink)
      return sink
    }
    const numbersOf = (sinks: readonly Sink[]) => sinks.map(({ logNumbers }) => logNumbers[0]!)

    test('ten workers of one writer get the same number, and each stores, also in formats that several of them add', async () => {
      const sinks = await Promise.all(ten.map(() => open()))
      expect(numbersOf(sinks)).toEqual(ten.map(() => 1))
      expect(await store.logs()).toMatchObject([{ number: 1, name: 'messages', id: 'id-1', writer: 'writer-1' }])
      const rejections: Rejection[] = []
      await Promise.all(
        sinks.map((sink, partition) => {
          const document = { offset: 50, documents: [{ format: `engine-${partition % 3}`, payload: {} }] }
          const keep = async (some: readonly Rejection[]) => void rejections.push(...some)
          return sink.write(sink.encode(batchOf(0, 51, [plain(0), document], partition)), keep, signal)
        }),
      )
      expect(rejections).toEqual([])
      expect(await store.rowCount()).toBe(20)
      expect((await store.formats()).map(({ format }) => format).sort()).toEqual(['engine-0', 'engine-1', 'engine-2'])
      await store.expectOneSchema?.()
    })

    test('of ten workers of two writers those of one have the log, and the others get an error that names both', async () => {
      const sinks = await Promise.allSettled(ten.map(nth => open({ writer: `writer-${nth % 2}` })))
      const [there, refused] = [sinks.filter(one => one.status === 'fulfilled'), sinks.filter(one => one.status === 'rejected')]
      expect([there.length, refused.length]).toEqual([5, 5])
      expect(numbersOf(there.map(({ value }) => value))).toEqual([1, 1, 1, 1, 1])
      const [log, ...others] = await store.logs()
      expect(others).toEqual([])
      for (const { reason } of refused) {
        expect(there[0]!.value.classify(reason)).toBe('systemic')
        expect(String(reason)).toMatch(new RegExp(`belong to the writer "${log!.writer}" .*, but this writer is called "writer-[01]"`))
      }
    })

    test('ten logs get ten numbers', async () => {
      const sinks = await Promise.all(ten.map(nth => open({ logName: `log-${nth}` })))
      expect(new Set(numbersOf(sinks))).toEqual(new Set([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]))
    })

    test('a recreated log that ten workers accept has one number', async () => {
      await open()
      const sinks = await Promise.all(ten.map(() => open({ logId: 'id-2', acceptNewLog: 'id-2' })))
      expect(numbersOf(sinks)).toEqual(ten.map(() => 2))
      expect(numbersOf([await open({ acceptNewLog: 'id-1' })])).toEqual([1])
      await expect(open({ logId: 'id-2' })).rejects.toThrow(/id-2.*id-1.*accept-new-log/)
    })

    test('ten that add formats, of one channel and of many, do not exceed the limits', async () => {
      const rejections: Rejection[] = []
      const keep = async (some: readonly Rejection[]) => void rejections.push(...some)
      const sinks = await Promise.all(ten.map(() => open({}, { formatsMax: 12, formatsPerChannelMax: 5 })))
      await Promise.all(
        sinks.map((sink, partition) => {
          const messages = [0, 1, 2].map(offset => ({
            offset,
            channel: partition < 5 ? 'channel-1' : `channel-${partition}`,
            documents: [{ format: `format-${partition}-${offset}`, payload: {} }],
          }))
          return sink.write(sink.encode(batchOf(0, 3, messages, partition)), keep, signal)
        }),
      )
      const formats = await store.formats()
      expect(formats).toHaveLength(12)
      expect(formats.filter(({ channel }) => channel === 'channel-1').length).toBeLessThanOrEqual(5)
      expect(rejections.map(({ rule }) => rule)).toEqual(Array.from({ length: 18 }, () => 'format-limit'))
      expect(await store.rowCount()).toBe(12)
    })

    // A store that keeps positions knows itself where it is.
    if (!transactional)
      test('a log that was read into another store is not started in the middle, unless it is accepted', async () => {
        const hasCommits = async () => true
        await expect(open({ hasCommits })).rejects.toThrow(/does not know the log "messages"/)
        expect(await store.logs()).toEqual([])
        expect(numbersOf([await open({ hasCommits, acceptNewLog: 'id-1' }), await open({ hasCommits })])).toEqual([1, 1])
      })
  })
}
