// That the rules of sizes, openings, names and READMEs find what they forbid.

import { expect, test } from 'vitest'
import { openingComment } from './files.ts'
import { names, openings, readmes, sizes } from './shape.ts'

const file = (path: string, text = '// What it is.\n') => ({ path, text })
const long = (opening: string, lines: number) => `${opening}\n${'const a = 1\n'.repeat(lines - 1)}`

test('a file of more than 250 lines is found unless its first comment says why; a test has 400', () => {
  expect(sizes([file('sinks/sink.ts', long('// What it is.', 250))])).toEqual([])
  expect(sizes([file('sinks/sink.ts', long('// What it is.', 251))])).toEqual([
    'sinks/sink.ts: has 251 lines: split it, or say why not in its first comment ("Longer than most files: …")',
  ])
  expect(sizes([file('sinks/sink.ts', long('// What it is. Longer than most files: one loop.', 300))])).toEqual([])
  expect(sizes([file('test/a.test.ts', long('// What it is.', 400))])).toEqual([])
  expect(sizes([file('test/a.test.ts', long('// What it is.', 401))])).toHaveLength(1)
  expect(sizes([file('test/senml/fixtures/units.ts', long('// What it is.', 900)), file('README.md', long('', 900))])).toEqual([])
})

test('a file that does not open with a sentence is found', () => {
  expect(
    openings([file('a.ts', "import { b } from './b.ts'\n"), file('b.ts', '// options\n'), file('c.ts', '\n// What it is.\n')]),
  ).toHaveLength(3)
  expect(openings([file('a.ts', '// What it is.\n'), file('b.js', '#!/usr/bin/env node\n// What it is: one thing.\n')])).toEqual([])
})

test('the opening comment is the one before the first empty line', () => {
  expect(openingComment('// What it is.\n//\n// Why.\n\n// Another.\n')).toBe('What it is.  Why.')
})

test.each([
  'sinks/utils.ts',
  'helpers/sink.ts',
  'config/common.test.ts',
  'types.ts',
  'misc/a.ts',
  'lib/a.ts',
  'sinks/recordBatch.ts',
  'sinks/Record.ts',
  'test/run_all.ts',
])('the name %s is found', path => {
  expect(names([file(path)])).toHaveLength(1)
})

test('good names pass', () => {
  expect(
    names(
      ['sinks/postgres/copy-bytes.ts', 'test/up/crash.slow.test.ts', 'test/vitest.config.ts', 'bin/install.js'].map(path => file(path)),
    ),
  ).toEqual([])
})

test('a door is for those outside: who imports that of its own folder is found', () => {
  expect(names([file('control-plane/access.ts', "import { a } from './index.ts'\n")])).toHaveLength(1)
  expect(
    names([
      file('control-plane/access.ts', "import type { A } from './index.ts'\n"),
      file('up.ts', "import { a } from './control-plane/index.ts'\n"),
    ]),
  ).toEqual([])
})

test('a folder of code without a README is found; folders of tests have that of test', () => {
  const files = [
    file('README.md'),
    file('main.ts'),
    file('sinks/README.md'),
    file('sinks/sink.ts'),
    file('sinks/postgres/sink.ts'),
    file('test/sinks/sink.test.ts'),
  ]
  expect(readmes(files).map(finding => finding.split(':')[0])).toEqual(['sinks/postgres/README.md', 'test/README.md'])
})
