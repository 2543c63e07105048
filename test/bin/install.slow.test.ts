// Installs missing packages, with a stand-in for npm that records its calls.

import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'

const source = fileURLToPath(new URL('../../bin/install.js', import.meta.url))
const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url))
/** The package with Node for this system. */
const nodePackage = readdirSync(modules).find(name => /^node-(bin-)?/.test(name) && name.endsWith(`${process.platform}-${process.arch}`))!

const lock = {
  packages: {
    '': { dependencies: { pg: '8.0.0' }, devDependencies: { vitest: '5.0.0' } },
    'node_modules/pg': { version: '8.0.0' },
    'node_modules/vitest': { version: '5.0.0', dev: true },
    'node_modules/node-here': { version: '24.0.0', optional: true, os: [process.platform], cpu: [process.arch] },
    'node_modules/node-elsewhere': { version: '24.0.0', optional: true, os: ['plan9'], cpu: [process.arch] },
  },
}

/** Installs like npm: removes everything, waits while there is a file `held`, then writes the list of packages. */
const npm = `
import { appendFileSync, cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
const flags = process.argv.slice(2)
appendFileSync('calls.jsonl', JSON.stringify({ flags, environment: process.env }) + '\\n')
rmSync('node_modules', { recursive: true, force: true })
while (existsSync('held')) await setTimeout(20)
const { npm_config_cache: outcome = '' } = process.env
if (outcome !== '') {
  console.error(outcome)
  process.exit(1)
}
const { packages } = ${JSON.stringify(lock)}
delete packages['']
delete packages['node_modules/node-elsewhere']
if (flags.includes('--omit=dev')) delete packages['node_modules/vitest']
mkdirSync('node_modules')
if (existsSync('node-here')) cpSync('node-here', 'node_modules/${nodePackage}/bin/node')
writeFileSync('node_modules/.package-lock.json', JSON.stringify({ packages }))
`

interface Project {
  readonly root: string
  run(
    kind: string,
    environment?: Record<string, string>,
    onStart?: (child: ChildProcess) => void,
  ): Promise<{ code: number | null; output: string }>
  calls(): { flags: string[]; environment: Record<string, string> }[]
}

function newProject(): Project {
  const root = temporaryFolder()
  mkdirSync(join(root, 'bin'))
  cpSync(source, join(root, 'bin', 'install.js'))
  const { dependencies, devDependencies } = lock.packages['']
  writeFileSync(join(root, 'package.json'), JSON.stringify({ type: 'module', dependencies, devDependencies }))
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify(lock))
  writeFileSync(join(root, 'npm-cli.js'), npm)
  return {
    root,
    run(kind, environment = {}, onStart = () => undefined) {
      const child = spawn(process.execPath, [join(root, 'bin', 'install.js'), kind], {
        env: { PATH: process.env['PATH'], npm_execpath: join(root, 'npm-cli.js'), npm_node_execpath: process.execPath, ...environment },
      })
      onStart(child)
      let output = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
      return new Promise((resolve, reject) => child.on('error', reject).on('close', code => resolve({ code, output })))
    },
    calls() {
      const path = join(root, 'calls.jsonl')
      if (!existsSync(path)) return []
      return readFileSync(path, 'utf8')
        .trim()
        .split('\n')
        .map(line => JSON.parse(line) as ReturnType<Project['calls']>[number])
    },
  }
}

test('missing packages are installed once, with one line of output; the second time nothing is done or printed', async () => {
  const project = newProject()
  const first = await project.run('production')
  expect(first.code).toBe(0)
  expect(first.output).toMatch(/^sluice: installing what running it needs … done in \d+\.\d s\n$/)
  expect(await project.run('production')).toEqual({ code: 0, output: '' })
  expect(project.calls().map(({ flags }) => flags.slice(0, 2))).toEqual([['ci', '--omit=dev']])
})

test('a development install counts as a production one, and not the other way round', async () => {
  const project = newProject()
  await project.run('production')
  await project.run('development')
  await project.run('production')
  await project.run('development')
  expect(project.calls().map(({ flags }) => flags[1])).toEqual(['--omit=dev', '--include=dev'])
})

test.each(['pg', 'node-here'])('an install without %s, or with another version of it, is repeated', async name => {
  const project = newProject()
  await project.run('production')
  const path = join(project.root, 'node_modules', '.package-lock.json')
  const installed = JSON.parse(readFileSync(path, 'utf8')) as { packages: Record<string, { version: string }> }
  installed.packages[`node_modules/${name}`]!.version = '1.0.0'
  writeFileSync(path, JSON.stringify(installed))
  await project.run('production')
  delete installed.packages[`node_modules/${name}`]
  writeFileSync(path, JSON.stringify(installed))
  await project.run('production')
  expect(project.calls()).toHaveLength(3)
})

test('dependencies that the lock file lacks are left to npm’s own error', async () => {
  const project = newProject()
  await project.run('production')
  writeFileSync(join(project.root, 'package.json'), JSON.stringify({ type: 'module', dependencies: { pg: '9.0.0' } }))
  await project.run('production')
  expect(project.calls()).toHaveLength(2)
})

test('settings of the outer npm do not change the install, except for npm’s registry', async () => {
  const project = newProject()
  await project.run('development', {
    NODE_ENV: 'production',
    npm_config_omit: 'dev',
    NPM_CONFIG_LOGLEVEL: 'silent',
    npm_config_dry_run: 'true',
    npm_config_global: 'true',
    npm_config_registry: 'http://127.0.0.1:1/',
  })
  const { environment } = project.calls()[0]!
  const names = Object.keys(environment).filter(name => /^npm_config|^node_env/i.test(name))
  expect(names).toEqual(['npm_config_registry'])
})

test('each Node that package.json names has a sha256 constant, which SECURITY.md repeats', () => {
  const { optionalDependencies } = JSON.parse(readFileSync(join(modules, '..', 'package.json'), 'utf8')) as {
    optionalDependencies: Record<string, string>
  }
  const pinned = Object.entries(optionalDependencies).filter(([name]) => name.startsWith('node-'))
  const constants = [...readFileSync(source, 'utf8').matchAll(/'(node-[^']+)': '([0-9a-f]{64})'/g)]
  expect(constants.map(([, name]) => name)).toEqual(pinned.map(([name, version]) => `${name}@${version}`))
  const told = readFileSync(join(modules, '..', 'SECURITY.md'), 'utf8')
  for (const [, name, sum] of constants) expect(told).toContain(`| \`${name}\` | \`${sum}\` |`)
})

test('an intact installed Node passes the check', async () => {
  const project = newProject()
  symlinkSync(join(modules, nodePackage, 'bin', 'node'), join(project.root, 'node-here'))
  expect((await project.run('production')).code).toBe(0)
})

test('a Node with other bytes fails the install, is deleted without being run, and is fetched again next time', async () => {
  const project = newProject()
  writeFileSync(join(project.root, 'node-here'), '#!/bin/sh\ntouch was-run\n', { mode: 0o755 })
  const failed = await project.run('production')
  const path = join(project.root, 'node_modules', nodePackage, 'bin', 'node')
  expect(failed.code).toBe(1)
  expect(failed.output).toMatch(/sha256 [0-9a-f]{64} is expected, and it has d17907f/)
  expect(failed.output).toContain(`sluice: ${path} is not the Node that this version was released with`)
  expect(failed.output).toContain('SECURITY.md')
  expect([existsSync(path), existsSync(join(project.root, 'was-run'))]).toEqual([false, false])
  await project.run('production')
  expect(project.calls()).toHaveLength(2)
})

test('an install runs no package’s scripts, because its Node is checked later', async () => {
  const project = newProject()
  await project.run('development', { npm_config_ignore_scripts: 'false' })
  const { flags, environment } = project.calls()[0]!
  expect(flags).toContain('--ignore-scripts')
  expect(environment).not.toHaveProperty('npm_config_ignore_scripts')
})

test('a second process does not install while one does, and says so', async () => {
  const project = newProject()
  const held = join(project.root, 'held')
  writeFileSync(held, '')
  const first = project.run('development')
  await expect.poll(() => project.calls()).toHaveLength(1)
  const folder = join(project.root, '.install-lock')
  expect(await project.run('production')).toEqual({
    code: 1,
    output: `sluice: another process is installing: try again when it is done. If none is, one was killed: delete ${folder}\n`,
  })
  rmSync(held)
  expect((await first).code).toBe(0)
  expect(await project.run('production')).toEqual({ code: 0, output: '' })
  expect([project.calls().length, existsSync(folder)]).toEqual([1, false])
})

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('an install that %s ends leaves no lock', async signal => {
  const project = newProject()
  writeFileSync(join(project.root, 'held'), '')
  let child: ChildProcess
  const ended = project.run('production', {}, started => (child = started))
  await expect.poll(() => project.calls()).toHaveLength(1)
  child!.kill(signal)
  expect((await ended).output).toContain(`npm ci ended with ${signal}`)
  expect(existsSync(join(project.root, '.install-lock'))).toBe(false)
})

test.each([
  ['npm error code ENOTFOUND', 'the package registry does not answer'],
  ['npm error code EUSAGE', 'package.json and package-lock.json disagree'],
  ['npm error code ENOSPC', 'the disk is full'],
  ['npm error code EACCES', 'this user may not write here'],
  ['npm error code EODD', 'what npm said stands below'],
])('a failure with %s says what to do, and the next run tries again', async (said, advice) => {
  const project = newProject()
  const failed = await project.run('production', { npm_config_cache: said })
  expect(failed.code).toBe(1)
  expect(failed.output).toContain(`npm ci ended with 1: ${advice}`)
  expect(failed.output).toContain(said)
  expect((await project.run('production')).code).toBe(0)
})

test('an unknown kind is an error', async () => {
  expect(await newProject().run('constructor')).toEqual({ code: 1, output: 'sluice: say node bin/install.js production, or development\n' })
})
