// The folder where what the tests install stays from one run to the next.

import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

/** A path in the cache, which is `SLUICE_CACHE`, else `~/.cache/sluice`. */
export function cachePath(...parts: readonly string[]): string {
  return join(process.env['SLUICE_CACHE'] ?? join(homedir(), '.cache', 'sluice'), ...parts)
}

/**
 * Makes a file or a folder that is then kept for ever. Of several processes one makes it and the others wait for that one; whoever
 * sees it sees a whole one. A process that dies while it makes one leaves nothing that harms.
 *
 * @param make is given the path to make it at, beside its place; what it leaves there is moved
 */
export async function makeOnce(place: string, make: (draft: string) => Promise<void>): Promise<void> {
  if (existsSync(place)) return
  await mkdir(dirname(place), { recursive: true })
  const lock = await takeLock(`${place}.lock`)
  try {
    if (existsSync(place)) return
    const draft = `${place}.draft`
    await rm(draft, { recursive: true, force: true })
    await make(draft)
    await rename(draft, place)
  } finally {
    lock.close()
  }
}

/** An exclusive transaction on a small SQLite file: the kernel releases its lock however the process ends. */
async function takeLock(path: string): Promise<DatabaseSync> {
  for (;;) {
    const lock = new DatabaseSync(path)
    try {
      lock.exec('BEGIN EXCLUSIVE')
      return lock
    } catch (error) {
      lock.close()
      if ((error as { errcode?: number }).errcode !== 5 /* SQLITE_BUSY */) throw error
    }
    // Asked again and not waited for inside SQLite, which would hold up this process.
    await sleep(100)
  }
}
