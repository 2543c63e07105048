// The topic readers of the fake and of the embedded log fulfil the contract.

import { openEmbeddedTopicReader } from '../../pipeline/embedded-log/topic-reader.ts'
import { topicReaderConformance } from '../conformance/topic-reader.ts'
import { makeFolder, openLogIn } from './embedded-log/folder.ts'
import { openFakeLog } from './fake-log.ts'
import { openFakeTopicReader } from './fake-topic-reader.ts'

topicReaderConformance('the fake topic reader', async () => {
  const log = openFakeLog()
  return {
    reader: openFakeTopicReader(log),
    append: async messages => void (await log.append(messages)),
    deleteBelow: async offset => log.deleteBelow(offset),
    dispose: () => log.close(),
  }
})

topicReaderConformance('the embedded topic reader', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  return {
    reader: openEmbeddedTopicReader(log),
    append: async messages => void (await log.append(messages)),
    deleteBelow: async offset => {
      // Like the retention.
      log.file.database.prepare('DELETE FROM messages WHERE "offset" < ?').run(offset)
      log.file.database.prepare('UPDATE log SET start = ?').run(offset)
      log.file.start = offset
    },
    dispose: async () => {
      await log.close()
      folder.remove()
    },
  }
})
