// The audit of a MongoDB store: lists the rows of a log in the order of positions, which is the order of their `_id`s.
//
// It reads each collection a page at a time, by ranges of `_id`, so no cursor stays open on the server, however long the comparison takes.

import type { Document, Filter } from 'mongodb'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedMessage, StoreAudit, Whereabouts } from '../audit.ts'
import { eachAtOnce } from '../each-at-once.ts'
import { withoutPositions } from '../scan-audit.ts'
import { limits, packedPosition } from '../sink.ts'
import { firstRowId, indexOf, lastRowId, offsetOf } from './bson.ts'
import type { Connection } from './connection.ts'
import type { SinkOptions } from './options.ts'
import { physicalName, readFormats, readLogs, replayedCollection } from './registry.ts'

/** Of the pages of all collections together; the page of one collection has at least `fewest`. */
const rowsInMemoryMax = 100_000
const pageRows = { most: 5_000, fewest: 100 } as const
const readsAtOnce = 4
const offsetMask = 0xfff_ffff_ffffn

/** @param connection the caller closes it */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  return {
    async logs() {
      await connection.connect()
      return (await readLogs(connection.database)).map(withoutPositions)
    },

    async *messages(log, partition, from, to) {
      if (from >= to) return
      await connection.connect()
      const collections = [senmlFormat, ...(await readFormats(connection.database)).map(({ collection }) => collection)]
      const limit = Math.min(pageRows.most, Math.max(pageRows.fewest, Math.floor(rowsInMemoryMax / collections.length)))
      const first = firstRowId(log, partition, from)
      const last = lastRowId(log, partition, to - 1)
      const tables = collections.map(collection => openPages(rowsBehind(collection, limit, first, last), limit))
      const replays = openPages(replaysBehind(limit, packedPosition(log, partition, from), packedPosition(log, partition, to - 1)), limit)
      yield* merged(tables, replays)
    },

    async hasRows(log) {
      await connection.connect()
      const own = between(firstRowId(log, 0, 0), lastRowId(log, limits.partition, limits.offset))
      for (const collection of [senmlFormat, ...(await readFormats(connection.database)).map(({ collection }) => collection)]) {
        if ((await connection.database.collection(collection).findOne(own, { projection: { _id: 1 } })) !== null) return true
      }
      return false
    },

    async rowsOf(log, partition, offset, { format }: Whereabouts) {
      const collection = format === senmlFormat ? senmlFormat : physicalName(format)
      await connection.connect()
      const own = between(firstRowId(log, partition, offset), lastRowId(log, partition, offset))
      return (
        await connection.database
          .collection(collection)
          .find(own, { projection: { _id: 1 } })
          .toArray()
      ).length
    },

    statementOf(log, partition, offset, { format }) {
      const collection = format === senmlFormat ? senmlFormat : physicalName(format)
      const [first, last] = [firstRowId(log, partition, offset), lastRowId(log, partition, offset)].map(
        rowId => `BinData(0, "${Buffer.from(rowId).toString('base64')}")`,
      )
      return `db.getCollection("${collection}").find({ _id: { $gte: ${first}, $lte: ${last} } })`
    },
  }

  function rowsBehind(collection: string, limit: number, first: Uint8Array, last: Uint8Array): ReadBehind {
    let behind: Filter<Document> = between(first, last)
    return async () => {
      const found = await connection.database
        .collection(collection)
        .find(behind, { projection: { _id: 1 }, sort: { _id: 1 }, limit })
        .toArray()
      const rowIds = found.map(({ _id }) => _id as unknown as Uint8Array)
      if (rowIds.length > 0) behind = { _id: { $gt: rowIds.at(-1)!, $lte: last } } as unknown as Filter<Document>
      return rowIds.map(rowId => ({ offset: offsetOf(rowId), index: indexOf(rowId) }))
    }
  }

  function replaysBehind(limit: number, first: bigint, last: bigint): ReadBehind {
    let behind: Filter<Document> = { _id: { $gte: first, $lte: last } as never }
    return async () => {
      const found = await connection.database
        .collection(replayedCollection)
        .find(behind, { sort: { _id: 1 }, limit })
        .toArray()
      const positions = found.map(({ _id }) => _id as unknown as bigint)
      if (positions.length > 0) behind = { _id: { $gt: positions.at(-1)!, $lte: last } as never }
      return positions.map(position => ({ offset: Number(position & offsetMask), index: 0 }))
    }
  }
}

function between(first: Uint8Array, last: Uint8Array): Filter<Document> {
  return { _id: { $gte: first, $lte: last } } as unknown as Filter<Document>
}

interface Row {
  readonly offset: number
  readonly index: number
}

/** Returns the next rows in the order of positions; fewer than the limit if there are no more. */
type ReadBehind = () => Promise<Row[]>

/** The rows of a collection that were read but not yet returned. */
interface Pages {
  rows: readonly Row[]
  hasMore: boolean
  readonly read: () => Promise<void>
}

function openPages(readBehind: ReadBehind, limit: number): Pages {
  const pages: Pages = {
    rows: [],
    hasMore: true,
    async read() {
      const more = await readBehind()
      pages.hasMore = more.length === limit
      pages.rows = pages.rows.length === 0 ? more : [...pages.rows, ...more]
    },
  }
  return pages
}

/** The offset below which all rows of a collection were read. The last message may have further rows on the next page. */
function endOf({ rows, hasMore }: Pages): number {
  if (!hasMore) return Number.POSITIVE_INFINITY
  return rows.at(-1)?.offset ?? -1
}

async function* merged(tables: readonly Pages[], replays: Pages): AsyncGenerator<AuditedMessage> {
  const all = [...tables, replays]
  for (;;) {
    const end = Math.min(...all.map(endOf))
    const parts = tables.map(pages => takeBelow(pages, end)).filter(rows => rows.length > 0)
    const replayed = new Set(takeBelow(replays, end).map(({ offset }) => offset))
    yield* messagesOf(parts, replayed)
    if (end === Number.POSITIVE_INFINITY) return
    await eachAtOnce(
      all.filter(pages => endOf(pages) === end),
      readsAtOnce,
      pages => pages.read(),
    )
  }
}

function takeBelow(pages: Pages, end: number): readonly Row[] {
  const { rows } = pages
  let count = rows.length
  if (end !== Number.POSITIVE_INFINITY) while (count > 0 && rows[count - 1]!.offset >= end) count--
  pages.rows = rows.slice(count)
  return rows.slice(0, count)
}

/** A message is in one collection, where no `_id` occurs twice. If it is in several, sorting finds that. */
function* messagesOf(parts: readonly (readonly Row[])[], replayed: ReadonlySet<number>): Generator<AuditedMessage> {
  const rows = parts.length === 1 ? parts[0]! : parts.flat().sort((one, other) => one.offset - other.offset || one.index - other.index)
  for (let at = 0; at < rows.length; ) {
    const { offset } = rows[at]!
    const start = at
    let doubled = 0
    for (at++; at < rows.length && rows[at]!.offset === offset; at++) if (rows[at]!.index === rows[at - 1]!.index) doubled++
    yield { offset, rows: at - start, doubled, replayed: replayed.has(offset) }
  }
}
