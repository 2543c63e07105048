// The output shown in bin/README.md is what the tools print.

import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const bin = fileURLToPath(new URL('../../bin/', import.meta.url))

/** The code block below a line of the document. */
function blockBelow(markdown: string, line: number): string {
  const lines = markdown.split('\n').slice(line)
  const [, opening = Number.NaN, closing = Number.NaN] = lines.flatMap((text, at) => (text.startsWith('```') ? [at] : []))
  return lines.slice(opening + 1, closing).join('\n')
}

test('every block prints the output shown below it', async () => {
  const markdown = readFileSync(join(bin, 'README.md'), 'utf8')
  const blocks = extractBlocks(markdown, 'tools')
  const folder = join(temporaryFolder(), 'bin')
  mkdirSync(folder)
  symlinkSync(join(bin, '..', 'sluice'), join(folder, 'sluice'))
  const path = [dirname(process.execPath), process.env['PATH']].join(delimiter)
  const outputs = await runBlocks(blocks, { cwd: folder, environment: { PATH: path } })
  expect(outputs.map(output => output.trimEnd())).toEqual(blocks.map(({ line }) => blockBelow(markdown, line)))
  expect(blocks.length).toBe(2)
})
