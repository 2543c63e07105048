// Steps of deploy/Dockerfile, as a program, since the image's base has no shell: `node deploy/image/build.ts install|compile`. A release uses `trim`.

import { execFileSync } from 'node:child_process'
import { globSync, readFileSync, rmSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Node itself, which the base has. */
const ownNode = ['node_modules/node-{bin,linux,darwin}-*']

/** What the packages bring for development. */
const unused = [
  'node_modules/@types',
  'node_modules/**/*.{map,md,d.ts,d.mts,d.cts,flow}',
  'node_modules/{*,@*/*}/{test,tests,docs,.github}',
]

/** Code that starts to work when it is imported: the commands load it. */
const programs = new Set(['main.ts', 'commands.ts', 'bin/demo.ts', 'roles/writer/thread.ts', 'database/embedded/worker.ts'])

function install(): void {
  const npm = join(dirname(process.execPath), '../lib/node_modules/npm/bin/npm-cli.js')
  execFileSync(process.execPath, [npm, 'ci', '--omit=dev', '--ignore-scripts'], { cwd: root, stdio: 'inherit' })
  trim([...ownNode, ...unused])
}

function trim(patterns: readonly string[]): void {
  for (const path of globSync(patterns, { cwd: root })) rmSync(join(root, path), { recursive: true, force: true })
}

/** Loads everything once, so that the image brings the compile cache: its file system may be read-only. */
async function compile(): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string; dependencies: Record<string, string> }
  const { version, dependencies } = manifest
  const labelled = process.env['VERSION'] ?? ''
  if (labelled !== '' && labelled !== version) {
    console.error(`the image contains version ${version}: build it with --build-arg VERSION=${version}, not ${labelled}`)
    process.exit(1)
  }
  enableCompileCache(join(root, 'node_modules/.cache/compiled'))
  // Others look for this one when they are loaded.
  await import('reflect-metadata')
  for (const name of Object.keys(dependencies)) await import(name)
  const files = globSync('{*,{bin,config,control-plane,database,http,pipeline,readers,roles,sinks,transformers}/**/*}.ts', { cwd: root })
  for (const path of files) if (!programs.has(path)) await import(join(root, path))
  flushCompileCache()
  execFileSync(process.execPath, ['main.ts', '--version'], { cwd: root, stdio: 'inherit' })
}

const [step] = process.argv.slice(2)
if (step === 'install') install()
else if (step === 'compile') await compile()
else if (step === 'trim') trim(unused)
else throw new Error(`unknown step ${JSON.stringify(step)}: say install, compile or trim`)
process.exit(0)
