// Where the buckets of an aggregation begin in PostgreSQL.

import { expect, test } from 'vitest'
import { originUs } from '../../../readers/postgres/select-groups.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { aggregateQuery } from '../../conformance/reader/index.ts'
import { openEmbeddedSite } from './site.ts'

const hourUs = 3_600_000_000

test.each([1_000_000, 7_000_000, hourUs, 366 * 86_400_000_000])('buckets of %d µs are counted from before all rows', intervalUs => {
  const origin = originUs(intervalUs)
  expect(origin % BigInt(intervalUs)).toBe(0n)
  expect(origin * 1000n).toBeLessThan(-(2n ** 63n))
  expect((origin + BigInt(intervalUs)) * 1000n).toBeGreaterThan(-(2n ** 63n) - 2000n)
})

test('a row at the beginning of a bucket is in it, before 1970 as after', async () => {
  const site = await openEmbeddedSite()
  const batch = new RecordBatch()
  const timesUs = [-hourUs - 1, -hourUs, -1, 0, hourUs - 1]
  for (const [offset, timeUs] of timesUs.entries()) {
    batch.beginMessage({ at: logPartition(0, 0), offset, channel: 'c', subtopic: '', publisher: 'p', protocol: 'http' })
    batch.appendRecord(0, 'n', undefined, timeUs, 1, 1, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(logPartition(0, 0), 0, timesUs.length)
  await site.store(batch)
  const query = aggregateQuery({ channel: 'c', aggregation: 'count', intervalUs: hourUs, direction: 'asc' })
  const { groups } = await site.reader.aggregate(query, new AbortController().signal)
  expect(groups.map(({ timeUs, count }) => [timeUs, count])).toEqual([
    [-2 * hourUs, 1],
    [-hourUs, 2],
    [0, 2],
  ])
  await site.close()
})
