// The data folders of the test servers: one cluster from initdb, in the cache, and a copy of it for each server.

import { execFile, execFileSync } from 'node:child_process'
import { chownSync, mkdirSync, statSync } from 'node:fs'
import { chmod, chown, mkdtemp, rename, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The user of the server: it refuses to run as root, and Debian's package creates the user `postgres`. Undefined means the current user. */
export interface Owner {
  uid: number
  gid: number
}

export function serverOwner(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined
  const idOf = (flag: string): number => Number(execFileSync('id', [flag, 'postgres']).toString())
  return { uid: idOf('-u'), gid: idOf('-g') }
}

/** A new cluster in a separate folder, which the caller removes. */
export async function freshCluster(programs: string, owner: Owner | undefined): Promise<string> {
  const cache = cacheFolder(owner)
  const template = join(cache, `cluster-${versionOf(programs)}`)
  if (statSync(template, { throwIfNoEntry: false }) === undefined) await makeTemplate(programs, owner, cache, template)
  const folder = await ownFolder(join(cache, 'server-'), owner)
  await run('cp', ['-a', template, join(folder, 'data')])
  return folder
}

/** initdb works beside the template's place, so that others only see a complete template. */
async function makeTemplate(programs: string, owner: Owner | undefined, cache: string, template: string): Promise<void> {
  const folder = await ownFolder(join(cache, 'initdb-'), owner)
  try {
    const options = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '-D', join(folder, 'data')]
    await run(join(programs, 'initdb'), options, { ...owner, cwd: folder, env: { LC_ALL: 'C', PATH: process.env['PATH'] ?? '' } })
    await rename(join(folder, 'data'), template)
  } catch (error) {
    // Another process was first: its cluster is equivalent.
    if (statSync(template, { throwIfNoEntry: false }) === undefined) throw error
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function ownFolder(prefix: string, owner: Owner | undefined): Promise<string> {
  const folder = await mkdtemp(prefix)
  await chmod(folder, 0o700)
  if (owner !== undefined) await chown(folder, owner.uid, owner.gid)
  return folder
}

/** The project's cache, or a temporary folder if the server's user cannot enter every parent (root's home). */
function cacheFolder(owner: Owner | undefined): string {
  const preferred = join(process.env['SLUICE_CACHE'] ?? join(homedir(), '.cache', 'sluice'), 'postgres')
  const folder = owner === undefined || opensTo(owner, dirname(dirname(preferred))) ? preferred : join(tmpdir(), 'sluice-cache-postgres')
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const { uid } = statSync(folder)
  if (uid !== process.getuid?.() && uid !== owner?.uid) throw new Error(`${folder} belongs to another user: remove it, or set SLUICE_CACHE`)
  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid)
  return folder
}

/** True if the owner can enter the folder and all its parents; missing ones will be accessible. */
function opensTo(owner: Owner, folder: string): boolean {
  const found = statSync(folder, { throwIfNoEntry: false })
  const passable = found === undefined || (found.mode & 0o001) !== 0 || (found.uid === owner.uid && (found.mode & 0o100) !== 0)
  return passable && (dirname(folder) === folder || opensTo(owner, dirname(folder)))
}

function versionOf(programs: string): string {
  const [version = 'unknown'] = /\d+(\.\d+)*/.exec(execFileSync(join(programs, 'postgres'), ['--version']).toString()) ?? []
  return version
}
