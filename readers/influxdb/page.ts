// A page: where its rows lie is found first, window by window, by a field of each point; then they are read, whole microseconds of them, and put in order.

import type { PageQuery, RowKey, Selection } from '../query.ts'
import type { Row } from '../reader.ts'
import type { Asking } from './asking.ts'
import { rowsOfPage } from './crowd.ts'
import { type Search, searchOf } from './finders.ts'
import { walkLooking } from './looking.ts'
import { firstRows, isBehind } from './order.ts'
import type { Paces } from './paces.ts'
import { passOver } from './passing.ts'
import { firstIn, placesIn, rowsAt, rowsIn } from './places.ts'
import { behind, boundsOf, fromOn, microsecondOf, type Span } from './span.ts'
import { type Visit, type Walk, walk } from './walk.ts'

/** The rows of a page, in order. */
export async function readPage(asking: Asking, query: PageQuery, paces: Paces): Promise<Row[]> {
  const search = searchOf(query)
  if (search.finders.length === 0) return []
  if (query.after !== undefined) return await pageBehind(asking, query, query.after, search, paces)
  const { direction, limit, offset } = query
  const bounds = boundsOf(query)
  // The microsecond at the beginning in which `from` or `to` lies: only some of its documents belong to the page.
  const lead = direction === 'desc' ? bounds.behind : bounds.before
  const first = lead === undefined ? [] : await firstRows(rowsIn(asking, query, [lead]), direction, offset + limit)
  const page = first.slice(offset, offset + limit)
  const [passed, missing] = [Math.max(0, offset - first.length), limit - page.length]
  if (missing === 0) return page
  const span = lead === undefined ? bounds.all : behind(bounds.all, lead.startUs, direction)
  if (!search.isExact) return [...page, ...(await findRows(asking, query, search, span, { passed, limit: missing }))]
  const { places, left } = await findPlaces(asking, query, search, span, { passed, limit: missing, paces })
  if (places.length <= left) return page
  // Those of one microsecond are in the order of their positions, which only the rows know.
  const begin = places.indexOf(places[left]!)
  const needed = left - begin + missing
  const pieces = rowsOfPage(asking, query, search, places.slice(begin, left + missing), needed)
  return [...page, ...(await firstRows(pieces, direction, needed)).slice(left - begin)]
}

/** The rows behind one: of its own microsecond, which is read whole, those that come after it. */
async function pageBehind(asking: Asking, query: PageQuery, after: RowKey, search: Search, paces: Paces): Promise<Row[]> {
  const { direction, limit } = query
  const us = microsecondOf(after.timeNs)
  const isPage = (row: Row): boolean => isBehind(row, after, direction)
  const span = fromOn(boundsOf(query).all, us, direction)
  if (!search.isExact) return await findRows(asking, query, search, span, { passed: 0, limit }, isPage)
  const { places } = await findPlaces(asking, query, search, behind(span, us, direction), { passed: 0, limit, paces })
  return await firstRows(rowsOfPage(asking, query, search, [us, ...places], limit), direction, limit, isPage)
}

interface FoundPlaces {
  /** Microseconds, one for each row. */
  readonly places: readonly number[]
  /** So many of them lie before the page. */
  readonly left: number
}

async function findPlaces(
  asking: Asking,
  query: PageQuery,
  search: Search,
  span: Span,
  { passed, limit, paces }: { passed: number; limit: number; paces: Paces },
): Promise<FoundPlaces> {
  const { direction, after } = query
  const begun = await walkOf(asking, query, search, { span, direction, wanted: limit, widthUs: paces.widthUs(query, limit) })
  const over = search.mixesTypes ? { rest: span, rows: 0 } : await passOver(asking, query, search, begun, passed)
  const places: number[] = []
  const left = passed - over.rows
  const begins = { span: over.rest, wanted: left + limit, beginsAtRows: after !== undefined }
  await walk({ ...begun, ...begins }, async (window, missing): Promise<Visit> => {
    const found = await placesIn(asking, query, search, window, { direction, limit: missing })
    for (const place of found) places.push(place)
    return { found: found.length }
  })
  paces.note(query, places)
  return { places, left }
}

/** Rows of which more is asked than the store can say: looked at, part after part. */
async function findRows(
  asking: Asking,
  query: PageQuery,
  search: Search,
  span: Span,
  { passed, limit }: { passed: number; limit: number },
  isPage?: (row: Row) => boolean,
): Promise<Row[]> {
  const { direction } = query
  const page: Row[] = []
  let left = passed
  await eachMatching(asking, query, search, { span, direction, wanted: passed + limit }, async (pieces, missing) => {
    const rows = await firstRows(pieces, direction, missing, isPage)
    for (const row of rows.slice(left)) page.push(row)
    left = Math.max(0, left - rows.length)
    return rows.length
  })
  return page
}

/**
 * Gives the rows that are asked for until as many as are wanted were taken.
 *
 * @param take takes the rows of one stretch, which are in no order, and says how many; those of the next stretch come behind them
 */
export async function eachMatching(
  asking: Asking,
  selection: Selection,
  search: Search,
  { span, direction, wanted }: Pick<Walk, 'span' | 'direction' | 'wanted'>,
  take: (pieces: AsyncIterable<readonly Row[]>, missing: number) => Promise<number>,
): Promise<void> {
  const begun = await walkOf(asking, selection, search, { span, direction, wanted, widthUs: undefined })
  await walkLooking(begun, async (window, limit, missing) => {
    const places = await placesIn(asking, selection, search, window, { direction, limit })
    return { found: await take(rowsAt(asking, selection, search, places), missing), places }
  })
}

/** @returns a walk that knows the shards, where a window must not reach over two of them */
export async function walkOf(
  asking: Asking,
  selection: Selection,
  search: Search,
  { span, direction, wanted, widthUs = firstWidthUs }: Pick<Walk, 'span' | 'direction' | 'wanted'> & { widthUs: number | undefined },
): Promise<Walk> {
  const shards = search.mixesTypes ? await asking.shards() : undefined
  return {
    span,
    direction,
    wanted,
    widthUs,
    beginsAtRows: false,
    ...(shards === undefined ? {} : { cell: us => shards.at(us) }),
    first: rest => firstIn(asking, selection, search, rest, direction),
  }
}

/** Where nothing is known of a channel: a busy one has a page in it, and any other is found by growing. */
const firstWidthUs = 10_000_000
