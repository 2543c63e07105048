// The folder of installed programs, which is kept between runs.

import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

/** A path in the cache, which is `SLUICE_CACHE` or `~/.cache/sluice`. */
export function cachePath(...parts: readonly string[]): string {
  return join(process.env['SLUICE_CACHE'] ?? join(homedir(), '.cache', 'sluice'), ...parts)
}

/**
 * Creates a file or a folder that is then kept forever. One of several processes creates it and the others wait; all of them only see it complete.
 * A process that dies meanwhile leaves nothing harmful.
 *
 * @param make gets a path beside the final place; the result is moved from there
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
    // Retried here and not inside SQLite, which would block this process.
    await sleep(100)
  }
}
