// Which Prefer headers ask for strict handling (RFC 7240 §2, §4.4).

import { expect, test } from 'vitest'
import { isStrict } from '../../../pipeline/ingest/strict-handling.ts'

test.each([
  'handling=strict',
  'Handling = Strict',
  'handling="strict"',
  'handling="str\\ict"',
  'respond-async, wait=100, handling=strict',
  'respond-async,handling=strict;p=1; q="a, handling=lenient;" ;',
  ', ,handling=strict,,',
  'foo="a\\"b, handling=lenient", handling=strict',
  'foo="", bar= , handling=strict',
  'handling=strict, handling=lenient',
])('%s asks for strict handling', header => expect(isStrict(header)).toBe(true))

test.each([
  '',
  'handling',
  'handling=',
  'handling=lenient',
  'handling=strictest',
  'handling=lenient, handling=strict',
  'handling, handling=strict',
  'foo; handling=strict',
  'foo="handling=strict"',
  'foo="a\\", handling=strict',
  'handlings=strict',
  'return=minimal handling=strict',
  '=strict',
])('%s does not', header => expect(isStrict(header)).toBe(false))

// Work cannot be counted in regular expressions, so this is processor time: what the machine does meanwhile does not count. Backtracking takes minutes.
test('a long hostile header is parsed quickly', () => {
  for (const part of ['a', ' ;', 'a=;', '; a = "b"', ',', '"\\', 'a=b;a ', ';b= ', ';b = ', '= ', ' ']) {
    const before = process.threadCpuUsage()
    expect(isStrict(`x${part.repeat(Math.ceil(16_384 / part.length))}"`)).toBe(false)
    expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(1000)
  }
})
