// The newest row of each series: its time is the storage's answer, and the row is read where a page shows it.

import type { PageQuery } from '../query.ts'
import { type Grouped, groupsMax, type Row, senmlFormat, timeNsOf, tooManyGroups } from '../reader.ts'
import type { Asking } from './asking.ts'
import type { Search } from './finders.ts'
import { isBehind, rowOrder } from './order.ts'
import { firstIn, microsecondOfLine, rowsAround, rowsIn, tagsOfLine } from './places.ts'
import { type RowRange, type SeriesTags, selectNewest } from './select.ts'
import { behind as behindOf, boundsOf, fromOn, isEmpty, microsecond, microsecondOf, type Span, within } from './span.ts'

interface Newest {
  us: number
  readonly key: string
  readonly tags: SeriesTags
}

/** So many series in one microsecond are read one by one; of more, all of the microsecond is. */
const singlyMax = 3

/** @param search exact: what is found by one field is what is asked for */
export async function newestRows(asking: Asking, query: PageQuery, search: Search): Promise<Grouped<Row>> {
  const series = await newestOfEach(asking, query, search)
  const { direction, limit, offset, after } = query
  const sign = direction === 'desc' ? -1 : 1
  const afterUs = after === undefined ? undefined : microsecondOf(after.timeNs)
  const ordered = [...series.values()]
    .filter(({ us }) => afterUs === undefined || sign * (us - afterUs) >= 0)
    .sort((one, other) => sign * (one.us - other.us))
  // Which of one microsecond comes first say only the rows: all series of the first one and of the last are read.
  const first = ordered.findIndex(({ us }) => us === ordered[offset]?.us)
  if (first < 0) return { groups: [], total: series.size }
  const doubtful = afterUs === undefined ? 0 : ordered.filter(({ us }) => us === afterUs).length
  const lastUs = ordered[Math.min(ordered.length, offset + limit + doubtful) - 1]!.us
  const shown = ordered.slice(first, ordered.findLastIndex(({ us }) => us === lastUs) + 1)
  const rows = (await rowsOfSeries(asking, query, shown)).filter(row => after === undefined || isBehind(row, after, direction))
  return { groups: rows.sort(rowOrder(direction)).slice(offset - first, offset - first + limit), total: series.size }
}

/** By the series' key. @throws QueryTooLargeError */
async function newestOfEach(asking: Asking, query: PageQuery, search: Search): Promise<Map<string, Newest>> {
  const series = new Map<string, Newest>()
  const note = (us: number, publisher: string, subtopic: string, name: string): void => {
    const key = keyOf(publisher, subtopic, name)
    const known = series.get(key)
    if (known !== undefined) {
      if (us > known.us) known.us = us
      return
    }
    if (series.size === groupsMax) throw tooManyGroups('series')
    series.set(key, { us, key, tags: query.format === senmlFormat ? { publisher, subtopic, name } : { publisher, subtopic } })
  }

  async function look(span: Span): Promise<void> {
    for await (const lines of asking.query(selectNewest(asking.bucket, query, search, span))) {
      for (const line of lines) {
        const { publisher, subtopic, name } = tagsOfLine(line)
        note(microsecondOfLine(line), publisher, subtopic, name)
      }
    }
  }

  const { whole, before, behind } = boundsOf(query)
  const borders = [before, behind].filter(border => border !== undefined)
  for await (const rows of rowsIn(asking, query, borders))
    for (const row of rows) note(microsecondOf(timeNsOf(row)), row.publisher, row.subtopic, row.kind === 'senml' ? row.name : '')
  if (search.mixesTypes) {
    const shards = await asking.shards()
    for (let rest = whole; !isEmpty(rest); ) {
      const us = await firstIn(asking, query, search, rest, 'desc')
      if (us === undefined) break
      const shard = within(fromOn(rest, us, 'desc'), shards.at(us))
      await look(shard)
      rest = behindOf(rest, shard.startUs, 'desc')
    }
  } else if (!isEmpty(whole)) await look(whole)
  return series
}

function keyOf(publisher: string, subtopic: string, name: string): string {
  return JSON.stringify([publisher, subtopic, name])
}

/** The newest row of each of these series, of which the microsecond is known. */
async function rowsOfSeries(asking: Asking, query: PageQuery, shown: readonly Newest[]): Promise<Row[]> {
  const series = Map.groupBy(shown, ({ us }) => us)
  const rangesOf = (places: readonly number[]): RowRange[] =>
    [...new Set(places)].flatMap(us => {
      const ofMicrosecond = series.get(us)!
      if (ofMicrosecond.length > singlyMax) return [microsecond(us)]
      return ofMicrosecond.map(({ tags }): RowRange => ({ ...microsecond(us), tags }))
    })
  const wanted = new Map(shown.map(({ key, us }) => [key, us]))
  const newest = new Map<string, Row>()
  const places = shown.map(({ us }) => us)
  const pieces = shown.length > singlyMax ? rowsAround(asking, query, places, rangesOf) : rowsIn(asking, query, rangesOf(places))
  const order = rowOrder('desc')
  for await (const rows of pieces) {
    for (const row of rows) {
      const key = keyOf(row.publisher, row.subtopic, row.kind === 'senml' ? row.name : '')
      const known = newest.get(key)
      if (wanted.get(key) === microsecondOf(timeNsOf(row)) && (known === undefined || order(row, known) < 0)) newest.set(key, row)
    }
  }
  return [...newest.values()]
}
