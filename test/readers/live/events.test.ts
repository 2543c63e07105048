// Events as text, and whether a client takes them.

import { expect, test } from 'vitest'
import { endEvent, greeting, heartbeat, lostEvent, recordEvent, takesEvents } from '../../../readers/live/events.ts'

test('an event is its lines and an empty one', () => {
  expect(recordEvent('abc', '{"Name":"a"}')).toBe('id: abc\ndata: {"Name":"a"}\n\n')
  expect(greeting(2000, 'abc')).toBe('retry: 2000\nid: abc\n\n')
  expect(heartbeat('abc')).toBe(': heartbeat\nid: abc\n\n')
  expect(lostEvent()).toMatch(/^event: lost\ndata: \{"detail":"[^\n]+"\}\n\n$/)
  expect(endEvent('slow')).toMatch(/^event: end\ndata: \{"reason":"slow","detail":"[^\n]+"\}\n\n$/)
})

test.each([
  [undefined, true],
  ['', true],
  ['text/event-stream', true],
  ['Text/Event-Stream; charset=utf-8', true],
  ['*/*', true],
  ['text/*;q=0.1', true],
  ['application/json, text/event-stream;q=0.5', true],
  ['application/json', false],
  ['text/html, */*;q=0', false],
  ['text/event-stream;q=0, */*', false],
  ['text/event-stream;q=x', true],
  [`${'text/html,'.repeat(20)}text/event-stream`, false],
])('Accept: %s', (accept, takes) => {
  expect(takesEvents(accept)).toBe(takes)
})
