// Runs a find. Documents are returned as the bytes that the server sent, a batch at a time; rows that the store cannot compare exactly are matched
// here.

import type { Db, Document, FindCursor } from 'mongodb'
import { unlessAborted } from '../../config/aborting.ts'
import { matcherOf } from '../matching.ts'
import { type Filter, type Row, senmlFormat } from '../reader.ts'
import type { TimeLimit } from '../time-limit.ts'
import { documentOf, recordOf } from './rows.ts'
import type { Conditions, Find } from './select.ts'

/** The collection of a query, and its time limit. */
export interface Source {
  readonly database: Db
  readonly collection: string
  readonly limit: TimeLimit
}

/** The batch size if there is no limit. MongoDB's own first batch would have 101 documents. A batch has at most 16 MB. */
const batchRows = 1_000

/**
 * Runs a find and returns its documents as BSON: the driver would convert them to objects, and interpret keys of payloads. The cursor is closed when
 * the caller stops reading, or when the time is over.
 */
export async function* foundBy({ database, collection, limit }: Source, find: Find): AsyncGenerator<readonly Buffer[]> {
  const { conditions, ...options } = find
  const cursor = database.collection(collection).find(conditions as Document, {
    ...options,
    batchSize: options.limit ?? batchRows,
    maxTimeMS: limit.remainingMs(),
    raw: true,
    signal: limit.signal,
  })
  try {
    while (await unlessAborted(cursor.hasNext(), limit.signal)) {
      yield cursor.readBufferedDocuments() as unknown as Buffer[]
      limit.remainingMs()
    }
  } finally {
    close(cursor)
  }
}

/** Closes the cursor on the server, which may not answer; the caller does not wait for it. */
function close(cursor: FindCursor): void {
  if (!cursor.closed) cursor.close().catch(() => undefined)
}

/** The number of rows, counted up to `max`. */
export async function countBy({ database, collection, limit }: Source, conditions: Conditions, max: number): Promise<number> {
  // The command `count` is wrong while shards are being moved.
  const pipeline = [{ $match: conditions }, { $limit: BigInt(max) }, { $count: 'total' }]
  const cursor = database.collection(collection).aggregate(pipeline, { maxTimeMS: limit.remainingMs(), signal: limit.signal })
  const [counted] = await unlessAborted(cursor.toArray(), limit.signal)
  return Number((counted?.['total'] as number | bigint | undefined) ?? 0)
}

/** Returns the matching rows in the order of the find; one batch is in memory. */
export async function* matchedRows(source: Source, filter: Filter, find: Find): AsyncGenerator<Row> {
  const { channel, format } = filter
  const toRow = format === senmlFormat ? recordOf : documentOf
  const matches = isExact(filter) ? undefined : matcherOf(filter)
  for await (const batch of foundBy(source, find)) {
    for (const bytes of batch) {
      const row = toRow(bytes, channel)
      if (matches === undefined || matches(row)) yield row
    }
  }
}

/** Returns `count` rows after the first `offset`. The store skips these itself if it can decide which rows match. */
export async function matchedPage(source: Source, filter: Filter, find: Find, offset: number, count: number): Promise<Row[]> {
  const inStore = isExact(filter)
  const rows: Row[] = []
  let passed = inStore ? offset : 0
  for await (const row of matchedRows(source, filter, inStore ? { ...find, skip: offset, limit: count } : find)) {
    if (passed < offset) passed++
    else if (rows.push(row) === count) break
  }
  return rows
}

/** Counts in this process, up to `max`. */
export async function matchedCount(source: Source, filter: Filter, find: Find, max: number): Promise<number> {
  const rows = matchedRows(source, filter, find)
  let count = 0
  while (count < max && !(await rows.next()).done) count++
  await rows.return(undefined)
  return count
}

/** The rows that the newest of each series is found from, without what may be long. */
export async function* seriesRows(source: Source, filter: Filter, find: Find): AsyncGenerator<Row> {
  for await (const row of matchedRows(source, filter, find)) yield row.kind === 'document' ? { ...row, payloadText: '' } : row
}

/** True if the store compares everything exactly, that is, everything except payloads. */
export function isExact({ payload }: Filter): boolean {
  return payload.length === 0
}
