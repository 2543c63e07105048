// The bytes of a COPY while its buffer grows. What all sinks have in common stands in encoded-records.test.ts.

import { expect, test } from 'vitest'
import { batchOf, type TestMessage } from '../batches.ts'
import { copiedRows, encodeWithTexts } from './copied-rows.ts'

const hex = (text: string) => Buffer.from(text).toString('hex')
const tablesOf = (messages: TestMessage[]) =>
  encodeWithTexts(batchOf(messages[0]!.offset, messages.at(-1)!.offset + 1, messages), [127]).tables

test('rows of one message share its position, and the next message has its own', () => {
  const message = (offset: number, subtopic: string) => ({
    offset,
    subtopic,
    records: [
      { name: 'a', value: 1 },
      { name: 'b', value: 2 },
    ],
  })
  const rows = copiedRows(tablesOf([message(0, 'ü-one'), message(1, 'two')])[0]!.bytes)
  expect(rows.map(row => [row[0], row[1], row[2], row[4], row[11], row[13]])).toEqual([
    ['00000003', '7f00000000000000', '00000007', '00000000', hex('ü-one'), hex('a')],
    ['00000003', '7f00000000000000', '00000007', '00000001', hex('ü-one'), hex('b')],
    ['00000003', '7f00000000000001', '00000007', '00000000', hex('two'), hex('a')],
    ['00000003', '7f00000000000001', '00000007', '00000001', hex('two'), hex('b')],
  ])
})

test('texts of every length and alphabet, while the buffer grows', () => {
  const texts = ['', 'x', 'a'.repeat(64), 'a'.repeat(65), `${'a'.repeat(63)}é`, 'é'.repeat(64), '😀'.repeat(40_000), 'z'.repeat(300_000)]
  const records = texts.map(stringValue => ({ name: stringValue, unit: stringValue, stringValue }))
  const rows = copiedRows(tablesOf([{ offset: 0, records }])[0]!.bytes)
  expect(rows.map(row => [row[13], row[14], row[6]])).toEqual(texts.map(text => [hex(text), hex(text), hex(text)]))
})

test('documents of every size, while the buffer grows', () => {
  const texts = ['', 'x'.repeat(900), 'é'.repeat(400), '😀'.repeat(50_000), 'z'.repeat(300_000)]
  const rows = copiedRows(tablesOf([{ offset: 0, documents: texts.map(text => ({ format: 'f', payload: { text } })) }])[0]!.bytes)
  expect(rows.map(row => row[6])).toEqual(texts.map(text => `01${hex(JSON.stringify({ text }))}`))
})
