// The help of benchmarks: the first comment of each, which names its options.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openingComment, readProject, root } from '../tidy/files.ts'

const programs = (await readProject()).filter(({ path, text }) => path.startsWith('benchmarks/') && text.includes('parseArgs({'))

test('npm run bench -- <benchmark> --help prints its first comment', async () => {
  const words = ['benchmarks/run.ts', 'kafka-writer', '--turns', '1', '--help']
  const { stdout } = await promisify(execFile)(process.execPath, words, { cwd: root })
  const { text } = programs.find(({ path }) => path.includes('kafka-writer/index'))!
  expect(text.split('\n\n')[0]).toBe(stdout.trim().replaceAll(/^/gm, '// ').replaceAll(/ $/gm, ''))
})

test.each(programs.map(({ path, text }) => [path, text]))('the first comment of %s names its options', (_path, text) => {
  const comment = openingComment(text)
  expect(comment).toMatch(/(npm run bench -- |node benchmarks\/).* \[?--/)
  const options = [...text.matchAll(/'?\b([a-z-]+)'?: \{ type: '/g)].map(([, name]) => name!)
  // Not for people: it is for the processes that the benchmark starts.
  expect(options.filter(name => name !== 'role' && !comment.includes(`--${name}`))).toEqual([])
})
