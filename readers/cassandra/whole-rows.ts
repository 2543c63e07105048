// Rows of which the keys are known, read whole: what others have sent is passed over by its keys, and what a page shows is read by them.

import type { Row } from '../reader.ts'
import type { Ask } from './asking.ts'
import { comparePlaces } from './key-range.ts'
import { placeOf, toRow } from './rows.ts'
import { placesTogether, selectRowsAt } from './select.ts'
import type { Source } from './source.ts'

export interface FoundKey {
  /** The partition that it was found in. */
  readonly day: number
  /** With its key; what else it has does not count. */
  readonly row: Row
}

const requestsTogetherMax = 8

/** The rows whole and in their order, without those that have been deleted since. */
export async function wholeRows(ask: Ask, source: Source, keys: readonly FoundKey[]): Promise<Row[]> {
  const found: Row[] = []
  for (let rest = inStatements(keys); rest.length > 0; rest = rest.slice(requestsTogetherMax)) {
    const together = rest.slice(0, requestsTogetherMax).map(some => rowsAt(ask, source, some))
    found.push(...(await Promise.all(together)).flat())
  }
  return found
}

/** Of one partition each. */
function inStatements(keys: readonly FoundKey[]): FoundKey[][] {
  const statements: FoundKey[][] = []
  for (const key of keys) {
    const last = statements.at(-1)
    if (last !== undefined && last.length < placesTogether && last[0]!.day === key.day) last.push(key)
    else statements.push([key])
  }
  return statements
}

async function rowsAt(ask: Ask, source: Source, keys: readonly FoundKey[]): Promise<Row[]> {
  const [{ day, row }] = keys as [FoundKey]
  const places = keys.map(key => placeOf(key.row))
  const { rows } = await ask(selectRowsAt(source, row.channel, day, places), { rows: placesTogether })
  const whole = rows.map(columns => toRow(columns, source, row.channel))
  // A table gives them newest first.
  return comparePlaces(places[0]!, places.at(-1)!) < 0 ? whole.toReversed() : whole
}
