// What the store finds: documents as the bytes that it sent, a batch at a time, so that as much is in memory as one batch has.

import type { Db, Document, FindCursor } from 'mongodb'
import type { Filter, Find } from './select.ts'
import type { TimeLimit } from './time-limit.ts'

/** Where the rows of a question lie, and how long it may take. */
export interface Place {
  readonly database: Db
  readonly collection: string
  readonly limit: TimeLimit
}

/** Where no limit says how many come: MongoDB's own first batch would have 101. A batch has 16 MB at most. */
const batchRows = 1_000

/**
 * Runs a find, and gives its documents as BSON: the driver would make objects of them, and reads keys of payloads as its own. The cursor is closed
 * when nobody asks for more, or the time is up.
 */
export async function* foundBy({ database, collection, limit }: Place, find: Find): AsyncGenerator<readonly Buffer[]> {
  const { filter, ...options } = find
  const cursor = database.collection(collection).find(filter as Document, {
    ...options,
    batchSize: options.limit ?? batchRows,
    maxTimeMS: limit.remainingMs(),
    raw: true,
    signal: limit.signal,
  })
  try {
    while (await limit.within(cursor.hasNext())) {
      yield cursor.readBufferedDocuments() as unknown as Buffer[]
      limit.remainingMs()
    }
  } finally {
    close(cursor)
  }
}

/** It tells the server, which may not be listening: nobody waits for that. */
function close(cursor: FindCursor): void {
  if (!cursor.closed) cursor.close().catch(() => undefined)
}

/** How many rows there are, up to `max`. */
export async function countBy({ database, collection, limit }: Place, filter: Filter, max: number): Promise<number> {
  // The command `count` is wrong while shards are moved.
  const pipeline = [{ $match: filter }, { $limit: BigInt(max) }, { $count: 'total' }]
  const cursor = database.collection(collection).aggregate(pipeline, { maxTimeMS: limit.remainingMs(), signal: limit.signal })
  const [counted] = await limit.within(cursor.toArray())
  return Number((counted?.['total'] as number | bigint | undefined) ?? 0)
}
