// Rows that are not stored yet have the bytes of stored ones.

import { expect, test } from 'vitest'
import { openRows } from '../../../readers/live/rows.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { documents, documentsAnswer, formats, records } from '../../conformance/reader/fixture.ts'

const messagesOf = (answer: string): string[] =>
  (JSON.parse(answer) as { messages: object[] }).messages.length === 0
    ? []
    : answer.slice(answer.indexOf('[') + 1, -2).split(/(?<=\}),(?=\{"Channel")/)

test('SenML: each value of the fixture of readers', () => {
  const batch = new RecordBatch()
  records.appendTo(batch)
  const rows = openRows()({ batch, partition: 0, offset: 0 })
  const own = rows.filter(({ row }) => row.channel === records.rows[0]!.channel)
  expect(own.every(({ format }) => format === 'messages')).toBe(true)
  expect(own.map(row => row.json()).toSorted()).toEqual(messagesOf(records.answer).toSorted())
})

test.each(formats)('JSON: each document of the format %s of the fixture', format => {
  const batch = new RecordBatch()
  documents.appendTo(batch)
  const channel = records.rows[0]!.channel
  const rows = openRows()({ batch, partition: 0, offset: 0 }).filter(row => row.format === format && row.row.channel === channel)
  expect(rows.map(row => row.json()).toSorted()).toEqual(messagesOf(documentsAnswer(format)).toSorted())
})

test('the rows of a message are made once for all who ask, and those of the next one anew', () => {
  const rowsOf = openRows()
  const batch = new RecordBatch()
  records.appendTo(batch)
  const message = { batch, partition: 0, offset: 0 }
  expect(rowsOf(message)).toBe(rowsOf(message))
  expect(rowsOf({ ...message })).not.toBe(rowsOf(message))
})
