// Runs a query on the embedded database in pieces: it is a single backend that cannot be interrupted, and publishers wait while it works.
//
// A piece is a range of time with a certain number of rows in the index, whatever the filters leave of them. The number follows from how long the
// database worked for the previous pieces. One piece runs at a time, and queries take turns. The results of the pieces are merged here.

import type { SqlRow } from '../../database/database.ts'
import { openQueue } from '../../database/mutex.ts'
import type { Seen } from '../formats.ts'
import { bucketOrder, charactersOf, groupKey, groupsMax, openGroupLimit } from '../groups.ts'
import { isFiltered } from '../matching.ts'
import {
  type AggregateQuery,
  type Bucket,
  type Direction,
  type Filter,
  type FormatsQuery,
  type Grouped,
  isBehind,
  type PageQuery,
  QueryTooLargeError,
  type Row,
  type RowKey,
} from '../reader.ts'
import { isOfDocuments, type RecordScope, type Scope, type Statement, sourceOf } from './conditions.ts'
import { type BucketColumns, type SeriesColumns, type SubtopicColumns, toBucket, toRows, toSeen } from './rows.ts'
import { selectCount, selectPage, selectSubtopics } from './select.ts'
import { selectExcess, selectPieceBuckets, selectPieceEnd, selectPieceSeries, selectRows } from './select-pieces.ts'

/** @param onTurn called when the statement begins, after those that waited before it */
export type Run = <Columns extends SqlRow>(statement: Statement, signal: AbortSignal, onTurn?: () => void) => Promise<Columns[]>

/** The queries of a reader, for a scope that is known. */
export interface Queries {
  read(query: PageQuery, scope: Scope, signal: AbortSignal): Promise<Row[]>
  count(filter: Filter, scope: Scope, max: number, signal: AbortSignal): Promise<number>
  latest(query: PageQuery, scope: Scope, signal: AbortSignal): Promise<Grouped<Row>>
  /** @throws DatabaseError 22003 for a sum beyond the range of a double */
  aggregate(query: AggregateQuery, scope: RecordScope, signal: AbortSignal): Promise<Grouped<Bucket>>
  /** What the newest rows are of. */
  subtopics(filter: Filter, scope: Scope, limits: SubtopicLimits, signal: AbortSignal): Promise<Seen>
}

/** As of a query for formats. */
export type SubtopicLimits = Pick<FormatsQuery, 'rowsMax' | 'subtopicsMax'>

/** The number of rows of a piece. */
interface ChunkSize {
  readonly first: number
  readonly least: number
  readonly most: number
}

/** How long the database should work for a piece, with both of its statements; the size of the next piece is chosen accordingly. */
const pieceMs = 20
const recordChunks: ChunkSize = { first: 1000, least: 250, most: 10_000 }
/** For filters of payloads, which may have 256 KiB each. */
const payloadChunks: ChunkSize = { first: 32, least: 8, most: 250 }
/**
 * Most bytes of a piece's payloads and of names in its rows, plus one row. They have no other limit, and large rows may follow many small ones. The
 * names of numbered series have at most 2,400 bytes.
 */
const pieceBytesMax = 1024 * 1024
/** Most records with the same time, which are always in one piece. With more of them, or longer names, they are not grouped. */
const timestampMax = { rows: 50_000, bytes: 4 * 1024 * 1024 } as const
/** A page without filters is a single statement up to this many returned rows, which may be large, and this many including skipped ones. */
const pageRowsMax = { given: 128, all: 2000 } as const
/** Rows that are looked up by their keys in one statement; they may be large. */
const lookedUpMax = 32

/** @param rowsMax rows of a piece, and of a single statement */
export function embeddedQueries(run: Run, rowsMax = Number.POSITIVE_INFINITY): Queries {
  const inTurn = openQueue(0)
  /** For the piece that is running. */
  let workedMs = 0

  /** Runs a statement of a piece. Waiting time does not count; otherwise pieces would become smaller the more readers there are. */
  const runPiece: Run = async (statement, signal) => {
    let begunMs = Number.POSITIVE_INFINITY
    try {
      return await run(statement, signal, () => {
        begunMs = performance.now()
      })
    } finally {
      workedMs += Math.max(0, performance.now() - begunMs)
    }
  }

  /**
   * @param work runs one piece, in the direction; resolves to true if it wants the next
   * @throws QueryTooLargeError if times are bounded, and too many records have the same one
   */
  async function walk(
    filter: Filter,
    direction: Direction,
    scope: Scope,
    signal: AbortSignal,
    work: (piece: Filter) => Promise<boolean>,
    boundsTimestamps = false,
  ): Promise<void> {
    const { unitNs } = sourceOf(scope)
    const size = filter.payload.length > 0 ? payloadChunks : recordChunks
    let left = filter
    let rows = Math.min(size.first, rowsMax)
    for (let isMore = true; isMore; ) {
      const piece = async (): Promise<boolean> => {
        workedMs = 0
        const [end] = await runPiece<{ time: bigint }>(selectPieceEnd(left, direction, scope, { rows, bytes: pieceBytesMax }), signal)
        if (end === undefined) {
          await work(left)
          return false
        }
        // Rows with the same time are in one piece, so that the next one begins after a time.
        const endNs = end.time * unitNs
        if (boundsTimestamps && !isOfDocuments(scope)) {
          const timestamp = { ...left, fromNs: endNs, toNs: endNs + unitNs }
          const [excess] = await runPiece(selectExcess(timestamp, scope, timestampMax), signal)
          if (excess !== undefined) throw tooMuchAtOnce(endNs)
        }
        const wantsMore = await work(direction === 'desc' ? { ...left, fromNs: endNs } : { ...left, toNs: endNs + unitNs })
        left = direction === 'desc' ? { ...left, toNs: endNs } : { ...left, fromNs: endNs + unitNs }
        const factor = Math.min(Math.max(pieceMs / workedMs, 0.25), 2)
        rows = Math.min(Math.max(Math.round(factor * rows), size.least), size.most, rowsMax)
        return wantsMore
      }
      isMore = await inTurn(piece, { signal })
    }
  }

  async function found<Item>(statement: Statement, signal: AbortSignal): Promise<Item[]> {
    const [row] = await runPiece<{ found: string }>(statement, signal)
    return JSON.parse(row!.found) as Item[]
  }

  return {
    async read(query, scope, signal) {
      const { direction, after } = query
      const readPart = async (ask: Run, part: PageQuery): Promise<Row[]> =>
        toRows(await ask(selectPage(part, scope), signal), scope, query.channel)
      const isShort = query.limit <= pageRowsMax.given && readAtMost(query, scope) <= Math.min(pageRowsMax.all, rowsMax)
      if (isShort && !isFilteredIn(scope, query)) return await readPart(run, query)
      const rows: Row[] = []
      let { offset } = query
      await walk(after === undefined ? query : notBefore(query, after, scope), direction, scope, signal, async piece => {
        const pieceQuery = { ...query, fromNs: piece.fromNs, toNs: piece.toNs }
        if (offset > 0) {
          const [counted] = await runPiece<{ total: bigint }>(selectCount(pieceQuery, scope, offset), signal)
          const passed = Number(counted!.total)
          if (passed <= offset) {
            offset -= passed
            return true
          }
        }
        rows.push(...(await readPart(runPiece, { ...pieceQuery, offset, limit: query.limit - rows.length })))
        offset = 0
        return rows.length < query.limit
      })
      return rows
    },

    async count(filter, scope, max, signal) {
      const countUpTo = async (ask: Run, one: Filter, most: number): Promise<number> =>
        Number((await ask<{ total: bigint }>(selectCount(one, scope, most), signal))[0]!.total)
      if (!isFilteredIn(scope, filter) && max <= Math.min(recordChunks.most, rowsMax)) return await countUpTo(run, filter, max)
      let total = 0
      await walk(filter, 'desc', scope, signal, async piece => {
        total += await countUpTo(runPiece, piece, max - total)
        return total <= max
      })
      return total
    },

    async latest(query, scope, signal) {
      const { direction } = query
      const series = mergeSeries(query, sourceOf(scope).unitNs)
      const add = async (piece: Filter): Promise<boolean> => {
        series.add(await found<SeriesColumns>(selectPieceSeries(piece, scope), signal))
        return true
      }
      await walk(query, 'desc', scope, signal, add, true)
      const keys = series.page()
      const rows: Row[] = []
      const atOnce = Math.min(lookedUpMax, rowsMax)
      for (let at = 0; at < keys.length; at += atOnce) {
        const statement = selectRows(query, direction, scope, keys.slice(at, at + atOnce))
        rows.push(...toRows(await inTurn(() => run(statement, signal), { signal }), scope, query.channel))
      }
      return { groups: rows, total: series.total() }
    },

    async aggregate(query, scope, signal) {
      const buckets = mergeBuckets(query)
      const add = async ({ fromNs, toNs }: Filter): Promise<boolean> => {
        const pieceQuery: AggregateQuery = { ...query, fromNs, toNs }
        buckets.add(await found<BucketColumns>(selectPieceBuckets(pieceQuery, scope, groupsMax), signal))
        return true
      }
      await walk(query, query.direction, scope, signal, add, true)
      return buckets.page()
    },

    async subtopics(filter, scope, { rowsMax: most, subtopicsMax }, signal) {
      const look = async (ask: Run, one: Filter, rows: number): Promise<SubtopicColumns[]> =>
        ask<SubtopicColumns>(selectSubtopics(one, scope, { rowsMax: rows, subtopicsMax }), signal)
      if (!isFilteredIn(scope, filter) && seriesOf(scope) === 1) return toSeen(await look(run, filter, most), most)
      const newest: SubtopicColumns[] = []
      let left = most
      await walk(filter, 'desc', scope, signal, async piece => {
        const seen = await look(runPiece, piece, left)
        newest.push(...seen)
        left -= Number(seen[0]?.rows ?? 0)
        return left > 0
      })
      // The newest of each subtopic comes first.
      const lastUs = new Map(newest.toReversed().map(({ subtopic, last_us: us }) => [subtopic, Number(us)]))
      return { lastUs, hasMore: left <= 0 }
    },
  }
}

/** How many series of a scope are read one by one; 1 if they are read together. */
function seriesOf(scope: Scope): number {
  return isOfDocuments(scope) ? 1 : (scope.series?.length ?? 1)
}

/** How many rows a page reads, if each of them is on it or skipped. */
function readAtMost({ offset, limit }: PageQuery, scope: Scope): number {
  return (offset + limit) * seriesOf(scope)
}

/** True if rows are read that the filter may leave out: of records also those of other publishers. */
function isFilteredIn(scope: Scope, filter: Filter): boolean {
  return isFiltered(filter) || (!isOfDocuments(scope) && scope.series === undefined && filter.publisher !== undefined)
}

function tooMuchAtOnce(timeNs: bigint): QueryTooLargeError {
  const { rows, bytes } = timestampMax
  const time = new Date(Number(timeNs / 1_000_000n)).toISOString()
  return new QueryTooLargeError(
    `at least ${rows} records, or records with ${bytes} bytes of names, have the same time, ${time}: narrow the query with publisher, from or to`,
  )
}

/** The filter of a query, without times before that of a key. */
function notBefore(query: PageQuery, { timeNs }: RowKey, scope: Scope): Filter {
  const { direction, fromNs, toNs } = query
  const endNs = timeNs + sourceOf(scope).unitNs
  if (direction === 'desc') return { ...query, toNs: toNs === undefined || endNs < toNs ? endNs : toNs }
  return { ...query, fromNs: fromNs === undefined || timeNs > fromNs ? timeNs : fromNs }
}

interface MergedBuckets {
  /** @param found the buckets of a piece, in their order; pieces come in the query's direction */
  add(found: readonly BucketColumns[]): void
  page(): Grouped<Bucket>
}

/** Merges the buckets of pieces. */
export function mergeBuckets({ channel, aggregation, direction, limit, offset }: AggregateQuery): MergedBuckets {
  const merged = new Map<string, BucketColumns>()
  const enter = openGroupLimit('buckets')
  const isOfLaterPiece = (aggregation === 'last') === (direction === 'asc')

  function valueOf(before: number, found: number): number {
    if (aggregation === 'min') return Math.min(before, found)
    if (aggregation === 'max') return Math.max(before, found)
    if (aggregation === 'first' || aggregation === 'last') return isOfLaterPiece ? found : before
    return before + found
  }

  function merge(before: BucketColumns, found: BucketColumns): BucketColumns {
    const count = Number(before.count) + Number(found.count)
    if (before.value !== undefined) return { ...before, count, value: valueOf(before.value, found.value!) }
    const sums = { ...before, count, small: before.small! + found.small!, large: before.large! + found.large! }
    if (aggregation === 'sum') return sums
    return { ...sums, min: Math.min(before.min!, found.min!), max: Math.max(before.max!, found.max!) }
  }

  return {
    add(found) {
      for (const bucket of found) {
        const { time_us: timeUs, publisher, subtopic, name, unit } = bucket
        const key = groupKey([Number(timeUs), publisher, subtopic, name, unit])
        const before = merged.get(key)
        if (before === undefined) enter(charactersOf([publisher, subtopic, name, unit ?? '']))
        merged.set(key, before === undefined ? bucket : merge(before, bucket))
      }
    },
    page() {
      const buckets = [...merged.values()].map(columns => toBucket(columns, channel, aggregation))
      // They are nearly sorted, which makes the sort fast.
      return { groups: buckets.toSorted(bucketOrder(direction)).slice(offset, offset + limit), total: buckets.length }
    },
  }
}

interface MergedSeries {
  /** @param found the series of a piece, newest first; pieces come newest first */
  add(found: readonly SeriesColumns[]): void
  /** The keys of the rows on the page. */
  page(): RowKey[]
  total(): number
}

/** @param unitNs unit of the times in `found`, in nanoseconds */
export function mergeSeries({ direction, after, offset, limit }: PageQuery, unitNs: bigint): MergedSeries {
  const newest = new Map<string, RowKey>()
  const enter = openGroupLimit('series')
  return {
    add(found) {
      for (const { series, time, position, index } of found) {
        const key = groupKey(series)
        if (newest.has(key)) continue
        enter(charactersOf(series))
        newest.set(key, { timeNs: BigInt(time) * unitNs, position: BigInt(position), index })
      }
    },
    page() {
      const keys = [...newest.values()]
      if (direction === 'asc') keys.reverse()
      const first = after === undefined ? 0 : keys.findIndex(key => isBehind(key, after, direction))
      return first < 0 ? [] : keys.slice(first + offset, first + offset + limit)
    },
    total: () => newest.size,
  }
}
