// Rows that are not stored yet have the bytes of stored ones.

import { expect, test } from 'vitest'
import { oncePerMessage } from '../../../pipeline/live/messages.ts'
import { emptyMessage } from '../../../pipeline/source.ts'
import { type LiveRow, rowsOf as rowsOfMessage } from '../../../readers/live/rows.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { documents, documentsAnswer, formats, records } from '../../conformance/reader/fixture.ts'

const messagesOf = (answer: string): string[] =>
  (JSON.parse(answer) as { messages: object[] }).messages.length === 0
    ? []
    : answer.slice(answer.indexOf('[') + 1, -2).split(/(?<=\}),(?=\{"Channel")/)

function rowsOf(batch: RecordBatch): LiveRow[] {
  const rows = rowsOfMessage({ batch, raw: emptyMessage(), partition: 0, offset: 0, isRetained: false, made: [] })
  return Array.from({ length: batch.rowCount }, (_, at) => rows.at(at)!)
}

test("SenML: each value of the readers' fixture", () => {
  const batch = new RecordBatch()
  records.appendTo(batch)
  const own = rowsOf(batch).filter(({ row }) => row.channel === records.rows[0]!.channel)
  expect(own.every(({ format }) => format === 'messages')).toBe(true)
  expect(own.map(row => row.json()).toSorted()).toEqual(messagesOf(records.answer).toSorted())
})

test.each(formats)("JSON: each document of the format %s of the readers' fixture", format => {
  const batch = new RecordBatch()
  documents.appendTo(batch)
  const channel = records.rows[0]!.channel
  const rows = rowsOf(batch).filter(row => row.format === format && row.row.channel === channel)
  expect(rows.map(row => row.json()).toSorted()).toEqual(messagesOf(documentsAnswer(format)).toSorted())
})

test('the rows of a message are made once for all followers, also while others need those of another one', () => {
  const kept = oncePerMessage(rowsOfMessage)
  const batch = new RecordBatch()
  records.appendTo(batch)
  const [message, other] = [
    { batch, raw: emptyMessage(), partition: 0, offset: 0, isRetained: false, made: [] },
    { batch, raw: emptyMessage(), partition: 0, offset: 1, isRetained: false, made: [] },
  ]
  const row = kept(message).at(0)
  expect(kept(other).at(0)).not.toBe(row)
  expect(kept(message).at(0)).toBe(row)
  expect(kept(message).at(batch.rowCount)).toBeUndefined()
})
