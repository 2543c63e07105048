// Events as text.

import { expect, test } from 'vitest'
import { endEvent, greeting, heartbeat, lostEvent, recordEvent } from '../../../readers/live/events.ts'

test('an event is its lines and an empty one', () => {
  expect(recordEvent('abc', '{"Name":"a"}')).toBe('id: abc\ndata: {"Name":"a"}\n\n')
  expect(greeting(2000, 'abc')).toBe('retry: 2000\nid: abc\n\n')
  expect(heartbeat('abc')).toBe(': heartbeat\nid: abc\n\n')
  expect(lostEvent()).toMatch(/^event: lost\ndata: \{"detail":"[^\n]+"\}\n\n$/)
  expect(endEvent('slow')).toMatch(/^event: end\ndata: \{"reason":"slow","detail":"[^\n]+"\}\n\n$/)
})
