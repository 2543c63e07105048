// The newest record of each series, and aggregations by intervals.

import { describe, expect, test } from 'vitest'
import { type AggregateQuery, type Aggregation, type Bucket, keyOf, type PageQuery, type Row } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { aggregateQuery, pageQuery, type ReaderBench } from './bench.ts'
import { channel, formats, publishers, startUs } from './fixture.ts'
import { bucketsOf, exactSum, latestOf, pageOf, type StoredRow, selected } from './oracle.ts'

/** A separate channel: many records of few series, some at the same time, so that groups have several members. */
const seriesChannel = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a12'
const names = ['a', 'b', 'ü', '😀', '\uffef']
const aggregations: readonly Aggregation[] = ['min', 'max', 'avg', 'sum', 'count', 'first', 'last']
const intervalsUs = [1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000]

interface Member {
  readonly offset: number
  readonly publisher: string
  readonly name: string
  readonly unit: string | undefined
  readonly timeUs: number
  readonly value: number
}

const members: readonly Member[] = Array.from({ length: 120 }, (_, offset) => ({
  offset,
  publisher: publishers[offset % 2]!,
  name: names[offset % names.length]!,
  unit: offset % 3 === 0 ? undefined : 'W',
  // Five at the same time, over two days, some before 1970.
  timeUs: (offset < 10 ? -3_600_000_000 : startUs) + Math.floor(offset / 5) * 7_200_000_001,
  value: ((offset * 7919) % 1000) / 8 - 50,
}))

const rows: readonly StoredRow[] = members.map(({ offset, publisher, name, unit, timeUs, value }) => ({
  format: 'messages',
  row: {
    kind: 'senml',
    channel: seriesChannel,
    subtopic: '',
    publisher,
    protocol: 'http',
    position: (1n << 56n) | (7n << 44n) | BigInt(offset),
    index: 0,
    name,
    unit,
    timeUs,
    value,
    stringValue: undefined,
    boolValue: undefined,
    dataValue: undefined,
    sum: undefined,
    updateTime: undefined,
  },
}))

function seriesBatch(): RecordBatch {
  const batch = new RecordBatch()
  for (const { offset, publisher, name, unit, timeUs, value } of members) {
    batch.beginMessage({ at: logPartition(0, 7), offset, channel: seriesChannel, subtopic: '', publisher, protocol: 'http' })
    batch.appendRecord(0, name, unit, timeUs, 1, value, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(logPartition(0, 7), 0, members.length)
  return batch
}

/** A channel of one record a second, whose numbers overflow, cancel out or round when they are added up one by one. */
const sumsChannel = '5d3b1f60-0c55-4b6c-8f2f-6a0f0a6f7c21'
const sumsStartUs = 1_700_000_400_000_000
const greatest = Number.MAX_VALUE
const numbersOf: Readonly<Record<string, readonly number[]>> = {
  'two large ones': [1e308, 1e308],
  'there and back': [1e308, 1e308, -1e308, -1e308, 3],
  'back and there': [-1e308, -1e308, 1e308, 1e308, 1e308],
  greatest: [greatest, greatest, -greatest],
  'only the greatest': [greatest, greatest, greatest],
  least: [5e-324, 5e-324, 5e-324],
  'least and greatest': [5e-324, greatest, greatest, -5e-324],
  tenths: Array.from({ length: 10 }, () => 0.1),
  'tenths below zero': Array.from({ length: 10 }, () => -0.1),
}

function sumsBatch(): RecordBatch {
  const batch = new RecordBatch()
  const numbers = Object.entries(numbersOf).flatMap(([name, values]) => values.map((value, nth) => ({ name, value, nth })))
  for (const [offset, { name, value, nth }] of numbers.entries()) {
    batch.beginMessage({ at: logPartition(0, 9), offset, channel: sumsChannel, subtopic: '', publisher: publishers[0], protocol: 'http' })
    batch.appendRecord(0, name, undefined, sumsStartUs + nth * 1_000_000, 1, value, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(logPartition(0, 9), 0, numbers.length)
  return batch
}

export function groupsSuite(bench: ReaderBench): void {
  let isStored = false
  const withSeries = async (): Promise<void> => {
    if (!isStored) await bench.site.store(seriesBatch())
    isStored = true
  }

  describe('the newest of each series', () => {
    async function expectLatest(asked: Partial<PageQuery>, stored = bench.stored): Promise<void> {
      const query = pageQuery(asked)
      const groups = latestOf(selected(stored, query))
      const found = await bench.latest(asked)
      expect(found.total).toBe(groups.length)
      expect(found.groups.map(keys)).toEqual(pageOf(groups, query).map(keys))
    }

    test('of records and of documents, of all and of one publisher, in both directions, with filters', async () => {
      await withSeries()
      for (const direction of ['desc', 'asc'] as const) {
        await expectLatest({ direction })
        await expectLatest({ direction, publisher: publishers[0] })
        await expectLatest({ direction, format: formats[0] })
        await expectLatest({ direction, channel: seriesChannel }, rows)
        await expectLatest(
          { direction, channel: seriesChannel, publisher: publishers[1], toNs: BigInt(startUs + 90_000_000_000) * 1000n },
          rows,
        )
        await expectLatest({ direction, channel: seriesChannel, value: { comparator: 'lt', number: 0 } }, rows)
      }
    })

    test('page by page, by offset and after the last row', async () => {
      await withSeries()
      const whole = (await bench.latest({ channel: seriesChannel })).groups
      const byOffset: Row[] = []
      for (let offset = 0; offset < whole.length; offset += 3)
        byOffset.push(...(await bench.latest({ channel: seriesChannel, offset, limit: 3 })).groups)
      expect(byOffset).toEqual(whole)
      const behind: Row[] = []
      for (;;) {
        const last = behind.at(-1)
        const { groups, total } = await bench.latest({
          channel: seriesChannel,
          limit: 3,
          after: last === undefined ? undefined : keyOf(last),
        })
        expect(total).toBe(whole.length)
        behind.push(...groups)
        if (groups.length < 3) break
      }
      expect(behind).toEqual(whole)
    })
  })

  describe('aggregations', () => {
    async function expectBuckets(asked: Partial<AggregateQuery>, stored = rows): Promise<void> {
      const query = aggregateQuery({ channel: seriesChannel, ...asked })
      const expected = bucketsOf(selected(stored, query), query)
      const found = await bench.aggregate({ channel: seriesChannel, ...asked })
      expect(found.total).toBe(expected.length)
      const page = expected.slice(query.offset, query.offset + query.limit)
      expect(found.groups.map(places)).toEqual(page.map(places))
      for (const [at, { value }] of found.groups.entries()) expect(close(value, page[at]!.value), `${value}, ${page[at]!.value}`).toBe(true)
    }

    test.each(aggregations)('%s by intervals of any length', async aggregation => {
      await withSeries()
      for (const intervalUs of intervalsUs) await expectBuckets({ aggregation, intervalUs })
      await expectBuckets({ aggregation, direction: 'asc', publisher: publishers[0] })
      await expectBuckets({ aggregation, fromNs: BigInt(startUs) * 1000n, toNs: BigInt(startUs + 40_000_000_000) * 1000n })
      await expectBuckets({ aggregation, name: 'ü', unit: 'W', value: { comparator: 'gt', number: 0 } })
    })

    test('page by page', async () => {
      await withSeries()
      for (let offset = 0; offset < 40; offset += 7) await expectBuckets({ offset, limit: 7 })
    })

    test('a sum is finite where a double holds it, and a mean lies between the least and the greatest, in any order', async () => {
      await bench.site.store(sumsBatch())
      const found = async (aggregation: Aggregation): Promise<[string, number][]> => {
        const { groups } = await bench.aggregate({ channel: sumsChannel, aggregation, intervalUs: 3_600_000_000, limit: 100 })
        expect(groups.map(({ count }) => count)).toEqual(groups.map(({ name }) => numbersOf[name]!.length))
        return groups.map(({ name, value }) => [name, value])
      }
      const sums = await found('sum')
      expect(sums.map(([name]) => name).sort()).toEqual(Object.keys(numbersOf).sort())
      for (const [name, sum] of sums) {
        const exact = exactSum(numbersOf[name]!)
        if (Number.isFinite(exact)) expect(closeTo(sum, exact, numbersOf[name]!), `${name}: ${sum}, ${exact}`).toBe(true)
        else expect(Number.isFinite(sum), name).toBe(false)
      }
      for (const [name, mean] of await found('avg')) {
        const numbers = numbersOf[name]!
        expect(mean, name).toBeGreaterThanOrEqual(Math.min(...numbers))
        expect(mean, name).toBeLessThanOrEqual(Math.max(...numbers))
        const exact = exactSum(numbers, numbers.length)
        expect(closeTo(mean, exact, numbers), `${name}: ${mean}, ${exact}`).toBe(true)
      }
    })

    test('records without a number are in no bucket', async () => {
      await expectBuckets({ channel, aggregation: 'count' }, bench.stored)
      expect((await bench.aggregate({ name: 'text' })).groups).toEqual([])
    })
  })
}

function keys(row: Row): string {
  return `${row.position} ${row.index}`
}

function places({ channel: of, publisher, subtopic, name, unit, timeUs, count }: Bucket): unknown[] {
  return [of, publisher, subtopic, name, unit, timeUs, count]
}

/** Rounding is relative to the greatest of the numbers, which may cancel out. */
function closeTo(one: number, other: number, numbers: readonly number[]): boolean {
  return Math.abs(one - other) <= 1e-9 * Math.max(...numbers.map(number => Math.abs(number)))
}

function close(one: number, other: number): boolean {
  return Math.abs(one - other) <= 1e-9 * Math.max(1, Math.abs(one), Math.abs(other))
}
