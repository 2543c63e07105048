// Erases rows of a MongoDB store: channel by channel along the indexes that readers use, as the retention does.

import { erasureText, type StoreErasure } from '../erasure.ts'
import type { Connection } from './connection.ts'
import { noteErasure } from './registry.ts'
import { deleteRows, local, rowsOfChannels } from './schema.ts'

/** Of ids, which a count reads page by page: the server answers no request that takes long. */
const pageRows = 5_000

export function openErasure(connection: Connection): StoreErasure {
  return {
    async count(filter, signal) {
      await connection.connect()
      const counts = new Map<string, number>()
      for await (const { format, collection, rows } of rowsOfChannels(connection, filter)) {
        const found = connection.database
          .collection(collection)
          .find(rows, { ...local, projection: { _id: 1 }, batchSize: pageRows, signal })
        for await (const _ of found) counts.set(format, (counts.get(format) ?? 0) + 1)
      }
      return counts
    },

    async erase(filter, signal, onErased) {
      await connection.connect()
      let erased = 0
      await deleteRows(connection, filter, {
        signal,
        async onRows(rows) {
          erased += rows
          await onErased(rows)
        },
      })
      return erased
    },

    async note(erasure) {
      await connection.connect()
      await noteErasure(connection.database, erasure.id, erasureText(erasure))
    },

    close: () => connection.close(),
  }
}
