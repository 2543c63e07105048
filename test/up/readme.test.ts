// The options that documents show are valid.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

test('the files that the documents write are valid', async () => {
  const blocks = ['docs/reference/configuration.md', 'docs/guides/deploy.md'].flatMap(path =>
    extractBlocks(readFileSync(`${root}${path}`, 'utf8'), 'config'),
  )
  const outputs = await runBlocks(blocks, {
    cwd: temporaryFolder(),
    replace: { './sluice': `'${root}sluice'` },
    expected: { 0: /^ok$/m, 1: /^ok$/m, 2: /^ok$/m, 3: /^ok$/m, 4: /^ok$/m },
  })
  expect(outputs[0]).toContain('time_fields = []')
})
