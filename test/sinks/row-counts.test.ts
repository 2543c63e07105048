// Counting the rows of messages in any order, against a plain count.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { RowCounts } from '../../sinks/scan-audit.ts'

test('counts rows and duplicate rows, of small and of large messages', () => {
  const rows = fc.array(
    fc.tuple(fc.integer({ min: 10, max: 14 }), fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom(31, 32, 33, 64, 9999))),
  )
  fc.assert(
    fc.property(rows, given => {
      const counts = new RowCounts(10, 15)
      for (const [offset, index] of given) counts.add(offset, index)
      for (let offset = 10; offset < 15; offset++) {
        const own = given.filter(([at]) => at === offset).map(([, index]) => index)
        expect(counts.rowsAt(offset)).toBe(own.length)
        expect(counts.doubledAt(offset)).toBe(own.length - new Set(own).size)
      }
    }),
  )
})
