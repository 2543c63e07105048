// The rows of a find that are asked for: what the store lets through, looked at once more where it cannot compare exactly.

import { matcherOf } from '../matching.ts'
import type { Selection } from '../query.ts'
import { type Row, senmlFormat } from '../reader.ts'
import { foundBy, type Place } from './found.ts'
import { documentOf, recordOf } from './rows.ts'
import type { Find } from './select.ts'

/** In the order of the find; a batch of them in memory. */
export async function* matchedRows(place: Place, selection: Selection, find: Find): AsyncGenerator<Row> {
  const { channel, format } = selection
  const toRow = format === senmlFormat ? recordOf : documentOf
  const matches = isExact(selection) ? undefined : matcherOf(selection)
  for await (const batch of foundBy(place, find)) {
    for (const bytes of batch) {
      const row = toRow(bytes, channel)
      if (matches === undefined || matches(row)) yield row
    }
  }
}

/** As many rows as `count` behind the first `offset`; the store passes over those itself where it knows which they are. */
export async function matchedPage(place: Place, selection: Selection, find: Find, offset: number, count: number): Promise<Row[]> {
  const inStore = isExact(selection)
  const rows: Row[] = []
  let passed = inStore ? offset : 0
  for await (const row of matchedRows(place, selection, inStore ? { ...find, skip: offset, limit: count } : find)) {
    if (passed < offset) passed++
    else if (rows.push(row) === count) break
  }
  return rows
}

/** Counted in this process, up to `max`. */
export async function matchedCount(place: Place, selection: Selection, find: Find, max: number): Promise<number> {
  const rows = matchedRows(place, selection, find)
  let count = 0
  while (count < max && !(await rows.next()).done) count++
  await rows.return(undefined)
  return count
}

/** What the newest of each series is found by: rows without what may be long. */
export async function* seriesRows(place: Place, selection: Selection, find: Find): AsyncGenerator<Row> {
  for await (const row of matchedRows(place, selection, find)) yield row.kind === 'document' ? { ...row, payloadText: '' } : row
}

/** Whether the store compares everything exactly: all but payloads. */
export function isExact({ payload }: Selection): boolean {
  return payload.length === 0
}
