// The two flows of a worker: what each may have at hand, and the memory that this adds up to.

import { expect, test } from 'vitest'
import { relational } from '../../roles/stores/relational.ts'
import { deadLetterQueueBytes, flowsOf, writerMemoryBytesMax } from '../../roles/writer-flows.ts'
import { loadWriterOptions, type WriterOptions } from '../../roles/writer-options.ts'

const mebibyte = 1024 * 1024
const store = { SVC_RELATIONAL_URL: 'postgres://sluice:x7kq2m3p4d@db:5432/sluice' }

function optionsOf(environment: Readonly<Record<string, string>> = {}): WriterOptions {
  return loadWriterOptions(relational, { environment: { ...store, SVC_WORKERS_COUNT: '1', ...environment } })
}

test('memory grows with the workers, and one in the main thread counts as one', () => {
  const sumOf = (count: number): number => writerMemoryBytesMax(optionsOf({ SVC_WORKERS_COUNT: String(count) }), 1)
  expect(sumOf(0)).toBe(sumOf(1))
  expect(sumOf(4)).toBe(4 * sumOf(1))
})

test('the memory of a worker is that of both flows, with a batch of the log that is expanded in each, and of the dead letters', () => {
  const expanded = 64 * mebibyte
  // Rows at which a batch is cut, and those of its last message, of 400 bytes each.
  const messageBatch = (4 + 0.25) * 4 * mebibyte + (10_000 + 16_384) * 400
  const messages = 2 * 4.25 * mebibyte + 2 * (4.25 * mebibyte + messageBatch) + (8 + 2) * mebibyte + expanded
  const replayBatch = (0.25 + 0.25) * 4 * mebibyte + (500 + 16_384) * 400
  const replays = 2 * 0.5 * mebibyte + 2 * (0.5 * mebibyte + replayBatch) + (1.25 + 0.25 + 1.25) * mebibyte + expanded
  expect(writerMemoryBytesMax(optionsOf(), 1)).toBe(messages + replays + deadLetterQueueBytes)
  // Of each broker that leads partitions there may be an answer at hand.
  expect(writerMemoryBytesMax(optionsOf(), 5)).toBe(messages + replays + deadLetterQueueBytes + 4 * 2 * mebibyte)
})

test('the flow of replays is small, and smaller where that of the messages is', () => {
  const { messages, replays } = flowsOf(optionsOf())
  expect(messages).toMatchObject({ consumer: { queueBytes: 8 * mebibyte }, batch: { rows: 10_000 }, runBytesMax: 4 * mebibyte })
  expect(replays).toMatchObject({
    consumer: { queueBytes: mebibyte, fetchBytes: mebibyte },
    batch: { rows: 500 },
    runBytesMax: mebibyte / 4,
  })
  const small = { SVC_CONSUMER_QUEUE_BYTES: '4096', SVC_CONSUMER_FETCH_BYTES: '2048', SVC_BATCH_BYTES: '1024', SVC_BATCH_ROWS: '3' }
  expect(flowsOf(optionsOf(small)).replays).toMatchObject({
    consumer: { queueBytes: 4096, fetchBytes: 2048 },
    batch: { rows: 3, bytes: 1024 },
    runBytesMax: 1024,
  })
})

test.each([{}, { SVC_WORKERS_COUNT: '2' }, { SVC_WORKERS_COUNT: '4' }])('the defaults are started with %j', environment => {
  expect(() => loadWriterOptions(relational, { environment: { ...store, ...environment } })).not.toThrow()
})
