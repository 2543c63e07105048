// Every column of a pack is sorted, also one that is new.

import { expect, test } from 'vitest'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { sortByTime } from '../../../transformers/senml/order.ts'

const everyLabel = -1

test.each([2, 5, 100])('%i rows are sorted in every column', count => {
  const { records } = new RecordBatch(count)
  const columns = Object.entries(records).filter(([name]) => name !== 'length' && name !== 'message') as [string, (number | string)[]][]
  for (const [, column] of columns) {
    for (let row = 0; row < count; row++) column[row] = ArrayBuffer.isView(column) ? count - row : String(count - row)
  }
  records.length = count
  sortByTime(records, 0, everyLabel)
  const sorted = Array.from({ length: count }, (_, row) => row + 1)
  for (const [name, column] of columns) expect(Array.from(column.slice(0, count), Number), name).toEqual(sorted)
})
