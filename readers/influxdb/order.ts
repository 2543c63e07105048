// The total order of rows: by time, then by position and index.

import type { Direction, RowKey } from '../query.ts'
import { keyOf, type Row } from '../reader.ts'

export function rowOrder(direction: Direction): (one: Row, other: Row) => number {
  const sign = direction === 'desc' ? -1 : 1
  return (one, other) => {
    if (one.kind === 'senml' && other.kind === 'senml') {
      if (one.timeUs !== other.timeUs) return one.timeUs < other.timeUs ? -sign : sign
      if (one.position !== other.position) return one.position < other.position ? -sign : sign
      return sign * (one.index - other.index)
    }
    return sign * compare(keyOf(one), keyOf(other))
  }
}

/** Whether a row comes after the one with this key. */
export function isBehind(row: Row, key: RowKey, direction: Direction): boolean {
  const order = compare(keyOf(row), key)
  return direction === 'desc' ? order < 0 : order > 0
}

/** Beside the rows that are wanted, so many more are held before the last of them are let go. */
const spareRows = 10_000

/** The first rows in the order, `max` of them: memory for little more, however many there are. */
export async function firstRows(
  pieces: AsyncIterable<readonly Row[]>,
  direction: Direction,
  max: number,
  isWanted: (row: Row) => boolean = () => true,
): Promise<Row[]> {
  const order = rowOrder(direction)
  const rows: Row[] = []
  for await (const piece of pieces) {
    for (const row of piece) if (isWanted(row)) rows.push(row)
    if (rows.length > max + spareRows) rows.sort(order).length = max
  }
  return rows.sort(order).slice(0, max)
}

function compare(one: RowKey, other: RowKey): number {
  if (one.timeNs !== other.timeNs) return one.timeNs < other.timeNs ? -1 : 1
  if (one.position !== other.position) return one.position < other.position ? -1 : 1
  return one.index - other.index
}
