// Opens the data folder for one process at a time, checks its format version and tells how the last process ended.
//
// The lock is an exclusive transaction on a small SQLite file, held as long as the process runs. SQLite takes POSIX locks, which
// the kernel releases however the process ends, so SIGKILL leaves no stale lock. A state file next to it records the process and
// the boot of the machine, so that the next start can tell a power cut from a killed process.

import { randomBytes } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { isMainThread } from 'node:worker_threads'
import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { DataFolderError, makePrivateFolder } from './private-folder.ts'
import { syncPath } from './secrets.ts'

export { DataFolderError } from './private-folder.ts'

/** Version of the folder's content; raised when older releases can no longer read it. */
const formatVersion = 1

const stateSchema = Type.Object({
  format: Type.Integer({ minimum: 1 }),
  pid: Type.Integer(),
  /** The id of the machine's boot, different after each boot; empty where the system has none. */
  boot: Type.String(),
  clean: Type.Boolean(),
})

type State = Static<typeof stateSchema>

export type LastStop = 'first' | 'clean' | 'killed' | 'power-cut'

export interface DataFolder {
  /** Absolute. */
  readonly path: string
  /**
   * `first`: the folder is new. `clean`: markClean was called. `killed`: the process ended without it but the machine kept running, so
   * everything that was written is there. `power-cut`: the machine has rebooted since (or that is unknown), so data that was never synced may be lost.
   */
  readonly lastStop: LastStop
  /**
   * Records that the data was checked after a power cut and is intact. Until then every start reports `power-cut`, even if this
   * process is killed during the check.
   */
  markChecked(): Promise<void>
  /** Records that everything is closed and synced; call it last before `close`. */
  markClean(): Promise<void>
  /** Releases the lock. A second call does nothing. */
  close(): Promise<void>
}

/** Another process has the folder open. */
export class DataFolderInUseError extends Error {
  override readonly name = 'DataFolderInUseError'
}

/**
 * Creates the folder if it is missing, makes it private (mode 0700), and locks it for this process.
 *
 * @throws DataFolderInUseError if another process has it open
 * @throws DataFolderError if it is not writable, if it cannot be made private, or if a newer release wrote it
 */
export async function openDataFolder(folder: string): Promise<DataFolder> {
  const path = resolve(folder)
  await makePrivateFolder(path)
  // SQLite and PGlite create files with modes of their own. The process owns the folder, so its umask may keep all other users out; a thread has none.
  if (isMainThread) process.umask(0o077)
  const statePath = join(path, 'state.json')
  const lock = await takeLock(path, statePath)
  try {
    const before = await readState(statePath)
    if (before !== undefined && before.format > formatVersion) {
      throw new DataFolderError(
        `the data folder ${path} has format ${before.format} and this release reads up to ${formatVersion}: start the newer release, or use another folder with --data`,
      )
    }
    const boot = await bootId()
    const lastStop = lastStopOf(before, boot)
    const unchecked = lastStop === 'power-cut' && before !== undefined
    const state: State = { format: formatVersion, pid: process.pid, boot: unchecked ? before.boot : boot, clean: false }
    await writeState(path, statePath, state)
    let open = true
    return {
      path,
      lastStop,
      async markChecked() {
        state.boot = boot
        await writeState(path, statePath, state)
      },
      async markClean() {
        await writeState(path, statePath, { ...state, clean: true })
      },
      async close() {
        if (!open) return
        open = false
        lock.close()
      },
    }
  } catch (error) {
    lock.close()
    throw error
  }
}

async function takeLock(path: string, statePath: string): Promise<DatabaseSync> {
  const lockPath = join(path, 'lock.db')
  let lock: DatabaseSync | undefined
  try {
    lock = new DatabaseSync(lockPath)
    lock.exec('BEGIN EXCLUSIVE')
    // By path: opening the file a second time and closing it would release the lock (fcntl(2), POSIX locks).
    chmodSync(lockPath, 0o600)
    return lock
  } catch (error) {
    lock?.close()
    if ((error as { errcode?: number }).errcode === 5 /* SQLITE_BUSY */) {
      // A state marked clean is from the previous process: the lock holder has not written its own yet.
      const state = await readState(statePath).catch(() => undefined)
      const holder = state === undefined || state.clean ? 'another process' : `process ${state.pid}`
      throw new DataFolderInUseError(`the data folder ${path} is in use by ${holder}: stop it, or use another folder with --data`, {
        cause: error,
      })
    }
    throw new DataFolderError(
      `the data folder ${path} cannot be locked (${(error as Error).message}): make it writable for this user, or use another folder with --data`,
      {
        cause: error,
      },
    )
  }
}

function lastStopOf(before: State | undefined, boot: string): LastStop {
  if (before === undefined) return 'first'
  if (before.clean) return 'clean'
  return boot !== '' && before.boot === boot ? 'killed' : 'power-cut'
}

async function readState(statePath: string): Promise<State | undefined> {
  let text: string
  try {
    text = await readFile(statePath, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new DataFolderError(
      `${statePath} cannot be read (${code}): make this user the owner of the data folder and its files, or use another folder with --data`,
      { cause: error },
    )
  }
  let state: unknown
  try {
    state = JSON.parse(text)
  } catch {
    state = undefined // Reported by the check below, together with JSON that has other fields.
  }
  if (!Check(stateSchema, state)) {
    throw new DataFolderError(`${statePath} is damaged: restore it from a backup, or remove it if the rest of the folder is intact`)
  }
  return state
}

async function writeState(path: string, statePath: string, state: State): Promise<void> {
  const draft = `${statePath}.${randomBytes(6).toString('hex')}.draft`
  try {
    const file = await open(draft, 'wx', 0o600)
    try {
      await file.writeFile(`${JSON.stringify(state)}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(draft, statePath)
    await syncPath(path)
  } catch (error) {
    await rm(draft, { force: true })
    throw new DataFolderError(
      `the data folder ${path} cannot be written (${(error as NodeJS.ErrnoException).code}): free some space on its disk, or make it writable for this user`,
      { cause: error },
    )
  }
}

/** The kernel's id of this boot, where it has one (Linux). */
async function bootId(): Promise<string> {
  return readFile('/proc/sys/kernel/random/boot_id', 'utf8').then(
    text => text.trim(),
    () => '',
  )
}
