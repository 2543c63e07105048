// Counting vitest's results, shown with a run of its own over made-up test files.

import { spawn } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Runs test files in a folder of their own, which finds this project's packages. */
async function run(
  files: Readonly<Record<string, string>>,
  environment: Record<string, string> = {},
  setupFiles: readonly string[] = [],
): Promise<{ code: number | null; last: string }> {
  const folder = temporaryFolder()
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), `import { beforeAll, test } from 'vitest'\n${text}`)
  const config = join(folder, 'vitest.config.ts')
  writeFileSync(
    config,
    `export default { test: { projects: [{ test: { name: 'quick', root: ${JSON.stringify(folder)}, include: ['*.test.ts'], setupFiles: ${JSON.stringify(setupFiles)} } }] } }`,
  )
  const script = `
    import { resultOf } from ${JSON.stringify(join(root, 'test/run/count.ts'))}
    import { runTests } from ${JSON.stringify(join(root, 'test/run/tests.ts'))}
    const { line, ok } = resultOf(await runTests('quick', [], ${JSON.stringify(config)}), process.env.CI === 'true')
    console.log(line)
    process.exitCode = ok ? 0 : 1`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: root,
    env: { PATH: process.env['PATH'], ...environment },
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
  return { code, last: output.trimEnd().split('\n').at(-1)! }
}

const passing = "test('passes', () => {})\n"

test('passing tests are counted, and the run is a success', async () => {
  expect(await run({ 'a.test.ts': passing + "test('too', () => {})\n", 'b.test.ts': passing })).toEqual({
    code: 0,
    last: '3 passed, 0 failed',
  })
})

test('a failing test, a file that does not load, a hook that throws, and an error that no test caught, are failures', async () => {
  const failing = "test('fails', () => { throw new Error('x') })\n"
  expect(await run({ 'a.test.ts': passing + failing })).toEqual({ code: 1, last: '1 passed, 1 failed' })
  expect(await run({ 'a.test.ts': passing, 'b.test.ts': "import './missing.ts'\n" })).toEqual({ code: 1, last: '1 passed, 1 failed' })
  const hook = "beforeAll(() => { throw new Error('x') })\n"
  const hooked = await run({ 'a.test.ts': passing, 'b.test.ts': hook + passing })
  expect([hooked.code, hooked.last]).toEqual([1, expect.stringContaining('1 passed, 1 failed')])
  const late =
    "test('late', async () => { setTimeout(() => { throw new Error('x') }); await new Promise(resolve => setTimeout(resolve, 50)) })\n"
  expect((await run({ 'a.test.ts': late })).code).toBe(1)
})

test('a skipped test is told, and is a failure in continuous integration', async () => {
  const files = { 'a.test.ts': passing + "test.skip('skipped', () => {})\ntest.todo('later')\n" }
  expect(await run(files)).toEqual({ code: 0, last: '1 passed, 0 failed, 2 skipped' })
  expect(await run(files, { CI: 'true' })).toEqual({ code: 1, last: '1 passed, 2 failed' })
})

test('a run of no test is a failure', async () => {
  expect(await run({ 'a.ts': '' })).toEqual({ code: 1, last: '0 passed, 0 failed' })
})

test('an answer that is otherwise than its route describes is a failure, whatever its test looks at', async () => {
  const files = {
    'a.test.ts': `import { fastify } from 'fastify'
      test('looks at nothing', async () => {
        const app = fastify()
        app.get('/', { schema: { response: { 204: { type: 'null' } } } }, async () => ({}))
        await app.inject('/')
        await app.close()
      })
      ${passing}`,
  }
  const setupFiles = [join(root, 'test/described-answers/setup.ts')]
  expect(await run(files, {}, setupFiles)).toEqual({ code: 1, last: '1 passed, 1 failed' })
  expect(await run(files)).toEqual({ code: 0, last: '2 passed, 0 failed' })
})
