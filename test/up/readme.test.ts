// What the README shows of options is what the command takes.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

test('the files that the README writes are right', async () => {
  const blocks = extractBlocks(readFileSync(`${root}README.md`, 'utf8'), 'config')
  const outputs = await runBlocks(blocks, {
    cwd: temporaryFolder(),
    replace: { './sluice': `'${root}sluice'` },
    expected: { 0: /^ok$/m, 1: /^ok$/m, 2: /^ok$/m, 3: /^ok$/m, 4: /^ok$/m },
  })
  expect(outputs[0]).toContain('time_fields = []')
})
