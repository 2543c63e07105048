// The release before this one, as a folder that its commands run in.
//
// It is the newest tag `v*` before the checked-out commit. Without one it is the parent of the newest commit that adds a migration: the latest state
// whose databases the present code has to migrate. `SLUICE_UPGRADE_FROM` names another commit.

import { execFile, execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../tidy/files.ts'

const run = promisify(execFile)
const migrations = ['control-plane/migrations', 'sinks/postgres/migrations'] as const

export interface EarlierRelease {
  readonly commit: string
  readonly folder: string
  /** Whether this release has migrations there that the earlier one does not know. */
  isMigrated(folder: (typeof migrations)[number]): boolean
  remove(): Promise<void>
}

const git = (...words: string[]): string =>
  execFileSync('git', words, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()

function found(...words: string[]): string | undefined {
  try {
    return git(...words)
  } catch {
    return undefined
  }
}

function commitBefore(): string | undefined {
  const named = process.env['SLUICE_UPGRADE_FROM'] ?? found('describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD^')
  if (named !== undefined) return found('rev-parse', '--verify', `${named}^{commit}`)
  const newest = found(
    'log',
    '-1',
    '--first-parent',
    '--diff-filter=A',
    '--format=%H',
    '--',
    ...migrations.map(folder => `${folder}/*.sql`),
  )
  return newest === undefined ? undefined : found('rev-parse', '--verify', `${newest}^`)
}

/** Why there is no earlier release, and what helps; undefined if there is one. */
export function missingEarlierRelease(): string | undefined {
  const isShallow = found('rev-parse', '--is-shallow-repository')
  if (isShallow === undefined) return 'the earlier release is in the history of git: run this in a clone'
  if (isShallow === 'true') return 'the earlier release is not in a shallow clone: git fetch --unshallow --tags'
  return commitBefore() === undefined ? 'no commit is known as the earlier release: name one with SLUICE_UPGRADE_FROM' : undefined
}

export async function checkOutEarlierRelease(): Promise<EarlierRelease> {
  const commit = commitBefore()!
  const folder = await mkdtemp(join(tmpdir(), 'sluice-earlier-'))
  const archive = join(folder, 'earlier.tar')
  await run('git', ['archive', '--output', archive, commit], { cwd: root })
  await run('tar', ['-xf', archive], { cwd: folder })
  await rm(archive)
  if (packagesIn(folder) === packagesIn(root)) await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  else await run(process.execPath, ['bin/install.js', 'production'], { cwd: folder })
  const known = new Map(migrations.map(path => [path, new Set(readdirSync(join(folder, path)))]))
  return {
    commit,
    folder,
    isMigrated: path => readdirSync(join(root, path)).some(name => !known.get(path)!.has(name)),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

/** Those of production, as a text that is the same for the same ones. */
function packagesIn(folder: string): string {
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as { packages: Record<string, { dev?: boolean }> }
  return JSON.stringify(Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && dev !== true))
}
