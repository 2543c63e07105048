// Where the rows lie that are looked for, found by one field; and those rows themselves, read with all fields.

import { cell, type Row as Line } from '../../sinks/influxdb/annotated-csv.ts'
import { nsOf } from '../../sinks/influxdb/flux.ts'
import { matcherOf } from '../matching.ts'
import type { Direction, Selection } from '../query.ts'
import { type Row, senmlFormat } from '../reader.ts'
import type { Asking } from './asking.ts'
import { everyPoint, type Search } from './finders.ts'
import { openPoints } from './points.ts'
import {
  nanosecondsOf,
  type RowRange,
  type SeriesTags,
  selectCount,
  selectFirst,
  selectOddTexts,
  selectPlaces,
  selectRows,
  selectSeries,
} from './select.ts'
import { microsecond, microsecondOf, type Span } from './span.ts'

/** Ranges of one question: a thousand take the server half a second to plan. */
const rangesMax = 100
/** Where no more points than this lie for one that was found, all are read: each that is read by itself costs as much as a hundred together. */
const passedMax = 50
const passedAnywayMax = 1_000
/** So many places are read together, where what lies between them may be read with them. */
const togetherMax = 1_000
/** What the points of one answer may weigh, in bytes, about: one that would weigh more is given up, and asked for in two parts. */
const weightMax = 16_000_000

export function microsecondOfLine(line: Line): number {
  return microsecondOf(nsOf(cell(line, '_time')!))
}

/** Empty where the series has none of that name: documents have neither name nor unit. */
export function tagsOfLine(line: Line): Required<SeriesTags> {
  const tag = (name: string): string => cell(line, name) ?? ''
  return { publisher: tag('publisher'), subtopic: tag('subtopic'), name: tag('name'), unit: tag('unit') }
}

/** The microsecond of the first point in the direction; undefined where there is none. */
export async function firstIn(
  asking: Asking,
  selection: Selection,
  search: Search,
  span: Span,
  direction: Direction,
): Promise<number | undefined> {
  const finder = search.mixesTypes ? everyPoint : search.finders[0]!
  for await (const lines of asking.query(selectFirst(asking.bucket, selection, finder, span, direction))) {
    for (const line of lines) return microsecondOfLine(line)
  }
  return undefined
}

/** The microseconds of the first points in the direction, in its order: `limit` of them, unless there are fewer. */
export async function placesIn(
  asking: Asking,
  selection: Selection,
  { finders }: Search,
  span: Span,
  { direction, limit }: { direction: Direction; limit: number },
): Promise<number[]> {
  const places: number[] = []
  for await (const lines of asking.query(selectPlaces(asking.bucket, selection, finders, span, { direction, limit }))) {
    for (const line of lines) places.push(microsecondOfLine(line))
  }
  places.sort(direction === 'desc' ? (one, other) => other - one : (one, other) => one - other)
  return places.slice(0, limit)
}

/** @returns how many points of the span have what is searched for */
export async function countIn(asking: Asking, selection: Selection, { finders }: Pick<Search, 'finders'>, span: Span): Promise<number> {
  let counted = 0
  for await (const lines of asking.query(selectCount(asking.bucket, selection, finders, span))) {
    for (const line of lines) counted += Number(cell(line, '_value'))
  }
  return counted
}

/**
 * The rows in these microseconds, in pieces and in no order.
 *
 * @param places in the order of their time, in either direction
 */
export async function* rowsAt(asking: Asking, selection: Selection, search: Search, places: readonly number[]): AsyncGenerator<Row[]> {
  if (places.length === 0) return
  if (search.comparesValue) yield* rowsAround(asking, selection, places, some => rangesOf(asking, selection, search, some))
  else yield* rowsIn(asking, selection, await stretchesOf(asking, selection, places))
}

/** The rows in these ranges, one for each place, and where little else lies between them what lies there, too. In pieces and in no order. */
export async function* rowsAround(
  asking: Asking,
  selection: Selection,
  places: readonly number[],
  rangesOfPlaces: (places: readonly number[]) => Promise<RowRange[]> | RowRange[],
): AsyncGenerator<Row[]> {
  for (const some of together(places)) {
    const all = await countIn(asking, selection, { finders: [everyPoint] }, extentOf(some))
    const ranges = areFew(some.length, all) ? await rangesOfPlaces(some) : undefined
    // In the last microsecond there may be more than were looked for.
    const isSparse = ranges !== undefined && areFew(ranges.length, all)
    yield* rowsIn(asking, selection, isSparse ? ranges : await stretchesOf(asking, selection, some))
  }
}

/** Parts of the places, none of which has a microsecond of another. */
function* together(places: readonly number[]): Generator<readonly number[]> {
  for (let start = 0, end = 0; start < places.length; start = end) {
    end = Math.min(start + togetherMax, places.length)
    while (end < places.length && places[end] === places[end - 1]) end++
    yield places.slice(start, end)
  }
}

/**
 * The rows of the selection in these ranges, of which none has a microsecond of another with other tags. In pieces, each of which memory may
 * hold, and in no order.
 */
export async function* rowsIn(asking: Asking, selection: Selection, ranges: readonly RowRange[]): AsyncGenerator<Row[]> {
  const isAskedFor = matcherOf(selection)
  const waiting: (readonly RowRange[])[] = []
  for (let at = 0; at < ranges.length; at += rangesMax) waiting.push(ranges.slice(at, at + rangesMax))
  waiting.reverse()
  for (let some = waiting.pop(); some !== undefined; some = waiting.pop()) {
    const read = await readRows(asking, selection, some)
    if ('parts' in read) waiting.push(...read.parts)
    else yield read.rows.filter(row => isAskedFor(row))
  }
}

/** The rows of the selection in these ranges; undefined where more points lie there than these. In no order. */
export async function rowsUnlessMore(
  asking: Asking,
  selection: Selection,
  ranges: readonly RowRange[],
  pointsMax: number,
): Promise<Row[] | undefined> {
  const isAskedFor = matcherOf(selection)
  const read = await readRows(asking, selection, ranges, pointsMax)
  return 'parts' in read ? undefined : read.rows.filter(row => isAskedFor(row))
}

/** All rows in the ranges, or, where they are more than may be held at once, parts of the ranges. */
async function readRows(
  asking: Asking,
  selection: Selection,
  ranges: readonly RowRange[],
  pointsMax: number = Infinity,
): Promise<{ rows: Row[] } | { parts: (readonly RowRange[])[] }> {
  const { startNs, stopNs } = nanosecondsOf(ranges[0]!)
  const isOneInstant = ranges.length === 1 && stopNs - startNs === 1n
  const points = openPoints(selection, { weightMax: isOneInstant ? Infinity : weightMax, pointsMax })
  const odd = await points.add(asking.query(selectRows(asking.bucket, selection, ranges)))
  if (odd.length > 0 && !points.isTooMuch) {
    const withOdd = odd.map(place => ranges[place]!)
    await points.add(asking.query(selectOddTexts(asking.bucket, selection, withOdd)))
  }
  if (!points.isTooMuch) return { rows: points.rows() }
  if (ranges.length > 1) {
    const half = Math.ceil(ranges.length / 2)
    return { parts: [ranges.slice(half), ranges.slice(0, half)] }
  }
  // Where the points are that came, so that neither part is empty.
  const middleNs = points.middleNs()
  const cutNs = middleNs > startNs ? middleNs : startNs + 1n
  return { parts: [[{ ...ranges[0]!, part: { startNs: cutNs, stopNs } }], [{ ...ranges[0]!, part: { startNs, stopNs: cutNs } }]] }
}

/** From the first of the places to the last. */
export function extentOf(places: readonly number[]): Span {
  const [one, other] = [places[0]!, places.at(-1)!]
  return { startUs: Math.min(one, other), endUs: Math.max(one, other) + 1 }
}

/** Whether what was found is little of what lies there. */
export function areFew(found: number, all: number): boolean {
  return all > found * passedMax + passedAnywayMax
}

/** Each point that was found by itself, in its series. */
async function rangesOf(asking: Asking, selection: Selection, search: Search, places: readonly number[]): Promise<RowRange[]> {
  const ranges = new Map<string, RowRange>()
  // One shard after another where the field may have other types.
  for (const span of search.mixesTypes ? await stretchesOf(asking, selection, places) : [extentOf(places)]) {
    for await (const lines of asking.query(selectSeries(asking.bucket, selection, search.finders, span))) {
      for (const line of lines) {
        const range = { ...microsecond(microsecondOfLine(line)), tags: tagsOfLine(line) }
        ranges.set(JSON.stringify(range), range)
      }
    }
  }
  return [...ranges.values()]
}

/** All places together, documents shard by shard. */
async function stretchesOf(asking: Asking, { format }: Selection, places: readonly number[]): Promise<Span[]> {
  if (format === senmlFormat) return [extentOf(places)]
  const shards = await asking.shards()
  const stretches: Span[] = []
  let shard: Span | undefined
  let first = 0
  for (const [at, us] of places.entries()) {
    if (shard !== undefined && us >= shard.startUs && us < shard.endUs) continue
    if (at > 0) stretches.push(extentOf(places.slice(first, at)))
    shard = shards.at(us)
    first = at
  }
  return [...stretches, extentOf(places.slice(first))]
}
