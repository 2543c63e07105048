// The order of buckets, which is that of every store.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { bucketOrder } from '../../readers/groups.ts'

const bucket = { channel: 'c', publisher: 'p', subtopic: '', name: 'n', unit: undefined, timeUs: 0, value: 1, count: 1 }
const sign = (number: number): number => Math.sign(number) + 0

/** Characters on both sides of the surrogates, and beyond them. */
const text = fc.string({
  unit: fc.constantFrom('a', 'b', '\u00e9', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{1f600}', '\u{1f601}'),
  maxLength: 4,
})

test('names are in the order of their bytes', () => {
  fc.assert(
    fc.property(text, text, (one, other) => {
      const expected = Buffer.compare(Buffer.from(one), Buffer.from(other))
      expect(sign(bucketOrder('desc')({ ...bucket, name: one }, { ...bucket, name: other }))).toBe(expected)
      expect(sign(bucketOrder('asc')({ ...bucket, unit: one }, { ...bucket, unit: other }))).toBe(expected)
    }),
    { numRuns: 1000 },
  )
})

test('time goes before every text, and no unit before every other', () => {
  const later = { ...bucket, timeUs: 1, name: 'a' }
  expect([bucketOrder('desc')(bucket, later), bucketOrder('asc')(bucket, later)].map(sign)).toEqual([1, -1])
  expect(sign(bucketOrder('desc')(bucket, { ...bucket, unit: 'A' }))).toBe(-1)
})
