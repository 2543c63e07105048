// Installed packages are the tested ones: exact versions, and a lock file that is valid everywhere.

import { versionsIn } from '../../deploy/version.ts'
import type { Finding, SourceFile } from './files.ts'

interface Entry {
  readonly version?: string
  readonly resolved?: string
  readonly integrity?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const parts = ['dependencies', 'devDependencies', 'optionalDependencies'] as const
type Manifest = Partial<Record<(typeof parts)[number], Readonly<Record<string, string>>>>

export function exactVersions(files: readonly SourceFile[]): Finding[] {
  const text = files.find(({ path }) => path === 'package.json')?.text ?? '{}'
  const manifest = JSON.parse(text) as Manifest
  return parts.flatMap(part =>
    Object.entries(manifest[part] ?? {})
      .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
      .map(([name, version]) => `package.json: ${name} is ${version} in ${part}: pin it, like 1.2.3`),
  )
}

/** package.json has the version of Sluice. Files of deploy/ that cannot read it repeat it, and documents leave it out. */
export function oneVersion(files: readonly SourceFile[]): Finding[] {
  const { version: own } = JSON.parse(files.find(({ path }) => path === 'package.json')!.text) as { version: string }
  return files
    .filter(({ path }) => !path.startsWith('test/'))
    .flatMap(({ path, text }) =>
      versionsIn(path, text)
        .filter(({ version }) => !path.startsWith('deploy/') || version !== own)
        .map(({ version, line }) =>
          path.startsWith('deploy/')
            ? `${path}:${line}: ${version} is not the version in package.json, ${own}`
            : `${path}:${line}: ${version} would stay after the next release: leave it out`,
        ),
    )
}

export function lockFile(files: readonly SourceFile[]): Finding[] {
  const lock = files.find(({ path }) => path === 'package-lock.json')
  if (lock === undefined) return ['package-lock.json: is missing: run npm install']
  const { packages } = JSON.parse(lock.text) as { packages: Readonly<Record<string, Entry>> }
  const addresses = Object.entries(packages)
    .filter(([, { resolved }]) => resolved !== undefined)
    .map(([path]) => `package-lock.json: ${path} has an address: .npmrc leaves it out, run npm install with it`)
  const unchecked = Object.entries(packages)
    .filter(([path, { integrity }]) => path !== '' && !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''))
    .map(([path]) => `package-lock.json: ${path} has no integrity: choose a version that the registry has, and run npm install`)
  return [
    ...addresses,
    ...unchecked,
    ...missingPackages(packages).map(
      ({ name, of }) => `package-lock.json: lacks ${name}, which ${of} can use: run node test/tidy/complete-lock.ts`,
    ),
  ]
}

/** Optional packages that the lock file does not list: packages of other systems that npm's registry did not have. `npm ci` refuses such a file. */
export function missingPackages(packages: Readonly<Record<string, Entry>>): { name: string; version: string; of: string }[] {
  return Object.entries(packages).flatMap(([path, entry]) =>
    Object.entries(entry.optionalDependencies ?? {})
      .filter(([name]) => !isListed(packages, path, name))
      .map(([name, version]) => ({ name, version, of: path === '' ? 'the project' : path.replace(/^.*node_modules\//, '') })),
  )
}

/** Node looks for a package beside the importing one, and then in each folder above. */
function isListed(packages: Readonly<Record<string, Entry>>, from: string, name: string): boolean {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    if (Object.hasOwn(packages, `${folder === '' ? '' : `${folder}/`}node_modules/${name}`)) return true
    if (folder === '') return false
  }
}
