// A batch grows with its rows, and keeps all of them.

import { expect, test } from 'vitest'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

const rows = [0, 1, 2, 3, 4]

test('every column grows beyond its first capacity', () => {
  const batch = new RecordBatch(1)
  for (const row of rows) {
    const origin = { at: logPartition(0, row), offset: row, channel: `c${row}`, subtopic: 's', publisher: 'p', protocol: 'http' }
    batch.beginMessage(origin)
    batch.appendRecord(row, `n${row}`, undefined, row, ValueKind.number, row, undefined, row, row)
    batch.endMessage()
    batch.beginMessage(origin)
    batch.appendDocument(row, 'f', row, row, { row })
    batch.endMessage()
  }
  for (const [columns, length] of [
    [batch.messages, 2 * rows.length],
    [batch.records, rows.length],
    [batch.documents, rows.length],
  ] as const) {
    expect(columns.length).toBe(length)
    // A column that does not grow drops values beyond its end.
    const short = Object.entries(columns).filter(([, column]) => ArrayBuffer.isView(column) && (column as Uint8Array).length < length)
    expect(short.map(([name]) => name)).toEqual([])
  }
  const { index, timeUs, number, sum, updateTime } = batch.records
  for (const column of [index, timeUs, number, sum, updateTime]) expect([...column.subarray(0, rows.length)]).toEqual(rows)
})

test('a batch that is cleared holds no text of its rows, in no column', () => {
  const batch = new RecordBatch(2)
  batch.beginMessage({ at: logPartition(0, 0), offset: 0, channel: 'held', subtopic: 'held', publisher: 'held', protocol: 'held' })
  batch.appendRecord(0, 'n', undefined, 0, ValueKind.none, Number.NaN, undefined, 1, Number.NaN)
  batch.appendDocument(0, 'held', 0, 0, {})
  const columns = [batch.messages, batch.records, batch.documents].flatMap(columns => Object.entries(columns))
  const texts = columns.filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1]))
  for (const [, column] of texts) column[0] = 'held'
  batch.clear()
  expect(texts.filter(([, column]) => column.includes('held')).map(([name]) => name)).toEqual([])
})

test('rows of several formats in one message are an error of its transformer', () => {
  const batch = new RecordBatch(1)
  const begin = () =>
    batch.beginMessage({ at: logPartition(0, 0), offset: 0, channel: 'c', subtopic: 's', publisher: 'p', protocol: 'http' })
  begin()
  batch.appendDocument(0, 'engine', 0, 0, {})
  expect(() => batch.appendDocument(1, 'gearbox', 0, 0, {})).toThrow(RangeError)
  batch.takeBack()
  batch.appendDocument(1, 'gearbox', 0, 0, {})
  batch.appendRecord(0, 'n', undefined, 0, ValueKind.none, Number.NaN, undefined, 1, Number.NaN)
  expect(() => batch.endMessage()).toThrow(RangeError)
  batch.takeBack()
  batch.appendDocument(2, 'engine', 0, 0, {})
  batch.endMessage()
})
