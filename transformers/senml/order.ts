// Sorts the rows of one pack by time, after the last one was appended.

import type { RecordColumns } from '../record-batch.ts'
import { Label } from './record.ts'

/** Up to this many rows an insertion sort is faster than the engine's sort in any order; for more, a hostile order would make it quadratic. Both are stable. */
const insertionRowsMax = 32

/** The permutation, and a copy of a column. They grow to the largest unsorted pack so far. */
let order = new Uint32Array(64)
let numbers = new Float64Array(64)
let contents: unknown[] = Array.from({ length: 64 })

/**
 * Sorts the rows from `firstRow` on by time; rows with the same time stay in the order received (RFC 8428 §4.6).
 *
 * @param labels the bits of all labels in the pack: a column whose labels are absent is the same in each row and is skipped
 */
export function sortByTime(records: RecordColumns, firstRow: number, labels: number): void {
  const count = records.length - firstRow
  if (count > order.length) {
    order = new Uint32Array(2 * count)
    numbers = new Float64Array(2 * count)
    contents = Array.from({ length: 2 * count })
  }
  findOrder(records.timeUs, firstRow, count)
  reorder(records.timeUs, firstRow, count)
  reorder(records.index, firstRow, count)
  reorder(records.number, firstRow, count)
  reorderContent(records.name, firstRow, count)
  reorderContent(records.unit, firstRow, count)
  const sums = (labels & (Label.s | Label.bs)) !== 0
  const otherKinds = (labels & (Label.vs | Label.vb | Label.vd)) !== 0
  if (sums) reorder(records.sum, firstRow, count)
  if (sums || otherKinds) reorder(records.valueKind, firstRow, count)
  if (otherKinds) reorderContent(records.content, firstRow, count)
  if ((labels & Label.ut) !== 0) reorder(records.updateTime, firstRow, count)
  // Keeps no reference to values of the pack.
  contents.fill(undefined, 0, count)
}

function reorder(column: Float64Array | Uint32Array | Uint8Array, firstRow: number, count: number): void {
  for (let row = 0; row < count; row++) numbers[row] = column[firstRow + row]!
  for (let row = 0; row < count; row++) column[firstRow + row] = numbers[order[row]!]!
}

function reorderContent(column: unknown[], firstRow: number, count: number): void {
  for (let row = 0; row < count; row++) contents[row] = column[firstRow + row]
  for (let row = 0; row < count; row++) column[firstRow + row] = contents[order[row]!]
}

function findOrder(timeUs: Float64Array, firstRow: number, count: number): void {
  for (let row = 0; row < count; row++) order[row] = row
  if (count > insertionRowsMax) {
    order.subarray(0, count).sort((a, b) => timeUs[firstRow + a]! - timeUs[firstRow + b]!)
    return
  }
  for (let row = 1; row < count; row++) {
    const time = timeUs[firstRow + row]!
    let place = row
    while (place > 0 && timeUs[firstRow + order[place - 1]!]! > time) {
      order[place] = order[place - 1]!
      place--
    }
    order[place] = row
  }
}
