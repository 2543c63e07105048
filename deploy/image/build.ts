// Steps of deploy/Dockerfile, as a program, since the image's base has no shell: `node deploy/image/build.ts install|compile`. A release uses `trim`.

import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, globSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Node itself, which the base has. */
const ownNode = ['node_modules/node-{bin,linux,darwin}-*']

/** What the packages bring for development. */
const unused = [
  'node_modules/@types',
  'node_modules/**/*.{map,md,d.ts,d.mts,d.cts,flow}',
  'node_modules/{*,@*/*}/{test,tests,docs,.github}',
  // For browsers.
  'node_modules/mqtt/dist',
]

/** Without their data they end at once, and have loaded everything by then. */
const threads = ['roles/writer/thread.ts', 'database/embedded/worker.ts']
/** Code that starts to work when it is imported: it is run instead. */
const programs = new Set(['main.ts', 'commands.ts', 'bin/demo.ts', ...threads])

function install(): void {
  const npm = join(dirname(process.execPath), '../lib/node_modules/npm/bin/npm-cli.js')
  execFileSync(process.execPath, [npm, 'ci', '--omit=dev', '--ignore-scripts'], { cwd: root, stdio: 'inherit' })
  trim([...ownNode, ...unused])
}

function trim(patterns: readonly string[]): void {
  for (const path of globSync(patterns, { cwd: root })) rmSync(join(root, path), { recursive: true, force: true })
}

/** Node keeps a compile cache for each user, in a folder that ends with the user's id: this is the user of the image, `<uid>:<gid>`. */
const [user] = (process.env['RUN_AS'] ?? '65532:65532').split(':')

/** Loads everything once, so that the image brings the compile cache: its file system may be read-only. */
async function compile(): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string; dependencies: Record<string, string> }
  const { version, dependencies } = manifest
  const labelled = process.env['VERSION'] ?? ''
  if (labelled !== '' && labelled !== version) {
    console.error(`the image contains version ${version}: build it with --build-arg VERSION=${version}, not ${labelled}`)
    process.exit(1)
  }
  const cache = join(root, 'node_modules/.cache/compiled')
  // For threads and child processes as well.
  process.env['NODE_COMPILE_CACHE'] = cache
  enableCompileCache(cache)
  // Others look for this one when they are loaded.
  await import('reflect-metadata')
  for (const name of Object.keys(dependencies)) await import(name)
  const files = globSync('{*,{bin,config,console,control-plane,database,http,pipeline,readers,roles,sinks,transformers}/**/*}.ts', {
    cwd: root,
  })
  for (const path of files) if (!programs.has(path)) await import(join(root, path))
  flushCompileCache()
  for (const path of threads) await ended(new Worker(join(root, path)))
  // Fails, since no role runs here.
  spawnSync(process.execPath, ['deploy/image/health.ts'], { cwd: root })
  execFileSync(process.execPath, ['main.ts', '--version'], { cwd: root, stdio: 'inherit' })
  const [own] = readdirSync(cache)
  const userFolder = join(cache, own!.replace(/-\d+$/, `-${user}`))
  renameSync(join(cache, own!), userFolder)
  // Written for its owner alone, and read by the image's user.
  for (const name of readdirSync(userFolder)) chmodSync(join(userFolder, name), 0o644)
}

function ended(thread: Worker): Promise<void> {
  return new Promise(resolve => thread.on('error', () => undefined).on('exit', () => resolve()))
}

const [step] = process.argv.slice(2)
if (step === 'install') install()
else if (step === 'compile') await compile()
else if (step === 'trim') trim(unused)
else throw new Error(`unknown step ${JSON.stringify(step)}: say install, compile or trim`)
process.exit(0)
