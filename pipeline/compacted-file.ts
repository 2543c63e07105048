// A compacted topic in a file of SQLite, for `up`. What is appended in one turn of the event loop, or while the file is written, is one transaction.

import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CompactedTopic, CompactedTopicUse } from './compacted-topic.ts'
import { SystemicError } from './systemic-error.ts'

interface Appended {
  readonly key: string
  readonly offset: number
  /** undefined: a tombstone. */
  readonly payload: Buffer | undefined
}

const schema = 'CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, log_offset INTEGER NOT NULL, payload BLOB NOT NULL) STRICT'
const nothing = Buffer.alloc(0)

/** @throws SystemicError if the file is of something else, or is open in another process */
export function openCompactedFile(path: string, { what, onRecord, unavailable }: CompactedTopicUse): CompactedTopic {
  const database = opened(path, what)
  const write = database.prepare('INSERT OR REPLACE INTO records (key, log_offset, payload) VALUES (?, ?, ?)')
  const erase = database.prepare('DELETE FROM records WHERE key = ?')
  let next = 0
  let appended: Appended[] = []
  let written: Promise<void> | undefined
  for (const { key, log_offset: offset, payload } of database.prepare('SELECT * FROM records ORDER BY log_offset').iterate()) {
    onRecord(key as string, offset as number, payload as Uint8Array)
    next = (offset as number) + 1
  }

  function flush(): void {
    const all = appended
    appended = []
    written = undefined
    try {
      database.exec('BEGIN IMMEDIATE')
      for (const { key, offset, payload } of all) {
        if (payload === undefined) erase.run(key)
        else write.run(key, offset, payload)
      }
      database.exec('COMMIT')
    } catch (error) {
      if (database.isOpen && database.isTransaction) database.exec('ROLLBACK')
      throw unavailable(error)
    }
    for (const { key, offset, payload } of all) onRecord(key, offset, payload ?? nothing)
  }

  return {
    isShared: false,
    isAway: false,
    appendMsMax: 0,
    // What is written was read.
    hasRead: async () => undefined,
    hasReadAll: async () => written?.catch(() => undefined),
    async append(key, payload) {
      const offset = next++
      appended.push({ key, offset, payload })
      written ??= nextTurn().then(flush)
      await written
      return offset
    },
    async close() {
      await written?.catch(() => undefined)
      if (database.isOpen) database.close()
    },
  }
}

function opened(path: string, what: string): DatabaseSync {
  let database: DatabaseSync | undefined
  try {
    closeSync(openSync(path, 'a', 0o600))
    database = new DatabaseSync(path, { timeout: 0 })
    database.exec(`PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${schema}`)
    return database
  } catch (error) {
    database?.close()
    throw new SystemicError(`${path} cannot be opened as the file of the ${what}: ${(error as Error).message}`, { cause: error })
  }
}
