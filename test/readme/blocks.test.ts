// That the README's blocks are found, run as one script, and that a failing one is told.

import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import { extractBlocks, runBlocks } from './blocks.ts'

const document = `# Title

<!-- run:tour -->
\`\`\`sh
greeting=hello; printf 'no end of line'
\`\`\`

\`\`\`sh
exit 1
\`\`\`

<!-- run:other -->

\`\`\`bash
false | cat
echo unreached
\`\`\`

<!-- run:tour -->
\`\`\`sh
echo "$greeting, PLACE"
echo problem >&2
\`\`\`
`

const cwd = tmpdir()

test('only marked blocks of the name are taken, in order, with their lines', () => {
  expect(extractBlocks(document, 'tour')).toEqual([
    { line: 5, language: 'sh', text: "greeting=hello; printf 'no end of line'" },
    { line: 21, language: 'sh', text: 'echo "$greeting, PLACE"\necho problem >&2' },
  ])
  expect(extractBlocks(document, 'other')).toHaveLength(1)
})

test('a name without a block, and a marker without one, are mistakes', () => {
  expect(() => extractBlocks(document, 'none')).toThrow('there is no block marked <!-- run:none -->')
  expect(() => extractBlocks('<!-- run:a -->\ntext\n', 'a')).toThrow('line 1: <!-- run:a --> is not followed by a block of code')
})

test('blocks share their variables, places are replaced, and what they print is theirs', async () => {
  const outputs = await runBlocks(extractBlocks(document, 'tour'), { cwd, replace: { PLACE: 'world' }, expected: { 1: /^hello, world$/m } })
  expect(outputs).toEqual(['no end of line', 'hello, world\nproblem\n'])
})

test('a command that fails, also inside a pipe, ends the run and names the line of its block', async () => {
  await expect(runBlocks(extractBlocks(document, 'other'), { cwd })).rejects.toThrow('the block at line 15 ended with 1')
  await expect(runBlocks([{ line: 7, language: 'sh', text: 'echo "$unset_variable"' }], { cwd })).rejects.toThrow(
    /line 7 ended with 1.*[\s\S]*unset_variable/,
  )
})

test('an output that is not what is expected fails', async () => {
  await expect(runBlocks(extractBlocks(document, 'tour'), { cwd, expected: { 1: 'good day' } })).rejects.toThrow(
    'the block at line 21 printed\nhello, PLACE',
  )
})

test('a block that takes too long is ended with all it has started', async () => {
  await expect(runBlocks([{ line: 1, language: 'sh', text: 'sleep 60 & sleep 60' }], { cwd, timeoutMs: 300 })).rejects.toThrow(
    'a timeout of 300 ms',
  )
})
