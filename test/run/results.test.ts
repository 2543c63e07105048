// The end of a run: what its last line says, which files were flaky, and when it is a success.

import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'
import { type FileResult, flakyMax, resultOf, settle, summaryOf } from './results.ts'

const fileResult = (path: string, more: Partial<FileResult> = {}): FileResult => {
  const counts = { passed: 1, failed: 0, skipped: 0, failures: [], ...more }
  return { path, project: 'quick', startMs: 0, endMs: 1, ...counts }
}
const broken = (path: string): FileResult =>
  fileResult(path, { passed: 0, failed: 1, failures: [`${path} > a promise\nAssertionError: 1 is not 2`] })

test.each([
  [{ passed: 3, failed: 0, skipped: 0 }, false, '3 passed, 0 failed', true],
  [{ passed: 3, failed: 1, skipped: 0 }, false, '3 passed, 1 failed', false],
  [{ passed: 3, failed: 0, skipped: 2 }, false, '3 passed, 0 failed, 2 skipped', true],
  [{ passed: 3, failed: 0, skipped: 2 }, true, '3 passed, 2 failed', false],
  [{ passed: 0, failed: 0, skipped: 0 }, false, '0 passed, 0 failed', false],
  [{ passed: 0, failed: 0, skipped: 4 }, false, '0 passed, 0 failed, 4 skipped', false],
])('%j (strict: %s) ends with "%s"', (counts, strict, line, ok) => {
  expect(resultOf([fileResult('test/a.test.ts', counts)], [], strict)).toEqual({ line, ok })
})

test('a file that passes when it runs again counts as passed, and is listed with its first failure', () => {
  const first = [fileResult('test/a.test.ts'), broken('test/b.test.ts')]
  const { settled, flaky } = settle(first, [fileResult('test/b.test.ts')])
  expect(flaky).toEqual([{ path: 'test/b.test.ts', firstFailure: 'a promise: AssertionError: 1 is not 2' }])
  expect(resultOf(settled, flaky, true)).toEqual({ line: '2 passed, 0 failed', ok: true })
  expect(summaryOf(settled, flaky)).toContain('flaky: test/b.test.ts: a promise: AssertionError: 1 is not 2')
})

test('a file that fails again is a failure, which is printed in full', () => {
  const { settled, flaky } = settle([broken('test/b.test.ts')], [broken('test/b.test.ts')])
  expect(flaky).toEqual([])
  expect(resultOf(settled, flaky, true).ok).toBe(false)
  expect(summaryOf(settled, flaky).join('\n')).toContain('FAIL test/b.test.ts > a promise\nAssertionError: 1 is not 2')
})

test('the same file of another project keeps its own result', () => {
  const first = [broken('test/b.test.ts'), { ...broken('test/b.test.ts'), project: 'slow-embedded' }]
  const { settled } = settle(first, [fileResult('test/b.test.ts')])
  expect(settled.map(({ project, failed }) => [project, failed])).toEqual([
    ['quick', 0],
    ['slow-embedded', 1],
  ])
})

test('an error that only the second run has, outside of any file, is a failure', () => {
  const { settled, flaky } = settle([broken('test/b.test.ts')], [fileResult('test/b.test.ts'), { ...broken(''), project: '' }])
  expect(resultOf(settled, flaky, true).ok).toBe(false)
})

test(`more than ${flakyMax} flaky files fail the run`, () => {
  const paths = Array.from({ length: flakyMax + 1 }, (_, nth) => `test/${nth}.test.ts`)
  const settling = (count: number) =>
    settle(
      paths.slice(0, count).map(broken),
      paths.slice(0, count).map(path => fileResult(path)),
    )
  const allowed = settling(flakyMax)
  expect(resultOf(allowed.settled, allowed.flaky, true).ok).toBe(true)
  const tooMany = settling(flakyMax + 1)
  expect(resultOf(tooMany.settled, tooMany.flaky, true)).toEqual({ line: '4 passed, 4 failed', ok: false })
  expect(summaryOf(tooMany.settled, tooMany.flaky)).toContain('4 flaky files are more than 3: each counts as failed')
})

test('the end of a worker is a failure of the file that it ran, and says why', async () => {
  const folder = temporaryFolder()
  const [config, output] = [join(folder, 'vitest.config.mjs'), join(folder, 'results.json')]
  await writeFile(config, `export default { root: ${JSON.stringify(folder)}, test: { name: 'quick', pool: 'forks', globals: true } }`)
  await writeFile(join(folder, 'dies.test.js'), `test('dies', () => new Promise(() => process.kill(process.pid, 'SIGKILL')))`)
  await writeFile(join(folder, 'lives.test.js'), `test('lives', () => {})`)
  const run = `import { writeFileSync } from 'node:fs'
    import { runTests } from ${JSON.stringify(import.meta.resolve('./tests.ts'))}
    writeFileSync(${JSON.stringify(output)}, JSON.stringify(await runTests('quick', [], ${JSON.stringify(config)})))
    process.exit(0)`
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', run])
  const results = JSON.parse(await readFile(output, 'utf8')) as FileResult[]
  expect(results.map(({ path, passed }) => `${path}: ${passed} passed`).sort()).toEqual([
    'dies.test.js: 0 passed',
    'lives.test.js: 1 passed',
  ])
  expect(results.find(({ path }) => path === 'dies.test.js')?.failures.join('\n')).toContain('exited unexpectedly with signal SIGKILL')
})
