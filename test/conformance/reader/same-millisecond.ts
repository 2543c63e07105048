// Rows whose times differ by less than a millisecond, or not at all, in another order than their positions: their exact times decide everywhere.

import { beforeAll, describe, expect, test } from 'vitest'
import { type Aggregation, type Filter, keyOf, type PageQuery, type Row } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { aggregateQuery, formatsQuery, pageQuery, type ReaderBench } from './bench.ts'
import { publishers, startUs } from './fixture.ts'
import { bucketsOf, formatsOf, latestOf, pageOf, type StoredRow, selected } from './oracle.ts'

const channel = '5d3b1f60-0c55-4b6c-8f2f-6a0f0a6f7c22'
const format = 'fine'
const messages = 30
/** Over the last second before 1970 and two milliseconds of another day. */
const firstUs = [-1000, startUs, startUs + 1000]
const microseconds = [0, 999, 1, 500, 500, 998, 0]

function timeUsOf(nth: number): number {
  return firstUs[nth % 3]! + microseconds[nth % 7]!
}

const originOf = (offset: number) => ({
  channel,
  subtopic: offset % 4 === 0 ? 'a' : '',
  publisher: publishers[offset % 2]!,
  protocol: 'http',
})

/** Two records and a document for each offset; the records of a message are ordered by time, with any ordinals. */
const recordsOf = (offset: number) =>
  [0, 1]
    .map(index => ({ index, name: `n${offset % 3}`, timeUs: timeUsOf(offset + index), value: ((offset * 7 + index) % 11) - 5 }))
    .sort((one, other) => one.timeUs - other.timeUs || one.index - other.index)
const restNsOf = (offset: number): number => (offset * 397) % 1000

function batchOfAll(): RecordBatch {
  const batch = new RecordBatch()
  for (let offset = 0; offset < messages; offset++) {
    batch.beginMessage({ at: logPartition(0, 5), offset, ...originOf(offset) })
    for (const { index, name, timeUs, value } of recordsOf(offset)) {
      batch.appendRecord(index, name, undefined, timeUs, 1, value, undefined, Number.NaN, Number.NaN)
    }
    batch.endMessage()
    batch.beginMessage({ at: logPartition(0, 6), offset, ...originOf(offset) })
    batch.appendDocument(0, format, timeUsOf(offset), restNsOf(offset), { nth: offset })
    batch.endMessage()
  }
  for (const partition of [5, 6]) batch.cover(logPartition(0, partition), 0, messages)
  return batch
}

const absent = {
  unit: undefined,
  stringValue: undefined,
  boolValue: undefined,
  dataValue: undefined,
  sum: undefined,
  updateTime: undefined,
}
const position = (partition: number, offset: number): bigint => (1n << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
const stored: readonly StoredRow[] = Array.from({ length: messages }, (_, offset): StoredRow[] => {
  const origin = originOf(offset)
  const createdNs = BigInt(timeUsOf(offset)) * 1000n + BigInt(restNsOf(offset))
  const payloadText = JSON.stringify({ nth: offset })
  return [
    ...recordsOf(offset).map(
      (record): StoredRow => ({
        format: 'messages',
        row: { kind: 'senml', ...origin, position: position(5, offset), ...absent, ...record },
      }),
    ),
    { format, row: { kind: 'document', ...origin, position: position(6, offset), index: 0, createdNs, payloadText } },
  ]
}).flat()

/** From or to within a millisecond, or at its border. */
const ranges: readonly Partial<Filter>[] = [
  {},
  { fromNs: BigInt(startUs + 500) * 1000n },
  { toNs: BigInt(startUs + 500) * 1000n },
  { fromNs: BigInt(startUs + 1) * 1000n, toNs: BigInt(startUs + 999) * 1000n },
  { fromNs: -1_000_000n, toNs: BigInt(startUs + 1000) * 1000n + 1n },
  { fromNs: -500_000n, toNs: BigInt(startUs) * 1000n + 500_001n },
]

export function sameMillisecondSuite(bench: ReaderBench): void {
  describe('rows of a millisecond', () => {
    beforeAll(() => bench.site.store(batchOfAll()))

    const places = (rows: readonly Row[]): string[] => rows.map(row => `${keyOf(row).timeNs} ${row.position} ${row.index}`)
    const cases = ['messages', format].flatMap(of => (['desc', 'asc'] as const).map(direction => [of, direction] as const))

    test.each(cases)('are paged by their exact times: %s, %s', async (of, direction) => {
      for (const range of ranges) {
        const query = pageQuery({ channel, format: of, direction, ...range })
        const own = selected(stored, query)
        const whole = pageOf(own, query)
        expect(places(await bench.read(query))).toEqual(places(whole))
        expect(await bench.count(query)).toBe(own.length)
        for (const paged of [(rows: readonly Row[]): Partial<PageQuery> => ({ offset: rows.length }), behindLast]) {
          const rows: Row[] = []
          do rows.push(...(await bench.read({ ...query, limit: 13, ...paged(rows) })))
          while (rows.length > 0 && rows.length % 13 === 0 && rows.length < whole.length)
          expect(places(rows)).toEqual(places(whole))
        }
      }
    })

    test.each(cases)('have a newest of each series: %s, %s', async (of, direction) => {
      for (const range of ranges) {
        const query = pageQuery({ channel, format: of, direction, ...range })
        const newest = latestOf(selected(stored, query))
        expect(places((await bench.latest(query)).groups)).toEqual(places(pageOf(newest, query)))
        const behind = { ...query, limit: 2, after: keyOf(newest[1]!) }
        expect(places((await bench.latest(behind)).groups)).toEqual(places(pageOf(newest, behind)))
      }
    })

    test.each<Aggregation>(['first', 'last', 'sum', 'avg', 'count', 'min', 'max'])(
      'are aggregated between exact times: %s',
      async aggregation => {
        for (const range of ranges) {
          const query = aggregateQuery({ channel, aggregation, intervalUs: 1_000_000, ...range })
          const expected = bucketsOf(selected(stored, query), query)
          const found = await bench.aggregate(query)
          expect(found.groups).toEqual(expected.map(bucket => ({ ...bucket, value: expect.closeTo(bucket.value, 9) })))
        }
      },
    )

    test('tell the formats and subtopics since an exact time, with the time of the newest', async () => {
      for (const fromUs of [-1000, startUs, startUs + 999, startUs + 1000, startUs + 1500, startUs + 1999]) {
        for (const rowsMax of [9, 1000]) {
          const query = formatsQuery({ channel, fromUs, rowsMax })
          expect(await bench.formats(query)).toEqual(formatsOf(stored, query))
        }
      }
    })
  })
}

function behindLast(rows: readonly Row[]): Partial<PageQuery> {
  const last = rows.at(-1)
  return last === undefined ? {} : { after: keyOf(last) }
}
