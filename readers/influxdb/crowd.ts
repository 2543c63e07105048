// Records that crowd in one microsecond: of many thousands only those of a page are read, which their positions tell.

import { cell } from '../../sinks/influxdb/annotated-csv.ts'
import { nsOf } from '../../sinks/influxdb/flux.ts'
import type { PageQuery } from '../query.ts'
import { type Row, senmlFormat } from '../reader.ts'
import type { Asking } from './asking.ts'
import { everyPoint, type Finder, type Search } from './finders.ts'
import { areFew, countIn, extentOf, rowsAt, rowsIn, rowsUnlessMore, tagsOfLine } from './places.ts'
import { type RowRange, selectPositions, selectSeries } from './select.ts'
import { microsecond, microsecondOf } from './span.ts'

/** So many rows beside those of a page are read with them rather than told apart first. */
const crowdMin = 10_000

/**
 * The rows of a page, in pieces and in no order; where many more lie in its first or its last microsecond, at least those that come first in it.
 *
 * @param places in the order of the page
 * @param max so many rows of them are needed, at most
 */
export async function* rowsOfPage(
  asking: Asking,
  query: PageQuery,
  search: Search,
  places: readonly number[],
  max: number,
): AsyncGenerator<Row[]> {
  if (places.length === 0) return
  // The time of a document is finer than a microsecond, so that its position does not say where it comes.
  if (search.comparesValue || query.format !== senmlFormat) {
    yield* rowsAt(asking, query, search, places)
    return
  }
  const rows = await rowsUnlessMore(asking, query, [extentOf(places)], places.length + crowdMin)
  if (rows !== undefined) {
    yield rows
    return
  }
  const ends = new Set([places[0]!, places.at(-1)!])
  const inner = places.filter(us => !ends.has(us))
  if (inner.length > 0) yield* rowsIn(asking, query, [extentOf(inner)])
  for (const us of ends) yield* rowsIn(asking, query, await rangesIn(asking, query, us, max))
}

/** The rows of the microsecond that come first in it, or first behind a row, `max` of them, each by itself; all where those are not few. */
async function rangesIn(asking: Asking, query: PageQuery, us: number, max: number): Promise<RowRange[]> {
  const { direction, after } = query
  const [whole, isDescending] = [microsecond(us), direction === 'desc']
  if (!areFew(max, await countIn(asking, query, { finders: [everyPoint] }, whole))) return [whole]
  const behind =
    after !== undefined && microsecondOf(after.timeNs) === us ? [`r._value ${isDescending ? '<=' : '>='} ${after.position}`] : []
  // Of the message of the row behind which they lie there may be none left.
  const limit = max + 1
  const positions: bigint[] = []
  for await (const lines of asking.query(selectPositions(asking.bucket, query, positionIs(behind), whole, { direction, limit }))) {
    for (const line of lines) positions.push(BigInt(cell(line, '_value')!))
  }
  if (positions.length === 0) return []
  const [least, greatest] = isDescending ? [positions.at(-1), positions[0]] : [positions[0], positions.at(-1)]
  const between = positionIs([`r._value >= ${least}`, `r._value <= ${greatest}`])
  const ranges = new Map<string, RowRange>()
  for await (const lines of asking.query(selectSeries(asking.bucket, query, [between], whole))) {
    for (const line of lines) {
      const [startNs, tags] = [nsOf(cell(line, '_time')!), tagsOfLine(line)]
      ranges.set(JSON.stringify([String(startNs), tags]), { ...whole, tags, part: { startNs, stopNs: startNs + 1n } })
    }
  }
  return [...ranges.values()]
}

/** @param terms of ours alone: of numbers */
function positionIs(terms: readonly string[]): Finder {
  return terms.length === 0 ? everyPoint : { ...everyPoint, filter: ` |> filter(fn: (r) => ${terms.join(' and ')})` }
}
