// The InfluxDB sink on a server.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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

  // A write that is not answered is given up within the test's time.
  const options = { requestTimeoutMs: 15_000 }
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
  })
})
