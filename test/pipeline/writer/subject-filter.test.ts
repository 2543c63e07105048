// Which messages a writer subscribes to: patterns over subjects (SPEC §2, writer configuration), and what they match.

import { expect, test } from 'vitest'
import { subjectFilter } from '../../../pipeline/writer/subject-filter.ts'

test.each([
  [['channels.>'], 'c1', '', true],
  [['channels.>'], 'c1', 'bedroom.temperature', true],
  [['channels.*.bedroom.temperature'], 'c1', 'bedroom.temperature', true],
  [['channels.*.bedroom.temperature'], 'c1', 'bedroom', false],
  [['channels.*.bedroom.temperature'], 'c1', 'bedroom.temperature.max', false],
  [['channels.*.bedroom.temperature'], 'c1', 'kitchen.temperature', false],
  [['channels.*.*.temperature'], 'c1', 'kitchen.temperature', true],
  [['channels.*'], 'c1', '', true],
  [['channels.*'], 'c1', 'bedroom', false],
  [['channels.c1.>'], 'c1', '', false],
  [['channels.c1.>'], 'c1', 'a', true],
  [['channels.c1.>'], 'c1', 'a.b.c', true],
  [['channels.c1.>'], 'c2', 'a', false],
  [['channels.c1', 'channels.c2.a'], 'c2', 'a', true],
  [['channels.c1', 'channels.c2.a'], 'c1', '', true],
  [['channels.c1', 'channels.c2.a'], 'c3', '', false],
  // A channel id is one part, whatever it contains.
  [['channels.a.b'], 'a.b', '', false],
  [['channels.*'], 'a.b', '', true],
  // Channels are in lower case when they are filtered.
  [['channels.7ACB5F9E-3C0E-4A57-9D0A-5F9F0A3C1B77.>'], '7acb5f9e-3c0e-4a57-9d0a-5f9f0a3c1b77', 'a', true],
])('%j on channel %s with subtopic "%s": %s', (patterns, channel, subtopic, expected) => {
  expect(subjectFilter(patterns)(channel, subtopic)).toBe(expected)
})

test.each([
  ['messages.>', /does not begin with "channels"/],
  ['channels', /names no channel/],
  ['channels..a', /empty part/],
  ['channels.>.a', /only the last part may be ">"/],
  ['channels.c1.temp*', /can only replace whole parts/],
  ['channels.c1.>>', /can only replace whole parts/],
])('%s can never match and is refused', (pattern, reason) => {
  expect(() => subjectFilter(['channels.>', pattern])).toThrow(reason)
})
