// The last line of a run: what it says, and when it is a success.

import { expect, test } from 'vitest'
import { add, emptyCount, resultOf } from './count.ts'

test.each([
  [{ passed: 3, failed: 0, skipped: 0 }, false, '3 passed, 0 failed', true],
  [{ passed: 3, failed: 1, skipped: 0 }, false, '3 passed, 1 failed', false],
  [{ passed: 3, failed: 0, skipped: 2 }, false, '3 passed, 0 failed, 2 skipped', true],
  [{ passed: 3, failed: 0, skipped: 2 }, true, '3 passed, 2 failed', false],
  [{ passed: 0, failed: 0, skipped: 0 }, false, '0 passed, 0 failed', false],
  [{ passed: 0, failed: 0, skipped: 4 }, false, '0 passed, 0 failed, 4 skipped', false],
])('%j (strict: %s) ends with "%s"', (count, strict, line, ok) => {
  expect(resultOf(count, strict)).toEqual({ line, ok })
})

test('counts add up', () => {
  expect(add(add(emptyCount, { passed: 1, failed: 2, skipped: 3 }), { passed: 10, failed: 20, skipped: 30 })).toEqual({
    passed: 11,
    failed: 22,
    skipped: 33,
  })
})
