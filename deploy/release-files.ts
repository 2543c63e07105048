// The files of a release, from its commit alone: the same commit gives the same bytes, whose times are that of the commit.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface ReleaseFiles {
  readonly repository: string
  readonly commit: string
  readonly version: string
  /** Empty, for what is needed meanwhile. */
  readonly folder: string
  /** Created. */
  readonly dist: string
  /** Gets a line for each step. */
  readonly say: (line: string) => void
}

/** What only those need who change Sluice. */
const forDevelopers = ['test', 'benchmarks']

/** @throws Error of git, tar, npm or gzip, with what it printed as `stderr` */
export function writeReleaseFiles({ repository, commit, version, folder, dist, say }: ReleaseFiles): void {
  const run = (cwd: string, program: string, words: readonly string[]): string =>
    execFileSync(program, words, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 26 })
  const name = `sluice-${version}`
  const seconds = Number(run(repository, 'git', ['show', '--no-patch', '--format=%ct', commit]))
  mkdirSync(dist, { recursive: true })

  say(`the source: ${name}.tar.gz`)
  const source = join(dist, `${name}.tar.gz`)
  const archive = ['archive', '--format=tar.gz', `--prefix=${name}/`, `--output=${source}`, commit]
  run(repository, 'git', ['-c', 'tar.umask=0022', ...archive])
  run(folder, 'tar', ['-xzf', source])
  const tree = join(folder, name)

  say(`its packages: ${name}.cdx.json`)
  const listed = join(folder, 'sluice')
  mkdirSync(listed)
  writeFileSync(
    join(dist, `${name}.cdx.json`),
    bill(tree, listed, new Date(seconds * 1000), words => run(listed, 'npm', words)),
  )

  const ready = `${name}-linux-x64.tar`
  say(`ready to run: ${ready}.gz, whose packages npm installs now`)
  for (const path of forDevelopers) rmSync(join(tree, path), { recursive: true })
  // Compares the Node that comes with the packages with its hash.
  run(tree, process.execPath, ['bin/install.js', 'production'])
  run(tree, process.execPath, ['deploy/image/build.ts', 'trim'])
  const owned = [
    '--sort=name',
    `--mtime=@${seconds}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+rwX,go+rX,go-w',
    '--format=gnu',
  ]
  run(folder, 'tar', [...owned, '-cf', join(dist, ready), name])
  run(dist, 'gzip', ['--no-name', ready])

  const sums = readdirSync(dist)
    .sort()
    .map(
      file =>
        `${createHash('sha256')
          .update(readFileSync(join(dist, file)))
          .digest('hex')}  ${file}\n`,
    )
  writeFileSync(join(dist, 'SHA256SUMS'), sums.join(''))
  say(`\nSHA256SUMS\n${sums.join('')}`)
}

interface Manifest {
  devDependencies?: object
  packages?: Record<string, Manifest & { readonly dev?: boolean }>
}

/**
 * The production packages of every system that the lock file has, as a CycloneDX document of npm.
 *
 * npm (11.19) `sbom --omit=dev` also leaves out packages that production shares with development, so npm gets a project without the latter.
 *
 * @param listed the folder in which npm runs, whose name is that of the product
 */
function bill(tree: string, listed: string, time: Date, npm: (words: readonly string[]) => string): string {
  for (const file of ['package.json', 'package-lock.json']) {
    const manifest = JSON.parse(readFileSync(join(tree, file), 'utf8')) as Manifest
    delete manifest.devDependencies
    delete manifest.packages?.['']?.devDependencies
    for (const [path, { dev }] of Object.entries(manifest.packages ?? {})) if (dev === true) delete manifest.packages![path]
    writeFileSync(join(listed, file), JSON.stringify(manifest))
  }
  const printed = npm(['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'])
  const document = JSON.parse(printed) as { serialNumber: string; metadata: { timestamp: string } }
  document.metadata.timestamp = time.toISOString()
  // npm's is random. This is a hash of the rest, as a UUID of version 8 (RFC 9562 §5.8).
  document.serialNumber = ''
  const hash = createHash('sha256').update(JSON.stringify(document)).digest('hex')
  const uuid = [hash.slice(0, 8), hash.slice(8, 12), `8${hash.slice(13, 16)}`, `8${hash.slice(17, 20)}`, hash.slice(20, 32)]
  document.serialNumber = `urn:uuid:${uuid.join('-')}`
  return `${JSON.stringify(document, null, 2)}\n`
}
