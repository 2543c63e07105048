// Retained messages in an SQLite file, for `up`.

import { LogUnavailableError } from '../../log.ts'
import { openSqliteFile } from '../../sqlite-file.ts'
import { openRetainedRecords, recordName, recordOf } from './records.ts'
import type { RetainedStore } from './store.ts'

const schema = 'CREATE TABLE IF NOT EXISTS retained (name TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT;'

/**
 * @param topicsMax of one channel
 * @throws SystemicError if the file is not one of retained messages, or is open in another process
 */
export function openEmbeddedRetained(path: string, topicsMax: number): RetainedStore {
  const records = openRetainedRecords(topicsMax)
  const file = openSqliteFile<() => unknown>({
    path,
    schema,
    what: "MQTT's retained messages",
    write: run => run(),
    unavailable: cause =>
      new LogUnavailableError(`the retained messages of MQTT in ${path} cannot be saved: ${(cause as Error).message}`, { cause }),
  })
  const write = file.database.prepare('INSERT OR REPLACE INTO retained (name, record) VALUES (?, ?)')
  const erase = file.database.prepare('DELETE FROM retained WHERE name = ?')
  for (const { name, record } of file.database.prepare('SELECT name, record FROM retained').iterate()) {
    records.apply(name as string, record as Uint8Array)
  }

  return {
    ...records,
    ready: async () => undefined,
    // The log has it, so subscribers may get it before the file does.
    async keep(message) {
      const name = recordName(message)
      if (records.set(message)) await file.change(name, () => write.run(name, recordOf(message)))
    },
    async clear(topic) {
      const name = recordName(topic)
      records.remove(topic)
      await file.change(name, () => erase.run(name))
    },
    close: () => file.close(),
  }
}
