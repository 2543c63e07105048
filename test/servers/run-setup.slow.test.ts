// What a run of tests does with its servers, shown with runs of their own over made-up suites.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const here = JSON.stringify(import.meta.dirname)

/** Everything that vitest prints about these files, with the servers of this project. */
async function run(files: Readonly<Record<string, string>>, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const folder = temporaryFolder()
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), `import { test } from 'vitest'\n${text}`)
  const config = join(folder, 'vitest.config.ts')
  writeFileSync(
    config,
    `export default { test: { pool: 'forks', root: ${JSON.stringify(folder)}, include: ['*.test.ts'], globalSetup: ${here} + '/run-setup.ts' } }`,
  )
  const environment = { ...process.env, NO_COLOR: '1', CI: '', ...env }
  return new Promise(resolve => {
    const vitest = join(root, 'node_modules/vitest/vitest.mjs')
    execFile(process.execPath, [vitest, 'run', '--config', config], { cwd: folder, env: environment }, (_, stdout, stderr) =>
      resolve(stdout + stderr),
    )
  })
}

test('suites of several files share one broker, which ends with the run', async () => {
  const suite = `import { describeWithKafka } from ${here.slice(0, -1)}/kafka.ts"
    describeWithKafka('a suite', kafka => test('says where', async () => { await kafka.createTopic(); console.log('at ' + kafka.brokers) }))`
  const printed = await run({ 'a.test.ts': suite, 'b.test.ts': suite })
  const ports = [...printed.matchAll(/at 127\.0\.0\.1:(\d+)/g)].map(([, port]) => port)
  expect(ports).toEqual([expect.any(String), ports[0]])
  const [refused] = (await once(connect(Number(ports[0]), '127.0.0.1'), 'error')) as [NodeJS.ErrnoException]
  expect(refused.code).toBe('ECONNREFUSED')
})

test('a server that is missing skips its suite, says what helps, and fails it in continuous integration', async () => {
  const suite = `import { describeUnlessMissing } from ${here.slice(0, -1)}/describe-with.ts"
    describeUnlessMissing('a suite', 'there is no Java: apt-get install java', () => test('runs', () => {}))
    describeUnlessMissing('another', undefined, () => test('runs', () => {}))`
  const printed = await run({ 'a.test.ts': suite })
  expect(printed).toContain('skipped: a suite: there is no Java: apt-get install java')
  expect(printed).toMatch(/Tests +1 passed \| 1 skipped/)
  expect(await run({ 'a.test.ts': suite }, { CI: 'true' })).toMatch(/Tests +1 failed \| 1 passed/)
})
