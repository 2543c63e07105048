// That a README which names a test that is not there is found.

import { expect, test } from 'vitest'
import type { SourceFile } from './files.ts'
import { namedTests } from './named-tests.ts'

const files = (readme: string): SourceFile[] => [
  { path: 'config/README.md', text: readme },
  { path: 'test/config/options.test.ts', text: '' },
  { path: 'test/config/start.slow.test.ts', text: '' },
]

test('names that are the end of a path, alternatives, and patterns pass', () => {
  const readme = '`test/config/options.test.ts`, `options.test.ts`\n`test/config/{options,start.slow}.test.ts`, every `*.test.ts`\n'
  expect(namedTests(files(readme))).toEqual([])
})

test('a test that is not there is found with its line, also one of alternatives, and one whose name only ends alike', () => {
  expect(namedTests(files('`start.test.ts`\n\n`config/{options,absent}.test.ts`, `ons.test.ts`\n'))).toEqual([
    'config/README.md:1: names the test start.test.ts, which is not there',
    'config/README.md:3: names the test config/absent.test.ts, which is not there',
    'config/README.md:3: names the test ons.test.ts, which is not there',
  ])
})
