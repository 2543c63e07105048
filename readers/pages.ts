// A question answered by any store: what its reader gives, with the total and the way to the next page.

import { HttpError } from '../config/http/errors.ts'
import type { Cursors, Place, Total } from './cursor.ts'
import { isFiltered } from './matching.ts'
import type { Direction, PageQuery, Selection } from './query.ts'
import { type CountMode, canonicalQuestion, type Question } from './question.ts'
import { type Bucket, keyOf, QueryTooLargeError, type Reader, type Row } from './reader.ts'

export interface Answer<Item> {
  readonly items: readonly Item[]
  /** undefined: nobody asked. */
  readonly total: Total | undefined
  readonly nextCursor: string | undefined
  /** There are more behind these. */
  readonly hasMore: boolean
}

type AnsweringReader = Pick<Reader, 'read' | 'count' | 'latest' | 'aggregate'>

export interface PageParts {
  readonly reader: AnsweringReader
  readonly cursors: Cursors
  /** Totals are exact up to this. */
  readonly countMax: number
}

/** What answers a question that nothing can be in the answer of: as the store would, which is not asked. No cursor is of such a question. */
export function ofNothing({ cursors, countMax }: PageParts): PageParts {
  const reader: AnsweringReader = {
    read: async () => [],
    count: async () => 0,
    latest: async () => ({ groups: [], total: 0 }),
    aggregate: async () => ({ groups: [], total: 0 }),
  }
  return { reader, cursors: { ...cursors, decode: () => undefined }, countMax }
}

/** @throws HttpError `malformed_request` for a cursor that is none of this question */
export async function answerRows(
  { reader, cursors, countMax }: PageParts,
  question: Question & { kind: 'page' | 'latest' },
  signal: AbortSignal,
): Promise<Answer<Row>> {
  const { selection, direction, limit, offset, count, kind } = question
  const of = canonicalQuestion(question)
  const place = placeOf(cursors, question.cursor, of)
  // One more than the page, which says whether another follows.
  const query: PageQuery = { ...selection, direction, offset, limit: limit + 1, after: place?.key }
  // The whole channel is counted while its page is read: neither waits for the other, and if the page shows the end there was little to count.
  const isCountedAhead =
    kind === 'page' && count === 'bounded' && place === undefined && !isFiltered(selection) && selection.publisher === undefined
  const [grouped, read, ahead] = await Promise.all([
    kind === 'latest' ? reader.latest(query, signal) : undefined,
    kind === 'page' ? reader.read(query, signal) : [],
    isCountedAhead ? countRows(reader, selection, count, countMax, signal) : undefined,
  ])
  const found = grouped?.groups ?? read
  const items = found.slice(0, limit)
  const hasMore = found.length > limit
  const total =
    count === 'none'
      ? undefined
      : grouped === undefined
        ? ((count === 'bounded' ? place?.total : undefined) ?? (await totalOf()))
        : { total: grouped.total, isExact: true }
  const nextCursor = hasMore ? cursors.encode({ key: keyOf(items.at(-1)!), total }, of) : undefined
  return { items, total, nextCursor, hasMore }

  async function totalOf(): Promise<Total> {
    const seen = offset + items.length
    // A page that shows the end says how many there are, unless it lies beyond it or begins elsewhere.
    if (!hasMore && place === undefined && (items.length > 0 || offset === 0)) return { total: seen, isExact: true }
    const { total, isExact } = ahead ?? (await countRows(reader, selection, count, countMax, signal))
    // The page itself may show more: rows that came meanwhile, or lie beyond what is counted.
    const shown = place === undefined && items.length > 0 ? seen + (hasMore ? 1 : 0) : 0
    return { total: Math.max(total, shown), isExact }
  }
}

async function countRows(
  reader: Pick<Reader, 'count'>,
  selection: Selection,
  mode: CountMode,
  countMax: number,
  signal: AbortSignal,
): Promise<Total> {
  const max = mode === 'exact' ? Number.MAX_SAFE_INTEGER - 1 : countMax
  signal.throwIfAborted()
  try {
    const counted = await reader.count(selection, max, signal)
    return { total: Math.min(counted, max), isExact: counted <= max }
  } catch (error) {
    // The page is there: that its total costs too much is no reason to withhold it, where nobody insists on the total.
    if (mode === 'exact' || !(error instanceof QueryTooLargeError)) throw error
    return { total: 0, isExact: false }
  }
}

export async function answerBuckets(
  reader: Pick<Reader, 'aggregate'>,
  question: Question & { kind: 'aggregate' },
  signal: AbortSignal,
): Promise<Answer<Bucket>> {
  const { selection, direction, limit, offset, aggregation, intervalUs, count } = question
  const { groups, total } = await reader.aggregate({ ...selection, direction, limit, offset, aggregation, intervalUs }, signal)
  return {
    items: groups,
    total: count === 'none' ? undefined : { total, isExact: true },
    nextCursor: undefined,
    hasMore: offset + groups.length < total,
  }
}

/** So many rows of an export are asked of a store at once, fewer where they are large: about as many as make up these bytes. */
const exportRows = { first: 100, min: 10, max: 1000 }
const exportBytes = 1024 * 1024
/** A row without its texts. */
const rowBytes = 250

/**
 * Every row, a page under a page: memory for one, however many there are and however large they are.
 *
 * @throws HttpError `malformed_request` for a cursor that is none of this question
 */
export function exportPages(
  { reader, cursors }: Pick<PageParts, 'reader' | 'cursors'>,
  question: Question & { kind: 'export' },
  signal: AbortSignal,
): AsyncGenerator<readonly Row[]> {
  const place = placeOf(cursors, question.cursor, canonicalQuestion(question))
  return allPages(reader, question.selection, question.direction, question.offset, place, signal)
}

async function* allPages(
  reader: Pick<Reader, 'read'>,
  selection: Selection,
  direction: Direction,
  offset: number,
  place: Place | undefined,
  signal: AbortSignal,
): AsyncGenerator<readonly Row[]> {
  let after = place?.key
  let limit = exportRows.first
  for (;;) {
    const rows = await reader.read({ ...selection, direction, limit, offset: after === undefined ? offset : 0, after }, signal)
    if (rows.length > 0) yield rows
    if (rows.length < limit) return
    after = keyOf(rows.at(-1)!)
    const bytes = rows.reduce((sum, row) => sum + bytesOf(row), 0)
    limit = Math.max(exportRows.min, Math.min(exportRows.max, Math.floor((exportBytes * rows.length) / bytes)))
  }
}

function bytesOf(row: Row): number {
  return rowBytes + (row.kind === 'document' ? row.payloadText.length : (row.stringValue?.length ?? 0) + (row.dataValue?.length ?? 0))
}

/** Every row of a selection, newest first: what is made into groups where the store cannot. */
export async function* rowsOf(reader: Pick<Reader, 'read'>, selection: Selection, signal: AbortSignal): AsyncGenerator<Row> {
  for await (const rows of allPages(reader, selection, 'desc', 0, undefined, signal)) yield* rows
}

function placeOf(cursors: Cursors, cursor: string | undefined, of: string): Place | undefined {
  if (cursor === undefined) return undefined
  const place = cursors.decode(cursor, of)
  if (place === undefined) {
    const detail =
      'is no cursor of this query: give next_cursor as it was answered, with the same parameters, or leave it out to begin anew'
    throw new HttpError('malformed_request', undefined, { faults: [{ pointer: '/query/cursor', detail }] })
  }
  return place
}
