// Steps of deploy/Dockerfile, as a program, since the image's base has no shell: `node deploy/image/build.ts install|compile`.

import { execFileSync } from 'node:child_process'
import { globSync, readFileSync, rmSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** What the packages bring for development, and Node itself, which the base has. */
const unused = [
  'node_modules/node-{bin,linux,darwin}-*',
  'node_modules/@types',
  'node_modules/**/*.{map,md,d.ts,d.mts,d.cts,flow}',
  'node_modules/{*,@*/*}/{test,tests,docs,.github}',
]

/** Code that starts to work when it is imported: the commands load it. */
const programs = new Set(['main.ts', 'commands.ts', 'bin/demo.ts', 'roles/writer/thread.ts', 'database/embedded/worker.ts'])

function install(): void {
  const npm = join(dirname(process.execPath), '../lib/node_modules/npm/bin/npm-cli.js')
  execFileSync(process.execPath, [npm, 'ci', '--omit=dev', '--ignore-scripts'], { cwd: root, stdio: 'inherit' })
  for (const path of globSync(unused, { cwd: root })) rmSync(join(root, path), { recursive: true, force: true })
}

/** Loads everything once, so that the image brings the compile cache: its file system may be read-only. */
async function compile(): Promise<void> {
  enableCompileCache(join(root, 'node_modules/.cache/compiled'))
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
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
else throw new Error(`unknown step ${JSON.stringify(step)}: say install or compile`)
process.exit(0)
