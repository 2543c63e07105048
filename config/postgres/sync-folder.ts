// Makes the files of a folder durable, for a writer that never does so itself.

import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Calls fsync on every file and folder below, and on the folder itself. PGlite never does: after its close this is what makes a
 * clean stop outlast a power cut.
 *
 * @param depth how many levels of folders to go down; all of them if not given
 * @throws Error of the file system, for instance EIO: what was written before may then be lost
 */
export async function syncFolder(folder: string, { depth = Number.POSITIVE_INFINITY }: { depth?: number } = {}): Promise<void> {
  if (depth > 0) {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) await syncFolder(path, { depth: depth - 1 })
      else if (entry.isFile()) await sync(path)
    }
  }
  // After its files: a folder's own entry is what makes their names durable.
  await sync(folder)
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}
