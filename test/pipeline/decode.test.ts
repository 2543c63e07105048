// What the pipeline itself asks of a message before a sink sees it.

import { expect, test } from 'vitest'
import { openDecoder } from '../../pipeline/decode.ts'
import { noKey, type RawMessage } from '../../pipeline/source.ts'
import { subjectFilter } from '../../pipeline/subject-filter.ts'
import { Outcome, RecordBatch } from '../../transformers/record-batch.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { outgoing } from './message.ts'
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
  const rejection = decoder.decode(message, 0, batch)
  return { rule: rejection?.rule, record: rejection?.record, outcome: batch.messages.outcome[0], rows: batch.rowCount }
}
const stored = { rule: undefined, record: undefined, outcome: Outcome.stored, rows: 1 }
const dead = (rule: string, record?: number) => ({ rule, record, outcome: Outcome.deadLettered, rows: 0 })

test('a good message is stored, an empty one is empty', () => {
  expect(decode({})).toEqual(stored)
  expect(decode({ payload: new TextEncoder().encode('[]') })).toEqual({ ...stored, outcome: Outcome.empty, rows: 0 })
})

test('a message of no subscribed subject is filtered, without a look at it', () => {
  expect(decode({ payload: new TextEncoder().encode('nonsense') }, numbers, ['channels.other.>'])).toEqual({
    ...stored,
    outcome: Outcome.filtered,
    rows: 0,
  })
})

test('a message without a key has no subject to filter by, and is dead-lettered', () => {
  expect(decode({ fault: noKey, channel: '' }, numbers, ['channels.other.>'])).toEqual(dead('no-key'))
})

test('a payload of the largest size passes, one byte more does not', () => {
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
  ['subtopic', 2048],
  ['protocol', 64],
] as const)('a %s of %i bytes passes, one byte more does not: each row would repeat it', (part, bytesMax) => {
  const euros = '€'.repeat(Math.floor(bytesMax / 3))
  const longest = euros + 'x'.repeat(bytesMax - Buffer.byteLength(euros))
  expect(decode({ [part]: longest })).toEqual(stored)
  expect(decode({ [part]: `${longest}x` })).toEqual(dead('identifier-length'))
  expect(decode({ [part]: 'x'.repeat(bytesMax) })).toEqual(stored)
  expect(decode({ [part]: 'x'.repeat(700_000) })).toEqual(dead('identifier-length'))
})

test('a document of the format of SenML records is dead-lettered, whichever transformer made it: no sink is given one', () => {
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
