// A page: where its rows lie is found first, window by window, by a field of each point; then they are read, whole microseconds of them, and put in order.

import type { PageQuery, RowKey, Selection } from '../query.ts'
import type { Row } from '../reader.ts'
import type { Asking } from './asking.ts'
import { type Search, searchOf } from './finders.ts'
import { isBehind, rowOrder } from './order.ts'
import type { Paces } from './paces.ts'
import { passOver } from './passing.ts'
import { firstIn, placesIn, rowsAt, rowsIn } from './places.ts'
import { behind, boundsOf, fromOn, microsecondOf, type Span } from './span.ts'
import { type Visit, type Walk, walk } from './walk.ts'

/** So many places are looked for at once where rows have to be looked at. */
const lookedAtMin = 100
const lookedAtMax = 10_000

/** The rows of a page, in order. */
export async function readPage(asking: Asking, query: PageQuery, paces: Paces): Promise<Row[]> {
  const search = searchOf(query)
  if (search.finders.length === 0) return []
  if (query.after !== undefined) return await pageBehind(asking, query, query.after, search, paces)
  const { limit, offset } = query
  const bounds = boundsOf(query)
  // The microsecond at the beginning in which `from` or `to` lies: only some of its documents belong to the page.
  const lead = query.direction === 'desc' ? bounds.behind : bounds.before
  const first = lead === undefined ? [] : (await rowsIn(asking, query, [lead])).sort(rowOrder(query.direction))
  const page = first.slice(offset, offset + limit)
  const [passed, missing] = [Math.max(0, offset - first.length), limit - page.length]
  if (missing === 0) return page
  const span = lead === undefined ? bounds.all : behind(bounds.all, lead.startUs, query.direction)
  if (!search.isExact) return [...page, ...(await findRows(asking, query, search, span, passed + missing)).slice(passed, passed + missing)]
  const { places, left } = await findPlaces(asking, query, search, span, { passed, limit: missing, paces })
  if (places.length <= left) return page
  // Those of one microsecond are in the order of their positions, which only the rows know.
  const begin = places.indexOf(places[left]!)
  const rows = (await rowsAt(asking, query, search, places.slice(begin, left + missing))).sort(rowOrder(query.direction))
  return [...page, ...rows.slice(left - begin, left - begin + missing)]
}

/** The rows behind one: of its own microsecond, which is read whole, those that come after it. */
async function pageBehind(asking: Asking, query: PageQuery, after: RowKey, search: Search, paces: Paces): Promise<Row[]> {
  const { direction, limit } = query
  const us = microsecondOf(after.timeNs)
  const isPage = (row: Row): boolean => isBehind(row, after, direction)
  const span = fromOn(boundsOf(query).all, us, direction)
  if (!search.isExact) return (await findRows(asking, query, search, span, limit, isPage)).slice(0, limit)
  const { places } = await findPlaces(asking, query, search, behind(span, us, direction), { passed: 0, limit, paces })
  const rows = await rowsAt(asking, query, search, [us, ...places])
  return rows.filter(isPage).sort(rowOrder(direction)).slice(0, limit)
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
  wanted: number,
  isPage: (row: Row) => boolean = () => true,
): Promise<readonly Row[]> {
  const rows: Row[] = []
  await eachMatching(asking, query, search, { span, direction: query.direction, wanted }, found => {
    const before = rows.length
    for (const row of found) if (isPage(row)) rows.push(row)
    return rows.length - before
  })
  return rows
}

/** Gives the rows that are asked for, in order, until as many as are wanted were taken. */
export async function eachMatching(
  asking: Asking,
  selection: Selection,
  search: Search,
  { span, direction, wanted }: Pick<Walk, 'span' | 'direction' | 'wanted'>,
  take: (rows: readonly Row[]) => number,
): Promise<void> {
  const begun = await walkOf(asking, selection, search, { span, direction, wanted, widthUs: undefined })
  await walk(begun, async (window, missing): Promise<Visit> => {
    const limit = Math.min(Math.max(2 * missing, lookedAtMin), lookedAtMax)
    const places = await placesIn(asking, selection, search, window, { direction, limit })
    const rows = (await rowsAt(asking, selection, search, places)).sort(rowOrder(direction))
    return { found: take(rows), seen: places.length, lastUs: places.length < limit ? undefined : places.at(-1)! }
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
