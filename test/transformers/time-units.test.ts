// Whole units of a time, on both sides of 1970.

import { expect, test } from 'vitest'
import { unitsDown, unitsUp } from '../../transformers/time-units.ts'

test.each([
  [-2001n, -3n, -2n],
  [-2000n, -2n, -2n],
  [-1n, -1n, 0n],
  [0n, 0n, 0n],
  [1n, 0n, 1n],
  [2000n, 2n, 2n],
  [2001n, 2n, 3n],
])('of %s nanoseconds the microsecond is %s, and the first one not before it %s', (ns, down, up) => {
  expect([unitsDown(ns, 1000n), unitsUp(ns, 1000n)]).toEqual([down, up])
})
