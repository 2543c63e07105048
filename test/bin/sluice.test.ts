// The command `sluice` under Nodes of different age. An older one is played by a process that says it is one.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'

const source = fileURLToPath(new URL('../../bin/sluice.js', import.meta.url))

const main = `
const [, , first = '0', ...rest] = process.argv
if (first === 'wait') {
  process.on('SIGTERM', () => {
    console.log('drained')
    process.exit(0)
  })
  setInterval(() => {}, 1000)
}
console.log(JSON.stringify([first, ...rest]))
if (first === 'die') process.kill(process.pid, 'SIGKILL')
process.exitCode = Number(first) || 0
`

interface Shape {
  readonly installed?: boolean
  readonly ownNode?: boolean
}

function newProject({ installed = true, ownNode = true }: Shape = {}): string {
  const root = temporaryFolder()
  mkdirSync(join(root, 'bin'))
  cpSync(source, join(root, 'bin', 'sluice.js'))
  writeFileSync(join(root, 'package.json'), '{"type":"module"}')
  writeFileSync(join(root, 'main.ts'), main)
  writeFileSync(join(root, 'older.cjs'), "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.1.0' } })")
  if (!installed) return root
  const folder = join(root, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(root, 'node_modules', '.package-lock.json'), '{}')
  if (ownNode) symlinkSync(process.execPath, join(folder, 'node'))
  return root
}

function start(root: string, age: 'new' | 'old', flags: string[]) {
  const before = age === 'old' ? ['--require', join(root, 'older.cjs')] : []
  const child = spawn(process.execPath, [...before, join(root, 'bin', 'sluice.js'), ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const ended = once(child, 'close').then(([code, signal]) => ({ ended: (code ?? signal) as number | string, output }))
  return { child, ended }
}

test.each(['new', 'old'] as const)('under a %s Node the arguments arrive, and the exit code comes back', async age => {
  const root = newProject()
  expect(await start(root, age, ['7', '--port', 'a b']).ended).toEqual({ ended: 7, output: '["7","--port","a b"]\n' })
})

test.each(['new', 'old'] as const)('under a %s Node SIGTERM reaches the process, which ends as it wants', async age => {
  const { child, ended } = start(newProject(), age, ['wait'])
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  expect(await ended).toEqual({ ended: 0, output: '["wait"]\ndrained\n' })
})

test('an end by a signal is passed on as one', async () => {
  expect((await start(newProject(), 'old', ['die']).ended).ended).toBe('SIGKILL')
})

test('before the first install, and where no Node is new enough, it says what to do', async () => {
  const fresh = newProject({ installed: false })
  expect(await start(fresh, 'new', []).ended).toEqual({ ended: 1, output: `sluice is not installed yet: run npm start in ${fresh}/\n` })
  const bare = newProject({ ownNode: false })
  expect(await start(bare, 'old', []).ended).toEqual({
    ended: 1,
    output: `sluice needs Node 24 and this is 20.1.0: run npm start in ${bare}/, which brings it along, or install it\n`,
  })
})
