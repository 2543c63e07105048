// Reads a page: first finds where its rows are, window by window, by one field of each point; then reads whole milliseconds of rows, and sorts them.

import { cell, type Row as Line, nsOf } from '../../sinks/influxdb/connection.ts'
import { matcherOf } from '../matching.ts'
import { type Direction, type Filter, isBehind, keyOf, type PageQuery, type Row, type RowKey } from '../reader.ts'
import type { Session } from './requests.ts'
import { firstRows, openPoints } from './rows.ts'
import {
  everyPoint,
  nanosecondsOf,
  type RowRange,
  type Search,
  type SeriesTags,
  searchOf,
  selectCount,
  selectFirst,
  selectOddTexts,
  selectRows,
  selectSeries,
  selectTimes,
} from './select.ts'
import { behind, boundsOf, fromOn, millisecond, millisecondOf, type Span, type Walk, walk, walkLooking } from './windows.ts'

/** The rows of a page, in order. */
export async function readPage(session: Session, query: PageQuery): Promise<Row[]> {
  const search = searchOf(query)
  if (search.finders.length === 0) return []
  if (query.after !== undefined) return await pageBehind(session, query, query.after, search)
  const { direction, limit, offset } = query
  const bounds = boundsOf(query)
  // The millisecond of `from` or `to` at which the page begins: only some of its rows belong to the page.
  const lead = direction === 'desc' ? bounds.behind : bounds.before
  const first = lead === undefined ? [] : await firstRows(rowsIn(session, query, [lead]), direction, offset + limit)
  const page = first.slice(offset, offset + limit)
  const [passed, missing] = [Math.max(0, offset - first.length), limit - page.length]
  if (missing === 0) return page
  const span = lead === undefined ? bounds.all : behind(bounds.all, lead.startMs, direction)
  if (!search.isExact) return [...page, ...(await findRows(session, query, search, span, { passed, limit: missing }))]
  const times = await findTimes(session, query, search, span, passed + missing)
  if (times.length <= passed) return page
  // The order within a millisecond is that of exact times and positions, which only the rows have.
  const begin = times.indexOf(times[passed]!)
  const needed = passed - begin + missing
  const pieces = rowsAt(session, query, search, times.slice(begin, passed + missing))
  return [...page, ...(await firstRows(pieces, direction, needed)).slice(passed - begin)]
}

/** The rows after a key. Reads the key's millisecond as a whole, and keeps the rows in it that come after the key. */
async function pageBehind(session: Session, query: PageQuery, after: RowKey, search: Search): Promise<Row[]> {
  const { direction, limit } = query
  const ms = millisecondOf(after.timeNs)
  const isPage = (row: Row): boolean => isBehind(keyOf(row), after, direction)
  const span = fromOn(boundsOf(query).all, ms, direction)
  if (!search.isExact) return await findRows(session, query, search, span, { passed: 0, limit }, isPage)
  const times = await findTimes(session, query, search, behind(span, ms, direction), limit)
  return await firstRows(rowsAt(session, query, search, [ms, ...times]), direction, limit, isPage)
}

/** The milliseconds of the first rows in the direction, one for each row. */
async function findTimes(session: Session, query: PageQuery, search: Search, span: Span, wanted: number): Promise<number[]> {
  const { direction, after } = query
  const begun = walkOf(session, query, search, { span, direction, wanted })
  const times: number[] = []
  await walk({ ...begun, beginsAtRows: after !== undefined }, async (window, missing) => {
    const found = await timesIn(session, query, search, window, { direction, limit: missing })
    for (const time of found) times.push(time)
    return { found: found.length }
  })
  session.densities.note(query, times)
  return times
}

/** For filters that the storage cannot decide: reads rows, part by part, and matches them here. */
async function findRows(
  session: Session,
  query: PageQuery,
  search: Search,
  span: Span,
  { passed, limit }: { passed: number; limit: number },
  isPage?: (row: Row) => boolean,
): Promise<Row[]> {
  const { direction } = query
  const page: Row[] = []
  let left = passed
  await eachMatching(session, query, search, { span, direction, wanted: passed + limit }, async (pieces, missing) => {
    const rows = await firstRows(pieces, direction, missing, isPage)
    for (const row of rows.slice(left)) page.push(row)
    left = Math.max(0, left - rows.length)
    return rows.length
  })
  return page
}

/**
 * Passes matching rows to `take` until enough were taken.
 *
 * @param take gets the rows of one stretch of time, in any order, and returns how many it took; the next stretch follows in the direction
 */
async function eachMatching(
  session: Session,
  filter: Filter,
  search: Search,
  { span, direction, wanted }: Pick<Walk, 'span' | 'direction' | 'wanted'>,
  take: (pieces: AsyncIterable<readonly Row[]>, missing: number) => Promise<number>,
): Promise<void> {
  const begun = walkOf(session, filter, search, { span, direction, wanted })
  await walkLooking(begun, async (window, limit, missing) => {
    const times = await timesIn(session, filter, search, window, { direction, limit })
    return { found: await take(rowsAt(session, filter, search, times), missing), times }
  })
}

function walkOf(
  session: Session,
  filter: Filter,
  search: Search,
  { span, direction, wanted }: Pick<Walk, 'span' | 'direction' | 'wanted'>,
): Walk {
  return {
    span,
    direction,
    wanted,
    widthMs: session.densities.widthMs(filter, wanted),
    beginsAtRows: false,
    first: rest => firstIn(session, filter, search, rest, direction),
  }
}

/** Counts from the newest row on, up to `max + 1`. */
export async function countRows(session: Session, filter: Filter, max: number): Promise<number> {
  const search = searchOf(filter)
  if (search.finders.length === 0) return 0
  const { whole, before, behind } = boundsOf(filter)
  const borders = [before, behind].filter(border => border !== undefined)
  let total = 0
  for await (const rows of rowsIn(session, filter, borders)) total += rows.length
  const wanted = max + 1 - total
  if (search.isExact) {
    await walk(walkOf(session, filter, search, { span: whole, direction: 'desc', wanted }), async window => {
      const found = await countIn(session, filter, search, window)
      total += found
      return { found }
    })
  } else {
    await eachMatching(session, filter, search, { span: whole, direction: 'desc', wanted }, async pieces => {
      let found = 0
      for await (const rows of pieces) found += rows.length
      total += found
      return found
    })
  }
  return Math.min(total, max + 1)
}

/** Ranges in one query: the server takes half a second to plan a thousand. */
export const rangesMax = 100
/** Up to this many points for each one that was found, all points are read: reading one by itself costs as much as reading a hundred together. */
const passedMax = 50
const passedAnywayMax = 1_000
/** Times that are read together, if the points between them may be read as well. */
const togetherMax = 1_000
/** Approximate bytes of the points in one answer. A larger answer is aborted, and requested in two parts. */
const weightMax = 16_000_000

/** The millisecond of a line's point. */
export function millisecondOfLine(line: Line): number {
  return millisecondOf(nsOf(cell(line, '_time')!))
}

/** Tags that the series does not have are empty: documents have neither name nor unit. */
export function tagsOfLine(line: Line): Required<SeriesTags> {
  const tag = (name: string): string => cell(line, name) ?? ''
  return { publisher: tag('publisher'), subtopic: tag('subtopic'), name: tag('name'), unit: tag('unit') }
}

/** The millisecond of the first point in the direction that may match; undefined if there is none. */
async function firstIn(
  session: Session,
  filter: Filter,
  { finders }: Search,
  span: Span,
  direction: Direction,
): Promise<number | undefined> {
  const times: number[] = []
  for await (const lines of session.query(selectFirst(session.bucket, filter, finders, span, direction))) {
    for (const line of lines) times.push(millisecondOfLine(line))
  }
  if (times.length === 0) return undefined
  return direction === 'desc' ? Math.max(...times) : Math.min(...times)
}

/** The milliseconds of the first `limit` points in the direction, in its order; fewer only if there are no more. */
async function timesIn(
  session: Session,
  filter: Filter,
  { finders }: Search,
  span: Span,
  { direction, limit }: { direction: Direction; limit: number },
): Promise<number[]> {
  const times: number[] = []
  for await (const lines of session.query(selectTimes(session.bucket, filter, finders, span, { direction, limit }))) {
    for (const line of lines) times.push(millisecondOfLine(line))
  }
  times.sort(direction === 'desc' ? (one, other) => other - one : (one, other) => one - other)
  return times.slice(0, limit)
}

/** @returns how many points of the span match the search */
async function countIn(session: Session, filter: Filter, { finders }: Pick<Search, 'finders'>, span: Span): Promise<number> {
  let counted = 0
  for await (const lines of session.query(selectCount(session.bucket, filter, finders, span))) {
    for (const line of lines) counted += Number(cell(line, '_value'))
  }
  return counted
}

/**
 * Returns the rows in these milliseconds, in pieces and in any order.
 *
 * @param times ordered, in either direction
 */
export async function* rowsAt(session: Session, filter: Filter, search: Search, times: readonly number[]): AsyncGenerator<Row[]> {
  if (times.length === 0) return
  if (search.comparesValue) yield* rowsAround(session, filter, times, some => rangesOf(session, filter, search, some))
  else yield* rowsIn(session, filter, [extentOf(times)])
}

/**
 * Returns the rows in these ranges, one for each time; if there is little else between them, also what is between them. In pieces and in any order.
 */
export async function* rowsAround(
  session: Session,
  filter: Filter,
  times: readonly number[],
  rangesOfTimes: (times: readonly number[]) => Promise<RowRange[]> | RowRange[],
): AsyncGenerator<Row[]> {
  for (const some of together(times)) {
    const all = await countIn(session, filter, { finders: [everyPoint] }, extentOf(some))
    const ranges = areFew(some.length, all) ? await rangesOfTimes(some) : undefined
    // The last millisecond may have more points than were found.
    const isSparse = ranges !== undefined && areFew(ranges.length, all)
    yield* rowsIn(session, filter, isSparse ? ranges : [extentOf(some)])
  }
}

/** Divides the times between milliseconds. */
function* together(times: readonly number[]): Generator<readonly number[]> {
  for (let start = 0, end = 0; start < times.length; start = end) {
    end = Math.min(start + togetherMax, times.length)
    while (end < times.length && times[end] === times[end - 1]) end++
    yield times.slice(start, end)
  }
}

/**
 * Returns the rows of the filter in these ranges, in pieces that fit into memory, and in any order. No millisecond may be in two ranges, unless
 * these have different tags.
 */
export async function* rowsIn(session: Session, filter: Filter, ranges: readonly RowRange[]): AsyncGenerator<Row[]> {
  const isAskedFor = matcherOf(filter)
  const waiting: (readonly RowRange[])[] = []
  for (let at = 0; at < ranges.length; at += rangesMax) waiting.push(ranges.slice(at, at + rangesMax))
  waiting.reverse()
  for (let some = waiting.pop(); some !== undefined; some = waiting.pop()) {
    const read = await readRows(session, filter, some)
    if ('halves' in read) waiting.push(...read.halves)
    else yield read.rows.filter(row => isAskedFor(row))
  }
}

/** Reads all rows in the ranges; if these are too many for one answer, returns parts of the ranges instead. */
async function readRows(
  session: Session,
  filter: Filter,
  ranges: readonly RowRange[],
): Promise<{ rows: Row[] } | { halves: (readonly RowRange[])[] }> {
  const { startNs, stopNs } = nanosecondsOf(ranges[0]!)
  const isOneTimestamp = ranges.length === 1 && stopNs - startNs === 1n
  const points = openPoints(filter, isOneTimestamp ? Infinity : weightMax)
  const odd = await points.add(session.query(selectRows(session.bucket, filter, ranges)))
  if (odd.length > 0 && !points.isTooMuch) {
    const withOdd = odd.map(index => ranges[index]!)
    await points.add(session.query(selectOddTexts(session.bucket, filter, withOdd)))
  }
  if (!points.isTooMuch) return { rows: points.rows() }
  if (ranges.length > 1) {
    const half = Math.ceil(ranges.length / 2)
    return { halves: [ranges.slice(half), ranges.slice(0, half)] }
  }
  // In the middle of the points that came, so that neither part is empty.
  const middleNs = points.middleNs()
  const splitNs = middleNs > startNs ? middleNs : startNs + 1n
  return { halves: [[{ ...ranges[0]!, part: { startNs: splitNs, stopNs } }], [{ ...ranges[0]!, part: { startNs, stopNs: splitNs } }]] }
}

/** From the first to the last of the times. */
export function extentOf(times: readonly number[]): Span {
  const [one, other] = [times[0]!, times.at(-1)!]
  return { startMs: Math.min(one, other), endMs: Math.max(one, other) + 1 }
}

/** True if what was found is a small part of all points. */
export function areFew(found: number, all: number): boolean {
  return all > found * passedMax + passedAnywayMax
}

/** One range for each point that was found, with the tags of its series. */
async function rangesOf(session: Session, filter: Filter, search: Search, times: readonly number[]): Promise<RowRange[]> {
  const ranges = new Map<string, RowRange>()
  for await (const lines of session.query(selectSeries(session.bucket, filter, search.finders, extentOf(times)))) {
    for (const line of lines) {
      const range = { ...millisecond(millisecondOfLine(line)), tags: tagsOfLine(line) }
      ranges.set(JSON.stringify(range), range)
    }
  }
  return [...ranges.values()]
}
