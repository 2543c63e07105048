// Puts the rows of a store into the order of their positions, on disk: most stores have no index by position, and return rows in another order.

import { DatabaseSync } from 'node:sqlite'

/** The rows of a message, in the order of their indexes. */
export interface SpooledMessage {
  /** Packed. */
  readonly position: bigint
  /** As in `sinks/contents.ts`. */
  readonly texts: string[]
}

export interface Spool {
  add(position: bigint, index: number, text: string): void
  /** Of the texts that were added. */
  readonly bytes: number
  /** In the order of their positions. Called once, when all rows are added. */
  messages(): Iterable<SpooledMessage>
  close(): void
}

/** In a file of SQLite without a name, which ends with the process. It is in the folder that TMPDIR names, or in /var/tmp. */
export function openSpool(): Spool {
  const database = new DatabaseSync('')
  database.exec('PRAGMA journal_mode = OFF; CREATE TABLE rows (position INTEGER NOT NULL, nth INTEGER NOT NULL, text BLOB NOT NULL); BEGIN')
  const insert = database.prepare('INSERT INTO rows VALUES (?, ?, ?)')
  let bytes = 0
  return {
    add(position, index, text) {
      const encoded = Buffer.from(text)
      bytes += encoded.length
      insert.run(position, index, encoded)
    },
    get bytes() {
      return bytes
    },
    *messages() {
      database.exec('COMMIT')
      const select = database.prepare('SELECT position, text FROM rows ORDER BY position, nth')
      select.setReadBigInts(true)
      let message: SpooledMessage | undefined
      for (const row of select.iterate()) {
        const position = row['position'] as bigint
        if (message?.position !== position) {
          if (message !== undefined) yield message
          message = { position, texts: [] }
        }
        message.texts.push(Buffer.from(row['text'] as Uint8Array).toString())
      }
      if (message !== undefined) yield message
    },
    close: () => database.close(),
  }
}
