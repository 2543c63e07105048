// The embedded log and its source fulfil their contracts.

import { openEmbeddedSource } from '../../../pipeline/embedded-log/source.ts'
import { logConformance } from '../../conformance/log.ts'
import { sourceConformance } from '../../conformance/source.ts'
import { makeFolder, openLogIn, readAll } from './folder.ts'

logConformance('the embedded log', async () => {
  const folder = makeFolder()
  let log = openLogIn(folder.path)
  return {
    log,
    read: async () => readAll(log),
    reopen: async () => {
      await log.close()
      log = openLogIn(folder.path)
      return log
    },
    break: () => log.file.database.exec('PRAGMA query_only = ON'),
    mend: () => log.file.database.exec('PRAGMA query_only = OFF'),
    dispose: async () => {
      await log.close()
      folder.remove()
    },
  }
})

sourceConformance('the embedded source', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  return {
    append: messages => log.append(messages),
    open: settings =>
      openEmbeddedSource({
        log,
        consumer: 'writer',
        chunkBytesMax: 1024 * 1024,
        chunkMessagesMax: 1000,
        ...settings,
      }),
    deleteBelow: offset => {
      log.file.database.prepare('DELETE FROM messages WHERE "offset" < ?').run(offset)
      log.file.start = offset
    },
    dispose: async () => {
      await log.close()
      folder.remove()
    },
  }
})
