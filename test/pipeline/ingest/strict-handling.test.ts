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

test('a long hostile header is parsed quickly', () => {
  for (const part of ['a', ' ;', 'a=;', '; a = "b"', ',', '"\\', 'a=b;a ', ';b= ', ';b = ', '= ', ' ']) {
    const startedMs = performance.now()
    expect(isStrict(`x${part.repeat(Math.ceil(16_384 / part.length))}"`)).toBe(false)
    expect(performance.now() - startedMs).toBeLessThan(1000)
  }
})
