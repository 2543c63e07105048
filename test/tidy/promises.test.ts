// The table of promises: what the rule finds.

import { expect, test } from 'vitest'
import { promises } from './promises.ts'

const found = (rows: readonly string[], tests: Readonly<Record<string, string>>): string[] =>
  promises([
    { path: 'test/README.md', text: ['| Promise | In the gate | With `--all` |', '|---|---|---|', ...rows, '', 'More.'].join('\n') },
    ...Object.entries(tests).map(([name, text]) => ({ path: `test/${name}.test.ts`, text })),
  ])

const tests = { 'up/kill.slow': '', 'up/live.slow': 'inDepth(() => undefined)', 'writer/joins.deep': '', 'sinks/fake': '' }
const rows = ['| nothing is lost | `up/kill.slow` `sinks/fake` | `writer/joins.deep` |', '| streams | `up/live.slow` | `up/live.slow` |']

test('a complete table', () => expect(found(rows, tests)).toEqual([]))

test.each([
  ['no gate', ['| a | | `writer/joins.deep` |'], '"a" has no file in the gate'],
  ['a file that does not exist', ['| a | `up/none.slow` | |'], '"a" names up/none.slow, which is not a test'],
  ['a deep file in the gate', ['| a | `writer/joins.deep` | |'], '"a" is not shown in the gate by writer/joins.deep'],
  ['a file without depth', ['| a | `up/live.slow` | `up/kill.slow` |'], '"a" is not deepened by up/kill.slow'],
])('%s', (_name, more, finding) => expect(found([...rows, ...more], tests)).toEqual([expect.stringContaining(finding)]))

test.each([
  ['a slow file', rows.slice(1), ['up/kill.slow.test.ts: is missing in the gate', 'writer/joins.deep.test.ts: is missing in the --all']],
  ['the depth of a file', [rows[0]!, '| streams | `up/live.slow` | |'], ['up/live.slow.test.ts: is missing in the --all']],
])('%s that is missing', (_name, some, expected) => {
  expect(found(some, tests)).toEqual(expected.map(text => expect.stringContaining(text)))
})
