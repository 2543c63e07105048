// The script ./sluice, with its own Node and those of a machine, which stand-ins play.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
/** Named as in the project: the package with Node for this system. */
const nodePackage = readdirSync(join(root, 'node_modules')).find(
  name => /^node-(bin-)?/.test(name) && name.endsWith(`${process.platform}-${process.arch}`),
)!

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
if (first === 'pid') console.log(process.pid)
if (first === 'die') process.kill(process.pid, 'SIGKILL')
process.exitCode = Number(first) || 0
`

interface Shape {
  readonly installed?: boolean
  readonly ownNode?: boolean
}

/** By default the folder's name contains a blank. */
function newProject({ installed = true, ownNode = true }: Shape = {}): string {
  const folder = join(temporaryFolder(), 'a project')
  mkdirSync(join(folder, 'bin'), { recursive: true })
  cpSync(join(root, 'sluice'), join(folder, 'sluice'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'main.ts'), main)
  if (!installed) return folder
  const binaries = join(folder, 'node_modules', nodePackage, 'bin')
  mkdirSync(binaries, { recursive: true })
  writeFileSync(join(folder, 'node_modules', '.package-lock.json'), '{}')
  if (ownNode) symlinkSync(process.execPath, join(binaries, 'node'))
  return folder
}

function start(project: string, flags: string[], environment: NodeJS.ProcessEnv = process.env) {
  return run(join(project, 'sluice'), flags, { env: environment })
}

function run(command: string, words: string[], options: { env?: NodeJS.ProcessEnv; cwd?: string } = {}) {
  const child = spawn(command, words, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const ended = once(child, 'close').then(([code, signal]) => ({ ended: (code ?? signal) as number | string, output }))
  return { child, ended }
}

test('the arguments and the exit code are passed on', async () => {
  const project = newProject()
  expect(await start(project, ['7', '--port', 'a  b', '*', '']).ended).toEqual({
    ended: 7,
    output: '["7","--port","a  b","*",""]\n',
  })
})

test('SIGTERM reaches the process, which ends by itself', async () => {
  const { child, ended } = start(newProject(), ['wait'])
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  expect(await ended).toEqual({ ended: 0, output: '["wait"]\ndrained\n' })
})

test('an end by a signal is passed on', async () => {
  expect((await start(newProject(), ['die']).ended).ended).toBe('SIGKILL')
})

test('./sluice becomes the process that it starts', async () => {
  const { child, ended } = start(newProject(), ['pid'])
  expect((await ended).output).toBe(`["pid"]\n${child.pid}\n`)
})

test('./sluice works from any folder, by a relative path, and through symbolic links', async () => {
  const project = newProject()
  const elsewhere = temporaryFolder()
  symlinkSync(relative(realpathSync(elsewhere), realpathSync(join(project, 'sluice'))), join(elsewhere, 'relative link'))
  symlinkSync(join(elsewhere, 'relative link'), join(elsewhere, 'sluice'))
  const outputs = await Promise.all([
    run('./sluice', ['0'], { cwd: project }).ended,
    run('sh', ['sluice', '0'], { cwd: project }).ended,
    run('../sluice', ['0'], { cwd: join(project, 'bin') }).ended,
    run('./sluice', ['0'], { cwd: elsewhere }).ended,
    run('sluice', ['0'], { env: { PATH: `${elsewhere}:${process.env['PATH']}` } }).ended,
  ])
  for (const output of outputs) expect(output).toEqual({ ended: 0, output: '["0"]\n' })
})

test("./sluice uses the project's own Node if there is one", async () => {
  const [project, folder] = [newProject(), temporaryFolder()]
  writeFileSync(join(folder, 'node'), '#!/bin/sh\necho was run >&2\n', { mode: 0o755 })
  expect((await start(project, ['0'], { PATH: `${folder}:/usr/bin:/bin` }).ended).output).toBe('["0"]\n')
})

test.each([
  ['v24.0.0', 'ran main.ts'],
  ['v30.1.0-nightly', 'ran main.ts'],
  ['v20.1.0', 'sluice needs Node 24 and this is v20.1.0'],
  ['garbage', 'sluice needs Node 24 and this is garbage'],
])('without its own Node ./sluice uses the machine’s if it is new enough: %s', async (version, said) => {
  const [project, folder] = [newProject({ ownNode: false }), temporaryFolder()]
  writeFileSync(join(folder, 'node'), `#!/bin/sh\n[ "$1" = --version ] && echo ${version} || echo "ran $(basename "$1")"\n`, {
    mode: 0o755,
  })
  expect((await start(project, ['0'], { PATH: `${folder}:/usr/bin:/bin` }).ended).output).toContain(said)
})

test('before the first install, and without a Node that is new enough, it says what to do', async () => {
  const fresh = realpathSync(newProject({ installed: false }))
  expect(await start(fresh, []).ended).toEqual({ ended: 1, output: `sluice is not installed yet: run npm start in ${fresh}\n` })
  const bare = realpathSync(newProject({ ownNode: false }))
  const commands = temporaryFolder()
  symlinkSync('/usr/bin/uname', join(commands, 'uname'))
  expect(await start(bare, [], { PATH: commands }).ended).toEqual({
    ended: 1,
    output: `sluice needs Node 24 and this is a machine without Node: run npm start in ${bare}, which brings it along, or install it\n`,
  })
})

interface Given {
  readonly blocksProject?: boolean
  readonly blocksUser?: boolean
  readonly NODE_COMPILE_CACHE?: (folder: string) => string
}

/** A file in place of a folder cannot be written to by any user. */
const blocked = (folder: string): string => join(folder, 'package.json')

test.each([
  ['uses cached compiled code, in its threads too', {}, (folder: string) => join(folder, 'node_modules/.cache/compiled')],
  [
    "uses the user's own folder if the project cannot be written to",
    { blocksProject: true },
    (folder: string) => join(folder, 'caches/sluice/compiled'),
  ],
  ['works where neither can be written to', { blocksProject: true, blocksUser: true }, () => undefined],
  ['works without a given cache', { NODE_COMPILE_CACHE: blocked }, () => undefined],
] as const)('a start %s', async (_, given: Given, cacheIn) => {
  const folder = newProject()
  cpSync(join(root, 'main.ts'), join(folder, 'main.ts'))
  if (given.blocksProject) writeFileSync(join(folder, 'node_modules/.cache'), '')
  const inThread = "require('node:worker_threads').parentPort.postMessage(require('node:module').getCompileCacheDir() ?? 'none')"
  writeFileSync(
    join(folder, 'commands.ts'),
    `import { getCompileCacheDir } from 'node:module'\nimport { Worker } from 'node:worker_threads'
new Worker(${JSON.stringify(inThread)}, { eval: true }).once('message', threadAnswer => console.log(JSON.stringify([getCompileCacheDir() ?? 'none', threadAnswer])))`,
  )
  const { NODE_COMPILE_CACHE: _given, ...environment } = process.env
  const caches = given.blocksUser ? blocked(folder) : join(folder, 'caches')
  const cache = given.NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE: given.NODE_COMPILE_CACHE(folder) }
  const { ended, output } = await start(folder, [], { ...environment, XDG_CACHE_HOME: caches, ...cache }).ended
  expect(ended).toBe(0)
  const expected = cacheIn(folder)
  const found = JSON.parse(output) as string[]
  if (expected === undefined) expect(found).toEqual(['none', 'none'])
  else expect(found.map(path => path.startsWith(expected))).toEqual([true, true])
})
