// A folder that nobody but its owner can enter: made where it is missing, closed to others where it was open to them.

import { chmod, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** The folder cannot be used: it cannot be made, written or closed to others, or holds what this release does not read. */
export class DataFolderError extends Error {
  override readonly name = 'DataFolderError'
}

/**
 * Makes the folder, and those above it that are missing, with mode 0700. One that was there before and that others can enter is
 * given this mode if it is empty or was a data folder already.
 *
 * @param path absolute
 * @throws DataFolderError
 */
export async function makePrivateFolder(path: string): Promise<void> {
  try {
    await makeWithParents(path)
  } catch (error) {
    throw new DataFolderError(`the data folder ${path} cannot be made: ${reasonOf(error)}; give another one with --data`, { cause: error })
  }
  await closeToOthers(path)
}

/** One folder after the other: in a place where none can be made (/proc), the recursive mkdir of Node.js never ends. */
async function makeWithParents(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (await isFolder(path)) return
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error
    await makeWithParents(dirname(path))
    await mkdir(path, { mode: 0o700 }).catch(async (again: unknown) => {
      // Another process may have made it meanwhile.
      if (!(await isFolder(path))) throw again
    })
  }
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    found => found.isDirectory(),
    () => false,
  )
}

function reasonOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException
  switch (code ?? '') {
    case 'EEXIST':
    case 'ENOTDIR':
      return 'a part of the path is a file'
    case 'EACCES':
      return 'this user may not write there'
    case 'ENOENT':
      return 'the system takes no folder there'
    default:
      return `it failed with ${code}`
  }
}

/** What a data folder holds, in every release. */
const ownNames: ReadonlySet<string> = new Set(['lock.db', 'state.json'])
/** What the root of an empty file system holds (ext4). */
const fileSystemName = 'lost+found'

/** The embedded database makes files that everybody may write, so everybody else must be kept out of the folder. */
async function closeToOthers(path: string): Promise<void> {
  const mode = (await stat(path)).mode & 0o777
  // Windows knows no such modes.
  if (process.platform === 'win32' || (mode & 0o077) === 0) return
  const problem = `the data folder ${path} has mode ${mode.toString(8).padStart(4, '0')}, so that others can enter it`
  const advice = `run chmod 700 ${path} as its owner, or give a new folder inside it with --data`
  let closed: boolean
  try {
    closed = await closeIfOurs(path)
  } catch (error) {
    throw new DataFolderError(`${problem}, and this user may not change that: ${advice}`, { cause: error })
  }
  if (!closed) throw new DataFolderError(`${problem}, and holds other files, which may be meant for them: ${advice}`)
}

/** A folder of other files stays as it is: it may be /tmp or a home, and given by mistake. */
async function closeIfOurs(path: string): Promise<boolean> {
  const names = await readdir(path)
  const ours = names.some(name => ownNames.has(name)) || names.every(name => name === fileSystemName)
  if (ours) await chmod(path, 0o700)
  return ours
}
