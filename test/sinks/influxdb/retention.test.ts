// Messages that the bucket would drop are known before anything is sent, and shards are no longer than the retention bears.

import { expect, test } from 'vitest'
import { encode } from '../../../sinks/influxdb/encode.ts'
import { agedLines, rejectAged, shardGroupSeconds } from '../../../sinks/influxdb/retention.ts'
import { batchOf, noonUs, plain } from '../batches.ts'

test('a message with a row that is too old is rejected as a whole, and none where all is kept', () => {
  const old = {
    offset: 1,
    records: [
      { value: 1, timeUs: noonUs },
      { value: 2, timeUs: noonUs - 86_400_000_001 },
    ],
  }
  const encoded = encode(batchOf(0, 2, [plain(0), old]), 1)
  expect(agedLines(encoded, 0, noonUs / 1000)).toEqual([])
  const aged = agedLines(encoded, 86_400, noonUs / 1000)
  expect(aged).toEqual([encoded.lines.length - 1])
  encoded.stored.add(aged[0]!)
  expect(agedLines(encoded, 86_400, noonUs / 1000)).toEqual([])
  rejectAged(encoded, aged, 86_400)
  expect([...encoded.rejected.values()]).toEqual([expect.objectContaining({ message: 1, record: 1, rule: 'beyond-retention' })])
  // Its other row may be stored.
  expect([...encoded.partly]).toEqual([1])
})

test('a message of which all rows are too old has none to be taken away', () => {
  const old = { offset: 1, records: [0, 1].map(value => ({ value, timeUs: noonUs - 86_400_000_001 })) }
  const encoded = encode(batchOf(0, 2, [plain(0), old]), 1)
  rejectAged(encoded, agedLines(encoded, 86_400, noonUs / 1000), 86_400)
  expect([[...encoded.rejected.keys()], [...encoded.partly]]).toEqual([[1], []])
})

test('a shard lasts 28 days, and no more than a quarter of the retention', () => {
  expect([0, 1, 7, 60, 112, 4000].map(days => shardGroupSeconds(days) / 86_400)).toEqual([28, 1, 1, 15, 28, 28])
})
