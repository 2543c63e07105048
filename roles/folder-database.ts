// The data folder of `./sluice up`: opens the embedded database, checks it after a power cut and syncs it on close; names the other files.

import { existsSync } from 'node:fs'
import { chmod, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DataFolder } from '../config/data-folder.ts'
import type { Logger } from '../config/logger.ts'
import type { ProcessScope } from '../config/run-process.ts'
import { checkIntegrity, type EmbeddedDatabase, openEmbedded, syncTree } from '../database/embedded/embedded.ts'

/** One key per line, the one for new data first. */
export const masterKeyFile = ({ path }: Pick<DataFolder, 'path'>): string => join(path, 'master-key')

/** Relative to the data folder. */
export const databaseFolder = 'postgres'

/** The topic of messages, and the writer that stores them: in its consumer's name in the log, and that of its dead-letter topic. */
export const [folderTopic, folderWriter] = ['messages', 'relational']

/** The file of a log. @param name of the topic */
export const logPath = ({ path }: Pick<DataFolder, 'path'>, name: string): string => join(path, 'log', `${name}.sqlite`)

/** @throws DamagedDatabaseError if the database is damaged, by a power cut or otherwise */
export async function openFolderDatabase(
  folder: DataFolder,
  logger: Logger,
  closeLater: ProcessScope['closeLater'],
): Promise<EmbeddedDatabase> {
  const path = join(folder.path, databaseFolder)
  const isNew = !existsSync(path)
  const database = await openEmbedded({
    folder: path,
    onUpkeepFailure: error => logger.error({ err: error }, 'database maintenance failed and will be retried'),
  })
  if (isNew) await keepForOwner(path)
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

/** Those of a new database are unpacked with modes of their own, whatever the umask is. */
async function keepForOwner(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  await Promise.all(entries.filter(entry => entry.isFile()).map(entry => chmod(join(entry.parentPath, entry.name), 0o600)))
}
