// A file of SQLite in the data folder of `up`. What is changed in one turn of the event loop, or while the file is written, is one transaction.

import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { SystemicError } from './systemic-error.ts'

export interface SqliteFile<Change> {
  readonly database: DatabaseSync
  /** Writes a change with the next ones, in place of an earlier one of this key. Resolves when it is durable. @throws unavailable */
  change(key: string, change: Change): Promise<void>
  /** @returns what `ask` returns. @throws unavailable */
  read<Result>(ask: () => Result): Result
  /** The change of this key that is about to be written. */
  pending(key: string): Change | undefined
  /** Waits for what is about to be written. A second call does nothing. */
  close(): Promise<void>
}

interface SqliteFileParts<Change> {
  readonly path: string
  readonly schema: string
  /** What the file is of, for errors. */
  readonly what: string
  readonly write: (change: Change) => void
  /** The error of what cannot be read or written now. */
  readonly unavailable: (cause: unknown) => Error
}

/** @throws SystemicError if the file is of something else, or is open in another process */
export function openSqliteFile<Change>({ path, schema, what, write, unavailable }: SqliteFileParts<Change>): SqliteFile<Change> {
  const database = opened(path, schema, what)
  let changes = new Map<string, Change>()
  let written: Promise<void> | undefined

  function flush(): void {
    const all = changes
    changes = new Map()
    written = undefined
    try {
      database.exec('BEGIN IMMEDIATE')
      for (const change of all.values()) write(change)
      database.exec('COMMIT')
    } catch (error) {
      if (database.isOpen && database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
  }

  return {
    database,
    change(key, change) {
      changes.set(key, change)
      written ??= new Promise<void>((resolve, reject) => {
        setImmediate(() => {
          try {
            flush()
            resolve()
          } catch (error) {
            reject(unavailable(error))
          }
        })
      })
      return written
    },
    read(ask) {
      try {
        return ask()
      } catch (error) {
        throw unavailable(error)
      }
    },
    pending: key => changes.get(key),
    async close() {
      await written?.catch(() => undefined)
      if (database.isOpen) database.close()
    },
  }
}

function opened(path: string, schema: string, what: string): DatabaseSync {
  let database: DatabaseSync | undefined
  try {
    closeSync(openSync(path, 'a', 0o600))
    database = new DatabaseSync(path, { timeout: 0 })
    database.exec(`PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${schema}`)
    return database
  } catch (error) {
    database?.close()
    throw new SystemicError(`${path} cannot be opened as the file of ${what}: ${(error as Error).message}`, { cause: error })
  }
}
