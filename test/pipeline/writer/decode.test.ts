// The pipeline's own checks of a message, before it reaches a sink.

import { expect, test } from 'vitest'
import { storedIdLengthMax } from '../../../control-plane/client.ts'
import { noKey, type RawMessage } from '../../../pipeline/source.ts'
import { openDecoder } from '../../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../../pipeline/writer/subject-filter.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { Outcome, RecordBatch } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { outgoing } from '../message.ts'
import { numbers } from './numbers.ts'
import { defaults } from './parts.ts'

const nowSeconds = 1_700_000_000
const days = 86_400

function decode(fields: Partial<RawMessage>, transformer: Transformer = numbers, subjects = ['channels.>']) {
  const batch = new RecordBatch()
  const decoder = openDecoder({
    transformer,
    subscribed: subjectFilter(subjects),
    message: defaults.message,
    clock: () => nowSeconds * 1000,
  })
  const message: RawMessage = { ...outgoing({ createdUs: nowSeconds * 1e6 }), offset: 5, fault: undefined, ...fields }
  const rejection = decoder.decode(message, logPartition(0, 0), batch)
  return { rule: rejection?.rule, record: rejection?.record, outcome: batch.messages.outcome[0], rows: batch.rowCount }
}
const stored = { rule: undefined, record: undefined, outcome: Outcome.stored, rows: 1 }
const dead = (rule: string, record?: number) => ({ rule, record, outcome: Outcome.deadLettered, rows: 0 })

test('a valid message is stored, an empty one is empty', () => {
  expect(decode({})).toEqual(stored)
  expect(decode({ payload: new TextEncoder().encode('[]') })).toEqual({ ...stored, outcome: Outcome.empty, rows: 0 })
})

test('a message of no subscribed subject is filtered without being decoded', () => {
  expect(decode({ payload: new TextEncoder().encode('nonsense') }, numbers, ['channels.other.>'])).toEqual({
    ...stored,
    outcome: Outcome.filtered,
    rows: 0,
  })
})

test('a message without a key cannot be filtered by subject, and is dead-lettered', () => {
  expect(decode({ fault: noKey, channel: '' }, numbers, ['channels.other.>'])).toEqual(dead('no-key'))
})

test('a message that the transformer leaves to another writer is filtered, whatever is wrong with it', () => {
  const transformer: Transformer = {
    ...numbers,
    takes: (payload, { contentType }) => contentType !== 'text/plain' && payload.length < 1000,
  }
  const filtered = { ...stored, outcome: Outcome.filtered, rows: 0 }
  expect(decode({}, transformer)).toEqual(stored)
  expect(decode({ contentType: 'text/plain', payload: new TextEncoder().encode('nonsense') }, transformer)).toEqual(filtered)
  expect(decode({ contentType: 'text/plain', fault: noKey, channel: '' }, transformer)).toEqual(filtered)
  expect(decode({ payload: new Uint8Array(256 * 1024 + 1) }, transformer)).toEqual(filtered)
  expect(decode({ fault: noKey, channel: '' }, transformer)).toEqual(dead('no-key'))
})

test('a payload of the largest size is accepted, one byte more is not', () => {
  const payload = new Uint8Array(256 * 1024).fill(0x20)
  payload.set(new TextEncoder().encode('[1]'))
  expect(decode({ payload })).toEqual(stored)
  expect(decode({ payload: new Uint8Array(256 * 1024 + 1) })).toEqual(dead('payload-size'))
})

test('a NUL or a lone surrogate in any part of the envelope is dead-lettered; other Unicode is fine', () => {
  for (const part of ['channel', 'subtopic', 'publisher', 'protocol'] as const) {
    expect(decode({ [part]: 'a\0b' })).toEqual(dead('text-characters'))
    expect(decode({ [part]: 'a\ud800b' })).toEqual(dead('text-characters'))
    expect(decode({ [part]: '温度\u{1F321}' })).toEqual(stored)
  }
})

test.each([
  ['channel', storedIdLengthMax],
  ['publisher', storedIdLengthMax],
  ['subtopic', storedIdLengthMax],
  ['protocol', 64],
] as const)('a %s of %i bytes is accepted, as readers accept it, and one byte more is not', (part, bytesMax) => {
  const euros = '€'.repeat(Math.floor(bytesMax / 3))
  const longest = euros + 'x'.repeat(bytesMax - Buffer.byteLength(euros))
  expect(decode({ [part]: longest })).toEqual(stored)
  expect(decode({ [part]: `${longest}x` })).toEqual(dead('identifier-length'))
  expect(decode({ [part]: 'x'.repeat(bytesMax) })).toEqual(stored)
  expect(decode({ [part]: 'x'.repeat(700_000) })).toEqual(dead('identifier-length'))
})

test('a document with the format of SenML records is dead-lettered, whichever transformer created it, and reaches no sink', () => {
  const careless: Transformer = { ...numbers, decode: (_payload, _origin, batch) => batch.appendDocument(0, 'messages', 0, 0, {}) }
  expect(decode({}, careless)).toEqual(dead('reserved-format'))
})

test('created must lie between 2^28 s and 366 days from now', () => {
  expect(decode({ createdUs: 2 ** 28 * 1e6 })).toEqual(stored)
  expect(decode({ createdUs: 2 ** 28 * 1e6 - 1 })).toEqual(dead('time-range'))
  expect(decode({ createdUs: (nowSeconds + 366 * days) * 1e6 })).toEqual(stored)
  expect(decode({ createdUs: (nowSeconds + 366 * days) * 1e6 + 1 })).toEqual(dead('time-range'))
  expect(decode({ createdUs: Number.NaN })).toEqual(dead('time-range'))
})
