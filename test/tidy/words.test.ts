// Banned words are found, and similar ones are not.

import { expect, test } from 'vitest'
import { words } from './words.ts'

const found = (text: string) => words([{ path: 'sinks/sink.ts', text }])

test.each([
  '// TODO: later',
  '// FIXME',
  "throw new Error('not implemented')",
  'Not yet implemented.',
  '// see issue #12',
  '// fixes issue 3',
  '// DESIGN.md says so',
  '// (DESIGN §4)',
  '// as an AI',
  '// the language model',
  "const path = '/work/main/data'",
  'cd /root/project',
  'https://registry.example.org/pg/-/pg-8.0.0.tgz',
  'https://npm.example.org/registry/pg',
  'registry.npmjs.org',
  'run `sluice up` first',
  'SVC_HTTP_PORT=9000 sluice config print up',
  'sluice logs relational',
  "request.log.info('done')",
])('%j is found', text => {
  expect(found(`first\n${text}\n`)).toEqual([expect.stringMatching(/^sinks\/sink\.ts:2: ".+" (is|names|promises|cites|speaks)/)])
})

test.each([
  'the design of the pipeline',
  'const todos = hacks',
  'one issue at a time, 3 of them',
  'registry.metrics()',
  'registry.secondary.map(',
  'npm config get registry',
  '/var/lib/sluice/data',
  'a session of MQTT, an agent at the edge',
  './work/main/',
  './sluice up',
  'Sluice writes rows',
  'the application name sluice writer/1 of a connection',
])('%j passes', text => {
  expect(found(text)).toEqual([])
})

test.each([
  ['// nobody reads it', 'nobody', 'no client, no caller'],
  ["throw new Error('read it anew')", 'anew', 'again'],
  ['// the caller is told', 'is told', 'gets, is notified'],
  ["const hint = 'do not read it any more'", 'any more', 'no longer'],
  ["const reason = 'this is no key of a thing'", 'is no', 'is not a'],
  ['const help = `\nIt\ntries again where it goes on`', 'goes on', 'continues'],
  ["const hint = `${'a'} and lies behind ${1}`", 'lies behind', 'is behind'],
])('%j is not plain', (text, found, say) => {
  const line = text.split('\n').findIndex(part => part.includes(found)) + 1
  expect(words([{ path: 'sinks/sink.ts', text }])).toEqual([`sinks/sink.ts:${line}: "${found}" is not plain English: say ${say}`])
  expect(words([{ path: 'test/sinks/sink.test.ts', text }])).toEqual([])
  expect(words([{ path: 'sinks/README.md', text }])).toEqual([])
})

test.each([
  '// where it goes on',
  "const one = 'there is no key, and 0 is no limit'",
  "const two = 'it is no longer there'",
  "const four = 'if any more arrive'",
])('%j is plain', text => expect(words([{ path: 'sinks/sink.ts', text }])).toEqual([]))

test('the rules may contain what they ban', () => {
  expect(words([{ path: 'test/tidy/words.ts', text: 'TODO' }])).toEqual([])
})
