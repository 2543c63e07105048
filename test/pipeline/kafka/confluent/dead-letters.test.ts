// Dead letters of framed messages are the messages untouched: a frame stays a frame.

import { expect, test } from 'vitest'
import { batches, type PendingBatch } from '../../../../pipeline/batch.ts'
import { deadLettersOf } from '../../../../pipeline/dead-letters.ts'
import { openDecoder } from '../../../../pipeline/decode.ts'
import { encodeFrame } from '../../../../pipeline/kafka/confluent/encode.ts'
import { subjectFilter } from '../../../../pipeline/subject-filter.ts'
import { numbers, pack, text } from '../../numbers.ts'
import { defaults } from '../../parts.ts'
import { framedRun, ourId } from './framed-messages.ts'

test('whether the frame could not be read or what was inside, key, value and headers are as they were', async () => {
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
  const run = framedRun(values.map((value, at) => ({ key: `key ${at}`, value, headers })))
  const decoder = openDecoder({ transformer: numbers, subscribed: subjectFilter(['channels.>']), message: defaults.message })
  const pending: PendingBatch[] = []
  async function* runs(): AsyncGenerator<typeof run> {
    yield run
  }
  for await (const one of batches(runs(), decoder, defaults.batch)) pending.push(one)

  const letters = [...deadLettersOf(pending[0]!, pending[0]!.rejections, 'decode')]
  expect(letters.map(({ offset, rejection }) => [offset, rejection.rule])).toEqual([
    [1, 'confluent-frame'],
    [2, 'numbers'],
    [3, 'time-range'],
  ])
  for (const { offset, message } of letters) {
    expect(Buffer.from(message.payload)).toEqual(values[offset])
    expect(Buffer.from(message.key!).toString()).toBe(`key ${offset}`)
    expect(message.headers).toEqual(headers.map(([key, value]) => ({ key, value })))
  }
})
