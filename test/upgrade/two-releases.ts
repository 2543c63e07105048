// Two releases, each as a folder that its commands run in. The later one may have migrations that the earlier one does not know.
//
// The earlier one is the newest tag `v*` before the checked-out commit (`SLUICE_UPGRADE_FROM` names another commit), and the later one the present code.
// Before the first tag the earlier one is the present code, and the later one a copy of it with made-up next migrations.

import { execFile, execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../tidy/files.ts'

const run = promisify(execFile)
const migrations = ['control-plane/migrations', 'sinks/postgres/migrations'] as const
type Migrations = (typeof migrations)[number]

/** What a next release may change: statements that an instance of the one before does not notice. */
const nextMigrations: Readonly<Record<Migrations, string>> = {
  'control-plane/migrations': `-- Up Migration
    ALTER TABLE things ADD COLUMN made_up text;
    CREATE INDEX things_made_up ON things (made_up);`,
  'sinks/postgres/migrations': `-- Up Migration
    ALTER TABLE sluice.records ADD COLUMN made_up text;
    ALTER TABLE sluice.offsets ADD COLUMN made_up bigint NOT NULL DEFAULT 0;`,
}

export interface TwoReleases {
  /** The folder of each. */
  readonly earlier: string
  readonly later: string
  /** Whether the later release has migrations there that the earlier one does not know. */
  isMigrated(folder: Migrations): boolean
  remove(): Promise<void>
}

const git = (...words: string[]): string =>
  execFileSync('git', words, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()

function commitBefore(): string | undefined {
  const named = process.env['SLUICE_UPGRADE_FROM']
  if (named !== undefined) return git('rev-parse', '--verify', `${named}^{commit}`)
  try {
    return git('describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD^')
  } catch {
    return undefined
  }
}

export async function twoReleases(): Promise<TwoReleases> {
  const commit = commitBefore()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-releases-'))
  const [earlier, later] = commit === undefined ? [root, folder] : [folder, root]
  await (commit === undefined ? copyWithNextMigrations(folder) : checkOut(commit, folder))
  const known = new Map(migrations.map(path => [path, new Set(readdirSync(join(earlier, path)))]))
  return {
    earlier,
    later,
    isMigrated: path => readdirSync(join(later, path)).some(name => !known.get(path)!.has(name)),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

async function checkOut(commit: string, folder: string): Promise<void> {
  const archive = join(folder, 'earlier.tar')
  await run('git', ['archive', '--output', archive, commit], { cwd: root })
  await run('tar', ['-xf', archive], { cwd: folder })
  await rm(archive)
  if (packagesIn(folder) === packagesIn(root)) await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  else await run(process.execPath, ['bin/install.js', 'production'], { cwd: folder })
}

async function copyWithNextMigrations(folder: string): Promise<void> {
  const left = new Set(['node_modules', '.git', 'test', 'benchmarks', 'docs'])
  await cp(root, folder, { recursive: true, filter: path => !left.has(basename(path)) })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const path of migrations) await writeFile(join(folder, path, '9999-made-up.sql'), nextMigrations[path])
}

/** Those of production, as a text that is the same for the same ones. */
function packagesIn(folder: string): string {
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as { packages: Record<string, { dev?: boolean }> }
  return JSON.stringify(Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && dev !== true))
}
