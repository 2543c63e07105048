// Which lines are in the bucket, asked for where they lie and nowhere else; and which replays are noted.

import { expect, test, vi } from 'vitest'
import { encode } from '../../../sinks/influxdb/encode.ts'
import { replayedOffsets } from '../../../sinks/influxdb/replays.ts'
import { storedLines } from '../../../sinks/influxdb/stored-lines.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { batchOf, noonUs, type TestMessage } from '../batches.ts'
import { openStore } from './store.ts'

const signal = new AbortController().signal
const dayUs = 86_400_000_000

describeWithInflux('lines', influx => {
  test.each([
    ['two, far apart', 2, 300 * dayUs],
    ['many, apart', 120, 2_000_000],
    ['many, together', 120, 900_000],
  ])('%s: are found without a look at what lies between them', { timeout: 60_000 }, async (_what, count, apartUs) => {
    const store = await openStore(influx)
    const sink = await store.open()
    const messages = Array.from({ length: count }, (_, offset): TestMessage => {
      // Of the last one there is no channel to ask for.
      const tags = offset === count - 1 ? { channel: '' } : { channel: `channel-${offset % 3}` }
      return { offset, ...tags, records: [{ value: 1, timeUs: noonUs - offset * apartUs }] }
    })
    await sink.write(sink.encode(batchOf(0, count, messages)), async () => undefined, signal)
    const missing = { offset: count, records: [{ value: 1, timeUs: noonUs + 7 }] }
    const encoded = encode(batchOf(0, count + 1, [...messages, missing]), 1)
    const queries = vi.spyOn(store.connection, 'query')
    const all = Array.from({ length: count + 1 }, (_, line) => line)
    const found = await storedLines(store.connection, encoded, all, { logNumber: 1, atOnce: 4, signal })
    expect([...found].sort((one, other) => one - other)).toEqual(all.slice(0, -1))
    const ranges = queries.mock.calls.flatMap(([flux]) => [...flux.matchAll(/start: time\(v: (-?\d+)\), stop: time\(v: (-?\d+)\)/g)])
    const coveredNs = ranges.reduce((sum, [, start, stop]) => sum + Number(BigInt(stop!) - BigInt(start!)), 0)
    expect(coveredNs).toBeLessThanOrEqual(count * Math.min(apartUs, 1_000_000) * 1000)
    expect(queries.mock.calls.length).toBeLessThanOrEqual(Math.ceil(ranges.length / 50))
    await store.close()
  })

  test('of a message that was replayed twice in one batch both are found', async () => {
    const store = await openStore(influx)
    const sink = await store.open()
    const replayed = (offset: number): TestMessage => ({ offset, original: { log: 1, partition: 0, offset: 5 }, records: [{ value: 1 }] })
    const encoded = encode(batchOf(100, 102, [replayed(100), replayed(101)]), 1)
    await sink.write(encoded, async () => undefined, signal)
    const found = await storedLines(store.connection, encoded, [0, 1], { logNumber: 1, atOnce: 4, signal })
    expect(found).toEqual(new Set([0, 1]))
    await store.close()
  })

  test('a replay is noted where the message is stored, and not where it is filtered or nothing can be made of it', async () => {
    const store = await openStore(influx)
    const sink = await store.open()
    const replayed = (offset: number, more: Partial<TestMessage>): TestMessage => {
      return { offset: 100 + offset, original: { log: 1, partition: 0, offset }, records: [{ value: 1 }], ...more }
    }
    const messages = [replayed(0, {}), replayed(1, { outcome: 'filtered' }), replayed(2, { outcome: 'deadLettered' })]
    await sink.write(sink.encode(batchOf(100, 103, messages)), async () => undefined, signal)
    expect(await replayedOffsets(store.connection, 1, 0, 0, 10)).toEqual(new Set([0]))
    await store.close()
  })
})
