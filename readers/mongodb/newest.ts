// The page of the newest rows of each series: cut out of all of them by their keys, before more than the keys is read.

import type { PageQuery, RowKey } from '../query.ts'
import { keyOf, type Row } from '../reader.ts'

/**
 * The keys of the rows of a page, in its order.
 *
 * @param rows newest first
 */
export function pageOfKeys(rows: readonly Row[], { direction, after, offset, limit }: PageQuery): RowKey[] {
  const keys = rows.map(keyOf)
  if (direction === 'asc') keys.reverse()
  const sign = direction === 'desc' ? -1 : 1
  const behind = after === undefined ? keys : keys.filter(key => sign * compareKeys(key, after) > 0)
  return behind.slice(offset, offset + limit)
}

/** Rows in the order of their keys. One that was deleted since is left out. */
export function inOrderOf(keys: readonly RowKey[], rows: readonly Row[]): Row[] {
  const byPlace = new Map(rows.map(row => [placeOf(row), row]))
  return keys.map(key => byPlace.get(placeOf(key))).filter(row => row !== undefined)
}

function placeOf({ position, index }: Pick<RowKey, 'position' | 'index'>): string {
  return `${position} ${index}`
}

/** The older one first. */
function compareKeys(one: RowKey, other: RowKey): number {
  if (one.timeNs !== other.timeNs) return one.timeNs < other.timeNs ? -1 : 1
  if (one.position !== other.position) return one.position < other.position ? -1 : 1
  return one.index - other.index
}
