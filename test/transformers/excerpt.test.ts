// Quoting text of devices in errors.

import { expect, test } from 'vitest'
import { excerpt } from '../../transformers/excerpt.ts'

test('a text is cut between characters, never within one', () => {
  for (let length = 0; length < 20; length++) {
    const quoted = excerpt('\u0000'.repeat(12) + 'a'.repeat(length) + '😀'.repeat(20))
    expect(quoted.isWellFormed(), quoted).toBe(true)
    expect(quoted.length).toBeLessThan(110)
  }
  expect(excerpt('a\ud83d')).toBe('"a\\ud83d"')
})
