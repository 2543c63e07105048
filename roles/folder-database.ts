// The data folder of `./sluice up`: opens the embedded database, checks it after a power cut and syncs it on close; names the file of the master
// keys.

import { join } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import type { DataFolder } from '../config/data-folder.ts'
import type { Logger } from '../config/logger.ts'
import type { ProcessScope } from '../config/run-process.ts'
import { checkIntegrity, type EmbeddedDatabase, openEmbedded, syncTree } from '../database/embedded/embedded.ts'

/** One key per line, the one for new data first. */
export const masterKeyFile = ({ path }: Pick<DataFolder, 'path'>): string => join(path, 'master-key')

/** Relative to the data folder. */
export const databaseFolder = 'postgres'

/** @throws DamagedDatabaseError if the database is damaged, by a power cut or otherwise */
export async function openFolderDatabase(
  folder: DataFolder,
  logger: Logger,
  closeLater: ProcessScope['closeLater'],
): Promise<EmbeddedDatabase> {
  const path = join(folder.path, databaseFolder)
  // PGlite creates files with mode 0666. The process owns the folder, so its umask may keep all other users out; a thread has none of its own.
  if (isMainThread) process.umask(0o077)
  const database = await openEmbedded({
    folder: path,
    onUpkeepFailure: error => logger.error({ err: error }, 'database maintenance failed and will be retried'),
  })
  let whole = folder.lastStop !== 'power-cut'
  closeLater(async () => {
    await database.close()
    if (!whole) return
    // The embedded database never syncs: only after this is the stop clean, so that a power cut loses nothing.
    await syncTree(path)
    await folder.markClean()
  })
  if (folder.lastStop === 'power-cut') {
    logger.warn('the machine went down while the platform was running: checking the database, which may have lost its last writes')
    await checkIntegrity(database)
    await folder.markChecked()
    whole = true
    logger.info('the database is intact; lost messages are stored again from the log')
  }
  return database
}
