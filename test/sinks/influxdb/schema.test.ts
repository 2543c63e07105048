// Messages that the bucket would drop are known before anything is sent, and shards are no longer than the retention bears.

import { expect, onTestFinished, test, vi } from 'vitest'
import { encode } from '../../../sinks/influxdb/encode.ts'
import { agedLines, shardGroupSeconds } from '../../../sinks/influxdb/schema.ts'
import { rejectBeyond } from '../../../sinks/influxdb/sink.ts'
import { batchOf, noonUs, plain } from '../batches.ts'

test('rows that are too old are found, and none if everything is kept', () => {
  const old = {
    offset: 1,
    records: [
      { value: 1, timeUs: noonUs },
      { value: 2, timeUs: noonUs - 86_400_000_001 },
    ],
  }
  const encoded = encode(batchOf(0, 2, [plain(0), old]), [1])
  expect(agedLines(encoded, 0, noonUs / 1000)).toEqual([])
  const aged = agedLines(encoded, 86_400, noonUs / 1000)
  expect(aged).toEqual([encoded.lines.length - 1])
})

test('a message with some rows too old may have others in the bucket, one with all rows too old has none', async () => {
  const aged = { timeUs: noonUs - 86_400_000_001 }
  const messages = [plain(0), { offset: 1, records: [{ value: 1 }, { value: 2, ...aged }] }, { offset: 2, records: [aged, aged] }]
  const encoded = encode(batchOf(0, 3, messages), [1])
  vi.useFakeTimers({ toFake: ['Date'], now: noonUs / 1000 })
  onTestFinished(() => void vi.useRealTimers())
  const schema = { keptSeconds: () => 86_400, readAgain: async () => undefined }
  await rejectBeyond(encoded, { schema, signal: new AbortController().signal })
  expect([...encoded.rejected.values()].map(({ message, record, rule, partial }) => [message, record, rule, partial])).toEqual([
    [1, 1, 'beyond-retention', true],
    [2, 0, 'beyond-retention', undefined],
  ])
})

test('a shard lasts 28 days, and at most a quarter of the retention', () => {
  expect([0, 1, 7, 60, 112, 4000].map(days => shardGroupSeconds(days) / 86_400)).toEqual([28, 1, 1, 15, 28, 28])
})
