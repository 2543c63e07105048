// The InfluxDB sink on a server.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Rejection } from '../../../sinks/sink.ts'
import { refusalConformance, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithOwnInflux } from '../../servers/influx.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { batchOf, type TestMessage } from '../batches.ts'
import { openStore, unkeepable } from './store.ts'

describeWithOwnInflux('server', influx => {
  let proxy: Proxy

  beforeAll(async () => {
    proxy = await openProxy({ port: Number(new URL(influx.url).port) })
  })
  afterAll(() => proxy.close())

  // A write that is not answered is given up within the test's time. A thousand formats, as by default, are so many measurements that a busy
  // machine would not answer by then.
  const options = { requestTimeoutMs: 15_000, formatsMax: 100 }
  const restart = (): Promise<void> => influx.restart('KILL')
  sinkConformance('InfluxDB, what only the server refuses', () => openStore(influx, { proxy, options, restart }), {
    restarts: true,
    slow: true,
    givesUp: true,
    transactional: false,
  })
  refusalConformance('InfluxDB, what is refused before it is sent', () => openStore(influx, { proxy, poisons: unkeepable }), {
    transactional: false,
  })

  describe('messages of one series and time', () => {
    const signal = new AbortController().signal

    test('3,000 documents of one second are 3,000 points', async () => {
      const store = await openStore(influx)
      const sink = await store.open()
      const documents = Array.from({ length: 3000 }, (_, offset): TestMessage => {
        return { offset, subtopic: '', publisher: '', documents: [{ format: 'readings', payload: { device: `d-${offset}` } }] }
      })
      for (let from = 0; from < 3000; from += 1500) {
        const batch = batchOf(from, from + 1500, documents.slice(from, from + 1500))
        expect(await sink.write(sink.encode(batch), () => Promise.reject(new Error('refused')), signal)).toMatchObject([{ stored: 1500 }])
      }
      const found: number[] = []
      for await (const { offset, rows } of store.replays.audit.messages(1, 0, 0, 3000)) if (rows === 1) found.push(offset)
      expect(found).toHaveLength(3000)
      await sink.close()
      await store.close()
    })

    const at = (offset: number, more: object = {}): TestMessage => ({ offset, records: [{ name: 'a b, c=', value: offset, ...more }] })

    test('the later of two a million offsets apart is a dead letter, and its replay does not overwrite the other', async () => {
      const store = await openStore(influx)
      const sink = await store.open()
      const million = 1_000_000
      const rejections: Rejection[] = []
      const positions = async () => (await store.rows()).map(({ position }) => Number(position & 0xfff_ffff_ffffn))
      const [counts] = await sink.write(
        sink.encode(batchOf(0, million + 2, [at(0), at(1), at(million), at(million + 1, { unit: 'C' })])),
        async some => void rejections.push(...some),
        signal,
      )
      expect(counts).toMatchObject({ stored: 3, deadLettered: 1 })
      expect(rejections).toEqual([expect.objectContaining({ message: 2, rule: 'point-taken' })])
      expect(await positions()).toEqual([0, 1, million + 1])

      const replays = await store.replays.openSink(1)
      const replay = async (message: TestMessage) => (await replays.write(batchOf(0, 0, [message]), new Set(), signal)).refused
      expect((await replay(at(million))).get(0)).toMatchObject({ rule: 'point-taken', reason: expect.stringContaining('1-0-0 ') })
      // Of another series with one tag more; and of itself.
      expect((await replay(at(million, { unit: 'C' }))).size).toBe(0)
      expect((await replay(at(1))).size).toBe(0)
      expect(await positions()).toEqual([0, 1, million, million + 1])
      await sink.close()
      await store.close()
    })
  })
})
