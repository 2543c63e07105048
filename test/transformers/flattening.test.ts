// Decoded documents after flattening: which are dropped, what is kept together, and what is refused.

import { expect, test } from 'vitest'
import { flattening } from '../../transformers/flattening.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openTransformer } from '../../transformers/select.ts'
import { envelope, origin } from './senml/rows.ts'

const transformer = flattening(openTransformer({ format: 'auto', contentType: 'application/senml+json', timeFields: [] }))

function decode(batch: RecordBatch, text: string, contentType = 'application/json'): void {
  batch.beginMessage(origin)
  transformer.decode(new TextEncoder().encode(text), { ...envelope, contentType }, batch)
  batch.endMessage()
}

test('documents are flat, numbers are doubles, and objects have no prototype', () => {
  const batch = new RecordBatch()
  decode(batch, '{"d":{"tmp":1,"on":true},"list":[1,null],"id":8659456789564231564,"none":null,"__proto__":{"x":"y"}}')
  expect(Object.entries(batch.documents.payload[0]!)).toEqual([
    ['d/tmp', 1],
    ['d/on', true],
    ['list', '[1,null]'],
    ['id', Number(8659456789564231564n)],
    ['__proto__/x', 'y'],
  ])
})

test('documents without content are dropped, and the others keep their ordinals', () => {
  const batch = new RecordBatch()
  decode(batch, '{"before":1}')
  decode(batch, '[{"a":1},{"none":null,"deep":{"empty":{}}},{"b":{"c":2}}]')
  const { documents } = batch
  expect(documents.length).toBe(3)
  expect([...documents.index.subarray(0, 3)]).toEqual([0, 0, 2])
  expect([...documents.message.subarray(0, 3)]).toEqual([0, 1, 1])
  expect(documents.payload.slice(0, 3).map(payload => ({ ...payload }))).toEqual([{ before: 1 }, { a: 1 }, { 'b/c': 2 }])
})

test('a message without a field is empty', () => {
  const batch = new RecordBatch()
  decode(batch, '[{},{"a":null}]')
  expect([batch.rowCount, batch.messages.outcome[0]]).toEqual([0, 1])
})

test.each([
  ['[{"a":1},{"a/b":1}]', { rule: 'flatten-key', record: 1 }],
  ['{"channel":1}', { rule: 'flatten-key', record: 0 }],
])('a document that cannot be flattened is refused with its ordinal: %s', (text, fault) => {
  expect(() => decode(new RecordBatch(), text)).toThrow(expect.objectContaining(fault))
})

test('SenML records are unchanged', () => {
  const batch = new RecordBatch()
  decode(batch, '[{"n":"a","v":1}]', 'application/senml+json')
  expect([batch.records.length, batch.records.name[0]]).toEqual([1, 'a'])
})
