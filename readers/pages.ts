// A question answered by any store: what its reader gives, with the total and the way to the next page.

import { HttpError } from '../config/http/errors.ts'
import type { Cursors, Place, Total } from './cursor.ts'
import { isFiltered } from './matching.ts'
import { gather, type Pace, pageBytesMax, partsOf, rowParts } from './parts.ts'
import type { PageQuery } from './query.ts'
import { canonicalQuestion, type Question } from './question.ts'
import { type Bucket, keyOf, QueryTooLargeError, type Reader, type Row } from './reader.ts'
import { startCounting } from './total.ts'

export interface Answer<Item> {
  readonly items: readonly Item[]
  /** undefined: nobody asked. */
  readonly total: Total | undefined
  /** Seals the way to the next page, which takes as long as to print thirty records; undefined where there is none. */
  readonly nextCursor: (() => string) | undefined
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

/**
 * As many rows as are asked for, or fewer where they are large (`pageBytesMax`): then, too, `hasMore` and `nextCursor` say where it goes on.
 *
 * @throws HttpError `malformed_request` for a cursor that is none of this question
 */
export async function answerRows(
  { reader, cursors, countMax }: PageParts,
  question: Question & { kind: 'page' | 'latest' },
  signal: AbortSignal,
): Promise<Answer<Row>> {
  const { selection, direction, limit, offset, count, kind } = question
  // For a cursor that was given and for the next one, if there is either.
  let canonical: string | undefined
  const of = (): string => (canonical ??= canonicalQuestion(question))
  const place = placeOf(cursors, question.cursor, of)
  // One more than the page, which says whether another follows.
  const query: PageQuery = { ...selection, direction, offset, limit: limit + 1, after: place?.key }
  // The whole channel is counted while its page is read: neither waits for the other, and if the page shows the end there was little to count.
  const isCountedAhead =
    kind === 'page' && count === 'bounded' && place === undefined && !isFiltered(selection) && selection.publisher === undefined
  const page = kind === 'latest' ? latestPage(reader, query, limit, signal) : rowPage(reader, query, limit, signal)
  const counting = isCountedAhead ? startCounting(reader, selection, count, countMax, signal) : undefined
  try {
    const [{ items, hasMore, series }, ahead] = await Promise.all([page, counting?.total])
    const total = count === 'none' ? undefined : (series ?? (await totalOf(items.length, hasMore, ahead)))
    const nextCursor = hasMore ? () => cursors.encode({ key: keyOf(items.at(-1)!), total }, of()) : undefined
    return { items, total, nextCursor, hasMore }
  } catch (error) {
    counting?.stop()
    throw error
  }

  async function totalOf(shownHere: number, hasMore: boolean, ahead: Total | undefined): Promise<Total> {
    if (count === 'bounded' && place?.total !== undefined) return place.total
    const seen = offset + shownHere
    // A page that shows the end says how many there are, unless it lies beyond it or begins elsewhere.
    if (!hasMore && place === undefined && (shownHere > 0 || offset === 0)) return { total: seen, isExact: true }
    const { total, isExact } = ahead ?? (await startCounting(reader, selection, count, countMax, signal).total)
    // The page itself may show more: rows that came meanwhile, or lie beyond what is counted.
    const shown = place === undefined && shownHere > 0 ? seen + (hasMore ? 1 : 0) : 0
    return { total: Math.max(total, shown), isExact }
  }
}

interface Page extends Pick<Answer<Row>, 'items' | 'hasMore'> {
  /** How many series there are, where the store knows it with the page. */
  readonly series?: Total | undefined
}

async function rowPage(reader: Pick<Reader, 'read'>, query: PageQuery, limit: number, signal: AbortSignal): Promise<Page> {
  return await gather(rowParts(reader, query, signal), limit)
}

/** The store looks at all series for each part, so these are few: a page of a hundred is one, and one of a thousand three. */
const latestPace: Pace = { first: 128, growth: 4, most: Number.POSITIVE_INFINITY, bytes: pageBytesMax }

async function latestPage(reader: Pick<Reader, 'latest'>, query: PageQuery, limit: number, signal: AbortSignal): Promise<Page> {
  let series: Total | undefined
  const parts = partsOf(query, latestPace, async part => {
    const { groups, total } = await reader.latest(part, signal)
    series ??= { total, isExact: true }
    return groups
  })
  return { ...(await gather(parts, limit)), series }
}

export async function answerBuckets(
  reader: Pick<Reader, 'aggregate'>,
  question: Question & { kind: 'aggregate' },
  signal: AbortSignal,
): Promise<Answer<Bucket>> {
  const { selection, direction, limit, offset, aggregation, intervalUs, count } = question
  const { groups, total } = await reader.aggregate({ ...selection, direction, limit, offset, aggregation, intervalUs }, signal)
  // Who pages by offset goes on by the limit, and would pass over what a shorter page leaves out.
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

/** Of a bucket's texts. */
function bucketBytes({ name, unit }: Bucket): number {
  return name.length + (unit?.length ?? 0)
}

/**
 * Every row, a part under a part.
 *
 * @throws HttpError `malformed_request` for a cursor that is none of this question
 */
export function exportPages(
  { reader, cursors }: Pick<PageParts, 'reader' | 'cursors'>,
  question: Question & { kind: 'export' },
  signal: AbortSignal,
): AsyncGenerator<readonly Row[]> {
  const { selection, direction, offset, cursor } = question
  const after = placeOf(cursors, cursor, () => canonicalQuestion(question))?.key
  return rowParts(reader, { ...selection, direction, offset, after, limit: Number.POSITIVE_INFINITY }, signal)
}

function placeOf(cursors: Cursors, cursor: string | undefined, of: () => string): Place | undefined {
  if (cursor === undefined) return undefined
  const place = cursors.decode(cursor, of())
  if (place === undefined) {
    const detail =
      'is no cursor of this query: give next_cursor as it was answered, with the same parameters, or leave it out to begin anew'
    throw new HttpError('malformed_request', undefined, { faults: [{ pointer: '/query/cursor', detail }] })
  }
  return place
}
