// Groups that are made in this process: the order of buckets, which is that of every store, and the keys of long names.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { aggregateRows, bucketOrder, firstOfEach, groupKey } from '../../readers/groups.ts'
import { mergeBuckets, mergeSeries } from '../../readers/postgres/embedded-queries.ts'
import { QueryTooLargeError, type SenmlRow } from '../../readers/reader.ts'
import { aggregateQuery, pageQuery } from '../conformance/reader/index.ts'

const bucket = { channel: 'c', publisher: 'p', subtopic: '', name: 'n', unit: undefined, timeUs: 0, value: 1, count: 1 }
const sign = (number: number): number => Math.sign(number) + 0

/** Characters on both sides of the surrogates, and beyond them. */
const text = fc.string({
  unit: fc.constantFrom('a', 'b', '\u00e9', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{1f600}', '\u{1f601}'),
  maxLength: 4,
})

test('names are ordered by their bytes', () => {
  fc.assert(
    fc.property(text, text, (one, other) => {
      const expected = Buffer.compare(Buffer.from(one), Buffer.from(other))
      expect(sign(bucketOrder('desc')({ ...bucket, name: one }, { ...bucket, name: other }))).toBe(expected)
      expect(sign(bucketOrder('asc')({ ...bucket, unit: one }, { ...bucket, unit: other }))).toBe(expected)
    }),
    { numRuns: 1000 },
  )
})

test('time comes before every text, and a missing unit before every other', () => {
  const later = { ...bucket, timeUs: 1, name: 'a' }
  expect([bucketOrder('desc')(bucket, later), bucketOrder('asc')(bucket, later)].map(sign)).toEqual([1, -1])
  expect(sign(bucketOrder('desc')(bucket, { ...bucket, unit: 'A' }))).toBe(-1)
})

test('long names of the same length do not make a map slow: their keys are short, and differ', () => {
  const prefix = 'x'.repeat(20_000)
  const keys = Array.from({ length: 7_000 }, (_, nth) => groupKey(['p', '', `${prefix}${10_000 + nth}`]))
  // V8 hashes texts of more than 16,383 characters by their length only.
  expect(Math.max(...keys.map(({ length }) => length))).toBeLessThanOrEqual(1_000)
  expect(new Set(keys).size).toBe(7_000)
})

describe('groups with too many characters in their names are refused', () => {
  const nameCharacters = 1024 * 1024
  const names = Array.from({ length: 17 }, (_, nth) => String(nth).padEnd(nameCharacters, 'x'))
  const refused = (what: string): QueryTooLargeError =>
    new QueryTooLargeError(
      `the names of the ${what} have more than 16777216 characters in total: narrow the query with name, publisher, from or to`,
    )
  async function* rows(): AsyncGenerator<SenmlRow> {
    for (const name of names) {
      const origin = { channel: 'c', subtopic: '', publisher: '', protocol: 'http', position: 0n, index: 0 }
      const unset = { stringValue: undefined, boolValue: undefined, dataValue: undefined, sum: undefined, updateTime: undefined }
      // Twice, since a group counts once.
      for (const value of [1, 2]) yield { kind: 'senml', ...origin, name, unit: undefined, timeUs: 0, value, ...unset }
    }
  }

  test('from rows', async () => {
    await expect(firstOfEach(rows())).rejects.toThrow(refused('series'))
    await expect(aggregateRows(rows(), aggregateQuery({ channel: 'c' }))).rejects.toThrow(refused('buckets'))
  })

  test('merged from pieces', () => {
    const series = mergeSeries(pageQuery({ channel: 'c' }), 1n)
    const buckets = mergeBuckets(aggregateQuery({ channel: 'c' }))
    const addSeries = (name: string): void => series.add([{ series: ['', '', name], time: '0', position: '0', index: 0 }])
    const addBucket = (name: string): void =>
      buckets.add([{ publisher: '', subtopic: '', name, unit: null, time_us: 0, count: 1, small: 1, large: 0, min: 1, max: 1 }])
    for (const name of names.slice(0, 16)) {
      for (const add of [addSeries, addBucket, addSeries, addBucket]) add(name)
    }
    expect(() => addSeries(names[16]!)).toThrow(refused('series'))
    expect(() => addBucket(names[16]!)).toThrow(refused('buckets'))
  })
})
