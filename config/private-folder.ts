// Makes a folder private to its owner, and creates it if it is missing.

import { chmod, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** The folder is unusable: it cannot be created, written or made private, or this release cannot read its content. */
export class DataFolderError extends Error {
  override readonly name = 'DataFolderError'
}

/**
 * Creates the folder and its missing parents with mode 0700. An existing folder that others can enter gets this mode if it is
 * empty or already a data folder.
 *
 * @param path absolute
 * @throws DataFolderError
 */
export async function makePrivateFolder(path: string): Promise<void> {
  try {
    await makeWithParents(path)
  } catch (error) {
    throw new DataFolderError(`the data folder ${path} cannot be created: ${reasonOf(error)}; use another one with --data`, {
      cause: error,
    })
  }
  await closeToOthers(path)
}

/** Creates one folder at a time: where none can be created (/proc), the recursive mkdir of Node.js never returns. */
async function makeWithParents(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (await isFolder(path)) return
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error
    await makeWithParents(dirname(path))
    await mkdir(path, { mode: 0o700 }).catch(async (again: unknown) => {
      // Another process may have created it in the meantime.
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
      return 'this user has no write permission there'
    case 'ENOENT':
      return 'the system allows no folder there'
    default:
      return `it failed with ${code}`
  }
}

/** Files that a data folder of every release contains. */
const ownNames: ReadonlySet<string> = new Set(['lock.db', 'state.json'])
/** Found at the root of an empty ext4 file system. */
const fileSystemName = 'lost+found'

/** The embedded database creates world-writable files, so other users must be kept out of the folder. */
async function closeToOthers(path: string): Promise<void> {
  const mode = (await stat(path)).mode & 0o777
  // Windows has no such modes.
  if (process.platform === 'win32' || (mode & 0o077) === 0) return
  const problem = `the data folder ${path} has mode ${mode.toString(8).padStart(4, '0')}, so others can enter it`
  const advice = `run chmod 700 ${path} as its owner, or use a new folder inside it with --data`
  let closed: boolean
  try {
    closed = await closeIfOurs(path)
  } catch (error) {
    throw new DataFolderError(`${problem}, and this user cannot change that: ${advice}`, { cause: error })
  }
  if (!closed) throw new DataFolderError(`${problem}, and it contains other files, which may be shared on purpose: ${advice}`)
}

/** A folder with other files is left unchanged: it may be /tmp or a home folder, given by mistake. */
async function closeIfOurs(path: string): Promise<boolean> {
  const names = await readdir(path)
  const ours = names.some(name => ownNames.has(name)) || names.every(name => name === fileSystemName)
  if (ours) await chmod(path, 0o700)
  return ours
}
