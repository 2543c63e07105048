// Reads pages of rows from any store chunk by chunk, with the total and the cursor of the next page. Those of several channels are merged.

import { HttpError } from '../http/errors.ts'
import { countAll, mergeBuckets, mergeRows } from './channels/merge.ts'
import type { Cursors, Keyset, Total } from './cursor.ts'
import { aggregateRows, numbersOf, openGroupLimit } from './groups.ts'
import { isFiltered } from './matching.ts'
import {
  type AggregateQuery,
  type Bucket,
  type Filter,
  type Grouped,
  keyOf,
  type PageQuery,
  QueryTooLargeError,
  type Reader,
  type Row,
  senmlFormat,
} from './reader.ts'
import { canonicalRequest, type ReadRequest } from './request.ts'

/** A page ends before its texts exceed this, so that its memory is bounded however large rows are. */
export const pageBytesMax = 16 * 1024 * 1024
/** A chunk has as many rows, however large they are. */
const rowsMin = 10

/** A page of rows or buckets. */
export interface Answer<Item> {
  readonly items: readonly Item[]
  /** undefined if not requested. */
  readonly total: Total | undefined
  /** undefined if there is no next page, or it is requested by offset. */
  readonly nextCursor: string | undefined
  /** True if there are more after these. */
  readonly hasMore: boolean
}

type AnsweringReader = Pick<Reader, 'read' | 'count' | 'latest' | 'aggregate'>

/** The components for pages. */
export interface PageParts {
  readonly reader: AnsweringReader
  readonly cursors: Cursors
  /** Totals are exact up to this. */
  readonly countMax: number
}

/** For a request that no row can match: answers like the store, without a query. No cursor is valid for such a request. */
export function emptyParts({ cursors, countMax }: Omit<PageParts, 'reader'>): PageParts {
  const reader: AnsweringReader = {
    read: async () => [],
    count: async () => 0,
    latest: async () => ({ groups: [], total: 0 }),
    aggregate: async () => ({ groups: [], total: 0 }),
  }
  return { reader, cursors: { ...cursors, decode: () => undefined }, countMax }
}

/**
 * As many rows as requested, or fewer if they are large (`pageBytesMax`); `hasMore` and `nextCursor` are then set as well.
 *
 * @throws HttpError `malformed_request` for a cursor of another request
 */
export async function answerRows(
  { reader, cursors, countMax }: PageParts,
  request: ReadRequest & { kind: 'page' | 'latest' },
  signal: AbortSignal,
): Promise<Answer<Row>> {
  const { channels, filter, direction, limit, offset, count, kind } = request
  // Computed only if there is a given or a next cursor.
  let canonical: string | undefined
  const of = (): string => (canonical ??= canonicalRequest(request))
  const keyset = keysetOf(cursors, request.cursor, of)
  // One more row than the page, which tells whether another page follows.
  const query: PageQuery = { ...filter, direction, offset, limit: limit + 1, after: keyset?.key }
  // A whole channel is counted in parallel with reading its page; if the page includes the end, there was little to count.
  const isCountedAhead =
    kind === 'page' && count === 'bounded' && keyset === undefined && !isFiltered(filter) && filter.publisher === undefined
  const page: Promise<Page> =
    kind === 'latest' ? latestPage(reader, channels, query, limit, signal) : gather(rowsOfChannels(reader, channels, query, signal), limit)
  const counting = isCountedAhead ? startCounting(reader, request, countMax, signal) : undefined
  try {
    const [{ items, hasMore, series }, ahead] = await Promise.all([page, counting?.total])
    const total = count === 'none' ? undefined : (series ?? (await totalOf(items.length, hasMore, ahead)))
    const nextCursor = hasMore ? cursors.encode({ key: keyOf(items.at(-1)!), total }, of()) : undefined
    return { items, total, nextCursor, hasMore }
  } catch (error) {
    counting?.stop()
    throw error
  }

  async function totalOf(shownHere: number, hasMore: boolean, ahead: Total | undefined): Promise<Total> {
    if (count === 'bounded' && keyset?.total !== undefined) return keyset.total
    const seen = offset + shownHere
    // A page that includes the end gives the total, unless it is beyond the end or starts at a cursor.
    if (!hasMore && keyset === undefined && (shownHere > 0 || offset === 0)) return { total: seen, isExact: true }
    const { total, isExact } = ahead ?? (await startCounting(reader, request, countMax, signal).total)
    // The page itself may show more: new rows, or rows beyond the limit of the count.
    const shown = keyset === undefined && shownHere > 0 ? seen + (hasMore ? 1 : 0) : 0
    return { total: Math.max(total, shown), isExact }
  }
}

interface Page extends Pick<Answer<Row>, 'items' | 'hasMore'> {
  /** The number of series, if the store returns it with the page. */
  readonly series?: Total | undefined
}

/** The store reads all series for each chunk, so there are few chunks: one for a page of a hundred, three for a thousand. */
const latestChunks: ChunkSize = { first: 128, growth: 4, most: Number.POSITIVE_INFINITY, bytes: pageBytesMax, least: rowsMin }

async function latestPage(
  reader: Pick<Reader, 'latest'>,
  channels: readonly string[],
  query: PageQuery,
  limit: number,
  signal: AbortSignal,
): Promise<Page> {
  /** By channel, of which each is asked before the first row is returned. */
  const series = new Map<string, number>()
  const chunks = chunksOfChannels(channels, query, latestChunks, async part => {
    const { groups, total } = await reader.latest(part, signal)
    if (!series.has(part.channel)) series.set(part.channel, total)
    return groups
  })
  const page = await gather(chunks, limit)
  return { ...page, series: { total: [...series.values()].reduce((sum, total) => sum + total, 0), isExact: true } }
}

/**
 * A page of buckets, which are paged by offset.
 *
 * @throws QueryTooLargeError if the names of the buckets are too long for one page
 */
export async function answerBuckets(
  reader: Pick<Reader, 'read' | 'aggregate'>,
  request: ReadRequest & { kind: 'aggregate' },
  signal: AbortSignal,
): Promise<Answer<Bucket>> {
  const { channels, filter, direction, limit, offset, aggregation, intervalUs, field, count } = request
  // Several channels are read at once, so one limit is for the groups of all.
  const enter = openGroupLimit('buckets')
  const aggregate = (query: AggregateQuery): Promise<Grouped<Bucket>> =>
    field === undefined ? reader.aggregate(query, signal) : aggregateRows(numbersOf(rowsOf(reader, query, signal), field), query, enter)
  const query: AggregateQuery = { ...filter, direction, limit, offset, aggregation, intervalUs }
  const { groups, total } = await mergeBuckets(channels, query, aggregate)
  // With paging by offset the client advances by the limit, and would skip the rest of a shortened page.
  if (groups.reduce((sum, group) => sum + bucketBytes(group), 0) > pageBytesMax) {
    throw new QueryTooLargeError(`the names of these buckets have more than ${pageBytesMax} bytes: give a smaller limit`)
  }
  return {
    items: groups,
    total: count === 'none' ? undefined : { total, isExact: true },
    nextCursor: undefined,
    hasMore: offset + groups.length < total,
  }
}

/** Size of a bucket's texts. */
function bucketBytes({ name, unit }: Bucket): number {
  return name.length + (unit?.length ?? 0)
}

/**
 * Every row, chunk by chunk.
 *
 * @throws HttpError `malformed_request` for a cursor of another request
 */
export function exportPages(
  { reader, cursors }: Pick<PageParts, 'reader' | 'cursors'>,
  request: ReadRequest & { kind: 'export' },
  signal: AbortSignal,
): AsyncGenerator<readonly Row[]> {
  const { channels, filter, direction, offset, cursor } = request
  const after = keysetOf(cursors, cursor, () => canonicalRequest(request))?.key
  return rowsOfChannels(reader, channels, { ...filter, direction, offset, after, limit: Number.POSITIVE_INFINITY }, signal)
}

function keysetOf(cursors: Cursors, cursor: string | undefined, of: () => string): Keyset | undefined {
  if (cursor === undefined) return undefined
  const keyset = cursors.decode(cursor, of())
  if (keyset === undefined) {
    const detail = 'is not a cursor of this query: start again without it, or send next_cursor as it was returned, with the same parameters'
    throw new HttpError('malformed_request', undefined, { faults: [{ pointer: '/query/cursor', detail }] })
  }
  return keyset
}

/** How many rows one store query reads. The size of rows is known only after reading them. */
export interface ChunkSize {
  readonly first: number
  /** A chunk has at most this many times the rows of the previous one, because a few small rows say little about the next thousand. */
  readonly growth: number
  readonly most: number
  /** Target bytes of a chunk, estimated from the rows of the previous one. */
  readonly bytes: number
  /** A chunk has as many rows, however large they are. */
  readonly least: number
}

/**
 * Records are usually small, and payloads have at most 256 KiB. A page of a hundred records is one chunk. Later chunks have
 * about a megabyte; if large rows follow many small ones, at most 1,000 records or 500 documents of 256 KiB.
 */
const recordChunks: ChunkSize = { first: 128, growth: 2, most: 1000, bytes: 1024 * 1024, least: rowsMin }
const documentChunks: ChunkSize = { first: 32, growth: 2, most: 500, bytes: 1024 * 1024, least: rowsMin }

/**
 * Up to `limit` rows, chunk by chunk: each starts after the previous one. Only one chunk is in memory.
 *
 * @param read returns fewer than `limit` rows only if there are no more
 */
export async function* chunksOf(
  query: PageQuery,
  size: ChunkSize,
  read: (query: PageQuery) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  let { after, limit: left } = query
  let limit = Math.min(size.first, left)
  for (;;) {
    const rows = await read({ ...query, limit, offset: after === undefined ? query.offset : 0, after })
    if (rows.length > 0) yield rows
    left -= rows.length
    if (rows.length < limit || left <= 0) return
    after = keyOf(rows.at(-1)!)
    const fitting = Math.floor((size.bytes * rows.length) / rows.reduce((sum, row) => sum + bytesOf(row), 0))
    limit = Math.min(left, size.most, size.growth * limit, Math.max(size.least, fitting))
  }
}

/** The rows of a channel in order, at most `query.limit`. */
export function rowChunks(reader: Pick<Reader, 'read'>, query: PageQuery, signal: AbortSignal): AsyncGenerator<readonly Row[]> {
  return rowsOfChannels(reader, [query.channel], query, signal)
}

function rowsOfChannels(
  reader: Pick<Reader, 'read'>,
  channels: readonly string[],
  query: PageQuery,
  signal: AbortSignal,
): AsyncGenerator<readonly Row[]> {
  const size = query.format === senmlFormat ? recordChunks : documentChunks
  return chunksOfChannels(channels, query, size, chunk => reader.read(chunk, signal))
}

/**
 * The channels that may have more rows share two chunks equally, since some have more of a page than others. Those that are read again and again, such as
 * one with many rows among others with few, also share what is left of two chunks with all rows in memory. They grow faster, because they begin smaller.
 */
const chunksShared = 2
const sharedGrowth = 8

function chunksOfChannels(
  channels: readonly string[],
  query: PageQuery,
  size: ChunkSize,
  read: (query: PageQuery) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  if (channels.length === 1) return chunksOf(query, size, read)
  let channelsLeft = channels.length
  let busy: readonly string[] = []
  let heldBytes = 0
  function share(channel: string, amount: number): number {
    const spare = busy.includes(channel) ? (chunksShared - heldBytes / size.bytes) / busy.length : 0
    return Math.ceil(amount * Math.min(1, Math.max(chunksShared / channelsLeft, spare)))
  }
  function open(channel: string, onLast: () => void): AsyncGenerator<readonly Row[]> {
    const shared: ChunkSize = {
      first: share(channel, size.first),
      growth: sharedGrowth,
      get most() {
        return share(channel, size.most)
      },
      get bytes() {
        return share(channel, size.bytes)
      },
      get least() {
        return share(channel, size.least)
      },
    }
    return chunksOf({ ...query, channel, offset: 0, limit: query.offset + query.limit }, shared, async chunk => {
      const rows = await read(chunk)
      if (rows.length < chunk.limit) {
        channelsLeft--
        onLast()
      }
      return rows
    })
  }
  return mergeRows(channels, query, open, (channelsRead, held) => {
    busy = channelsRead
    // Only busy channels share what is left.
    if (busy.length > 0) heldBytes = held.reduce((sum, { rows }) => rows.reduce((bytes, row) => bytes + bytesOf(row), sum), 0)
  })
}

/** Every row that matches a filter, newest first, for aggregations that the store cannot do. */
export async function* rowsOf(reader: Pick<Reader, 'read'>, filter: Filter, signal: AbortSignal): AsyncGenerator<Row> {
  const query: PageQuery = { ...filter, direction: 'desc', limit: Number.POSITIVE_INFINITY, offset: 0, after: undefined }
  for await (const rows of rowChunks(reader, query, signal)) yield* rows
}

/** The rows of a page: up to `limit` and `pageBytesMax`, but at least one if there is any. */
export async function gather(
  chunks: AsyncGenerator<readonly Row[]>,
  limit: number,
): Promise<{ readonly items: readonly Row[]; readonly hasMore: boolean }> {
  const items: Row[] = []
  let bytes = 0
  for await (const rows of chunks) {
    for (const row of rows) {
      bytes += bytesOf(row)
      if (items.length === limit || (bytes > pageBytesMax && items.length > 0)) return { items, hasMore: true }
      items.push(row)
    }
  }
  return { items, hasMore: false }
}

/** Size to serialize before other requests get a turn: 25 ms of documents, or nearly a thousand ordinary records. */
const sliceBytes = 256 * 1024

/** The rows in slices of about 256 KiB; usually there is one. */
export function slicesOf(rows: readonly Row[]): readonly (readonly Row[])[] {
  const slices: (readonly Row[])[] = []
  let start = 0
  let bytes = 0
  for (let nth = 0; nth < rows.length; nth++) {
    const more = bytesOf(rows[nth]!)
    if (bytes + more > sliceBytes && nth > start) {
      slices.push(rows.slice(start, nth))
      start = nth
      bytes = 0
    }
    bytes += more
  }
  slices.push(start === 0 ? rows : rows.slice(start))
  return slices
}

/** Size of a row without its texts. */
const rowBytes = 250

/** Approximate serialized size: the characters of its texts, which usually take one byte each. */
export function bytesOf(row: Row): number {
  if (row.kind === 'document') return rowBytes + row.payloadText.length
  return rowBytes + row.name.length + (row.stringValue?.length ?? 0) + (row.dataValue?.length ?? 0)
}

/** How long a page waits for a total that was not explicitly requested. */
const boundedMsMax = 1000

/** A running count. */
export interface Counting {
  readonly total: Promise<Total>
  /** Stops counting. */
  stop(): void
}

/**
 * `exact` counts to the end or throws. Otherwise it counts up to `countMax` and for at most a second; if that takes longer or
 * costs too much, the result is a lower bound of 0, which the rows of the page raise.
 */
function startCounting(
  reader: Pick<Reader, 'count'>,
  { channels, filter, count: mode }: Pick<ReadRequest, 'channels' | 'filter' | 'count'>,
  countMax: number,
  signal: AbortSignal,
): Counting {
  const controller = new AbortController()
  const stop = (): void => controller.abort(signal.reason)

  async function count(): Promise<Total> {
    signal.throwIfAborted()
    signal.addEventListener('abort', stop, { once: true })
    const timer = mode === 'exact' ? undefined : setTimeout(stop, boundedMsMax)
    const max = mode === 'exact' ? Number.MAX_SAFE_INTEGER - 1 : countMax
    try {
      const countOne = (channel: string, left: number): Promise<number> => reader.count({ ...filter, channel }, left, controller.signal)
      const counted = await countAll(channels, max, countOne)
      return { total: Math.min(counted, max), isExact: counted <= max }
    } catch (error) {
      signal.throwIfAborted()
      // Without `count=exact` the page is returned even if counting is too expensive.
      if (mode === 'exact' || !(controller.signal.aborted || error instanceof QueryTooLargeError)) throw error
      return { total: 0, isExact: false }
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
    }
  }

  return { total: count(), stop }
}
