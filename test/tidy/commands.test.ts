// The rule for blocks of commands: finds those without a test, and accepts tested ones and those with a reason.

import { expect, test } from 'vitest'
import { shownCommands } from './commands.ts'

const block = '```sh\n./sluice up\n```\n'
const runs = (document: string, name: string) => ({
  path: 'test/up/guide.slow.test.ts',
  text: `runBlocks(extractBlocks(readFileSync('${document}'), '${name}'))`,
})
const found = (text: string, path = 'docs/guides/deploy.md', tests = [runs('docs/guides/deploy.md', 'deploy')]) =>
  shownCommands([{ path, text }, ...tests])

test.each([
  ['without a marker', `Start it:\n\n${block}`, /deploy\.md:3: no test runs this block/],
  ['with a marker that no test knows', `<!-- run:other -->\n${block}`, /deploy\.md:2: no test runs the blocks run:other/],
  ['without a reason', `<!-- not run: -->\n${block}`, /no test runs this block/],
  ['below one that is run', `<!-- run:deploy -->\n${block}\n${block}`, /deploy\.md:6: no test runs this block/],
])('a block %s is found', (_what, text, finding) => {
  expect(found(text)).toEqual([expect.stringMatching(finding)])
})

test('a test of another document does not run it', () => {
  expect(found(`<!-- run:deploy -->\n${block}`, 'docs/guides/operate.md')).toHaveLength(1)
  expect(found(`<!-- run:tour -->\n${block}`, 'README.md', [runs('bin/README.md', 'tour')])).toHaveLength(1)
})

test.each([
  ['that is run', `<!-- run:deploy -->\n\n${block}`],
  ['that says why not', `<!-- not run: it goes on until it is stopped -->\n${block}`],
  ['of another language', '```json\n{}\n```\n'],
])('a block %s passes', (_what, text) => {
  expect(found(text)).toEqual([])
})

test("a folder's README is exempt", () => {
  expect(found(block, 'bin/README.md')).toEqual([])
})
