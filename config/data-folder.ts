// The data folder: one process at a time, a version, and how the last one ended.
//
// The lock is an exclusive transaction on a small SQLite file, held for the life of the process: SQLite takes POSIX locks, which
// the kernel releases however the process ends, so that no lock is left behind by SIGKILL. Beside it, a state file names the
// process and the boot of the machine, so that a start can tell a power cut from a killed process.

import { randomBytes } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { DataFolderError, makePrivateFolder } from './private-folder.ts'
import { syncFolder } from './secrets.ts'

export { DataFolderError } from './private-folder.ts'

/** The version of what lies in the folder; raised when an older release could no longer read it. */
const formatVersion = 1

const stateSchema = Type.Object({
  format: Type.Integer({ minimum: 1 }),
  pid: Type.Integer(),
  /** Changes with each boot of the machine; empty where the system has none. */
  boot: Type.String(),
  clean: Type.Boolean(),
})

type State = Static<typeof stateSchema>

export type LastStop = 'first' | 'clean' | 'killed' | 'power-cut'

export interface DataFolder {
  /** Absolute. */
  readonly path: string
  /**
   * `first`: the folder is new. `clean`: markClean had been called. `killed`: the process ended without it, the machine went on, so
   * everything that was written is there. `power-cut`: the machine started anew since (or cannot tell), so what was never synced may be gone.
   */
  readonly lastStop: LastStop
  /**
   * Notes, after a power cut, that what is kept was checked and found whole. Until then every start is told of the power cut,
   * also when this process is killed in the middle of the check.
   */
  markChecked(): Promise<void>
  /** Notes that everything is closed and synced; the last thing before `close`. */
  markClean(): Promise<void>
  /** Releases the lock. A second call does nothing. */
  close(): Promise<void>
}

/** Another process has the folder open. */
export class DataFolderInUseError extends Error {
  override readonly name = 'DataFolderInUseError'
}

/**
 * Makes the folder where it is missing, sees to it that nobody else can enter it (mode 0700), and takes it for this process.
 *
 * @throws DataFolderInUseError when another process has it
 * @throws DataFolderError when it cannot be written, when others can enter it and that cannot be changed, or when a newer release wrote it
 */
export async function openDataFolder(folder: string): Promise<DataFolder> {
  const path = resolve(folder)
  await makePrivateFolder(path)
  const statePath = join(path, 'state.json')
  const lock = await takeLock(path, statePath)
  try {
    const before = await readState(statePath)
    if (before !== undefined && before.format > formatVersion) {
      throw new DataFolderError(
        `the data folder ${path} has format ${before.format} and this release reads up to ${formatVersion}: start the newer release, or another folder with --data`,
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
    // By its path: to open the file a second time and close it would release the lock (fcntl(2), POSIX locks).
    chmodSync(lockPath, 0o600)
    return lock
  } catch (error) {
    lock?.close()
    if ((error as { errcode?: number }).errcode === 5 /* SQLITE_BUSY */) {
      // A state marked clean is that of the process before: the holder has not written its own yet.
      const state = await readState(statePath).catch(() => undefined)
      const holder = state === undefined || state.clean ? 'another process' : `process ${state.pid}`
      throw new DataFolderInUseError(`the data folder ${path} is in use by ${holder}: stop that one, or give another folder with --data`, {
        cause: error,
      })
    }
    throw new DataFolderError(
      `the data folder ${path} cannot be locked (${(error as Error).message}): make it writable for this user, or give another folder with --data`,
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
      `${statePath} cannot be read (${code}): give this user the data folder and its files, or give another folder with --data`,
      { cause: error },
    )
  }
  let state: unknown
  try {
    state = JSON.parse(text)
  } catch {
    state = undefined // The check below says the same for what parses and what does not.
  }
  if (!Value.Check(stateSchema, state)) {
    throw new DataFolderError(`${statePath} is damaged: restore it from a backup, or remove it if the rest of the folder is whole`)
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
    await syncFolder(path)
  } catch (error) {
    await rm(draft, { force: true })
    throw new DataFolderError(
      `the data folder ${path} cannot be written (${(error as NodeJS.ErrnoException).code}): make room on its disk, or make it writable for this user`,
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
