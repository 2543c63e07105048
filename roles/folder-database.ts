// What a data folder of `sluice up` holds beside its log: the embedded database, checked after a power cut and closed so that its stop lasts, and the
// file of the master keys.

import { join } from 'node:path'
import type { DataFolder } from '../config/data-folder.ts'
import type { Logger } from '../config/logger.ts'
import { checkIntegrity, type EmbeddedDatabase, openEmbedded, syncFolder } from '../config/postgres/embedded.ts'
import type { ProcessScope } from '../config/run-process.ts'

/** One key on each line, the one that is written under first. */
export const masterKeyFile = ({ path }: Pick<DataFolder, 'path'>): string => join(path, 'master-key')

/** Within the folder. */
export const databaseFolder = 'postgres'

/** @throws DamagedDatabaseError when a power cut, or something else, left a database that cannot be trusted */
export async function openFolderDatabase(
  folder: DataFolder,
  logger: Logger,
  closeLater: ProcessScope['closeLater'],
): Promise<EmbeddedDatabase> {
  const path = join(folder.path, databaseFolder)
  const database = await openEmbedded({
    folder: path,
    onUpkeepFailure: error => logger.error({ err: error }, 'upkeep of the database failed, and is tried again'),
  })
  let whole = folder.lastStop !== 'power-cut'
  closeLater(async () => {
    await database.close()
    if (!whole) return
    // The embedded database never syncs: only now is a stop clean in the sense that a power cut loses nothing of it.
    await syncFolder(path)
    await folder.markClean()
  })
  if (folder.lastStop === 'power-cut') {
    logger.warn('the machine went down while the platform ran: checking the database, which may have lost its last writes')
    await checkIntegrity(database)
    await folder.markChecked()
    whole = true
    logger.info('the database is whole; what it lost of the messages is stored again from the log')
  }
  return database
}
