// The audit of a MongoDB store: what its collections hold of a log, in the order of positions, which is that of their `_id`s.
//
// Each collection is read a page at a time, by ranges of `_id`; no cursor stays open at the server, however long the comparison takes.

import type { Document, Filter } from 'mongodb'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedLog, AuditedMessage, StoreAudit, Whereabouts } from '../audit.ts'
import type { Connection } from './connection.ts'
import { readFormats } from './formats.ts'
import { inLanes } from './lanes.ts'
import { readLogs } from './logs.ts'
import type { SinkOptions } from './options.ts'
import { physicalName } from './physical-name.ts'
import { packed, replayedCollection } from './replays.ts'
import { firstRowId, indexOf, lastRowId, offsetOf } from './row-id.ts'

/** Of all pages together; that of one collection has at least the fewest. */
const rowsInMemoryMax = 100_000
const pageRows = { most: 5_000, fewest: 100 } as const
const readsAtOnce = 4
const offsetMask = 0xfff_ffff_ffffn

/** @param connection stays the caller's */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  return {
    async logs() {
      await connection.connect()
      const logs = await readLogs(connection.database)
      return logs.map(({ _id: number, name, id, writer }): AuditedLog => ({ number, name, id, writer, partitions: new Map() }))
    },

    async *messages(log, partition, from, to) {
      if (from >= to) return
      await connection.connect()
      const collections = [senmlFormat, ...(await readFormats(connection.database)).map(({ collection }) => collection)]
      const limit = Math.min(pageRows.most, Math.max(pageRows.fewest, Math.floor(rowsInMemoryMax / collections.length)))
      const first = firstRowId(log, partition, from)
      const last = lastRowId(log, partition, to - 1)
      const tables = collections.map(collection => openPages(rowsBehind(collection, limit, first, last), limit))
      const replays = openPages(
        replaysBehind(limit, packed({ log, partition, offset: from }), packed({ log, partition, offset: to - 1 })),
        limit,
      )
      yield* merged(tables, replays)
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

/** The next rows in the order of positions: fewer than the limit where there are no more. */
type ReadBehind = () => Promise<Row[]>

/** What was read of a collection, and is not given out. */
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

/** Where what was read of a collection may go on in the middle of a message: everything below that offset is there. */
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
    await inLanes(
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

/** A message lies in one collection, where no `_id` can be twice; what lies in more is found by sorting. */
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
