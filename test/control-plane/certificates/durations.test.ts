// Durations as clients of certificates write them.

import { expect, test } from 'vitest'
import { parseDuration } from '../../../control-plane/certificates/request.ts'

test.each<[string, 'h' | 's', number | undefined]>([
  ['2400h', 's', 8_640_000],
  ['1h30m', 's', 5_400],
  ['1h30m15s', 'h', 5_415],
  ['1.5h', 's', 5_400],
  ['90m', 'h', 5_400],
  ['3600', 's', 3_600],
  ['8760', 'h', 31_536_000],
  ['1.9s', 's', 1],
  ['0', 's', undefined],
  ['0h', 's', undefined],
  ['0.5s', 's', undefined],
  ['', 's', undefined],
  ['-1h', 's', undefined],
  ['1.5', 'h', undefined],
  ['h', 's', undefined],
  ['10d', 's', undefined],
  ['1h ', 's', undefined],
  ['1e3s', 's', undefined],
  ['12345678901', 's', undefined],
])('%o with digits as %s is %o', (text, unit, seconds) => expect(parseDuration(text, unit)).toBe(seconds))
