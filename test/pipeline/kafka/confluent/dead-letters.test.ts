// Dead letters of framed messages are the unchanged messages: the frame is kept.

import { expect, test } from 'vitest'
import { encodeFrame } from '../../../../pipeline/kafka/confluent/encode.ts'
import { batches, type PendingBatch } from '../../../../pipeline/writer/batch.ts'
import { deadLettersOf } from '../../../../pipeline/writer/dead-letters.ts'
import { openDecoder } from '../../../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../../../pipeline/writer/subject-filter.ts'
import { numbers, pack, text } from '../../writer/numbers.ts'
import { defaults } from '../../writer/parts.ts'
import { framedChunk, ourId } from './framed-messages.ts'

test('key, value and headers are unchanged, whether the frame or its content could not be decoded', async () => {
  const values = [
    encodeFrame(pack(1), ourId),
    Buffer.from('no frame'),
    encodeFrame(text('no pack'), ourId),
    encodeFrame({ ...pack(2), createdUs: 0 }, ourId),
  ]
  const headers = [
    ['trace', 'x'],
    ['publisher', 'of the sender'],
  ] as const
  const chunk = framedChunk(values.map((value, at) => ({ key: `key ${at}`, value, headers })))
  const decoder = openDecoder({ transformer: numbers, subscribed: subjectFilter(['channels.>']), message: defaults.message })
  const pending: PendingBatch[] = []
  async function* chunks(): AsyncGenerator<typeof chunk> {
    yield chunk
  }
  for await (const one of batches(chunks(), decoder, defaults.batch)) pending.push(one)

  const deadLetters = [...deadLettersOf(pending[0]!, pending[0]!.rejections, 'decode')]
  expect(deadLetters.map(({ offset, rejection }) => [offset, rejection.rule])).toEqual([
    [1, 'confluent-frame'],
    [2, 'numbers'],
    [3, 'time-range'],
  ])
  for (const { offset, message } of deadLetters) {
    expect(Buffer.from(message.payload)).toEqual(values[offset])
    expect(Buffer.from(message.key!).toString()).toBe(`key ${offset}`)
    expect(message.headers).toEqual(headers.map(([key, value]) => ({ key, value })))
  }
})
