// The memory of a writer's queues and batches.

import { expect, test } from 'vitest'
import { storeOptions } from '../../../roles/stores/options.ts'
import { deadLetterQueueBytes, writerMemoryBytesMax } from '../../../roles/writer/memory.ts'
import { loadWriterOptions, type WriterOptions } from '../../../roles/writer/options.ts'

const relational = await storeOptions('relational')
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

test('the memory of a worker is that of its batches, its source, a decompressed batch of the log, and the dead letters', () => {
  const expanded = 64 * mebibyte
  // Rows at which a batch ends, and those of its last message, of 400 bytes each.
  const batch = (4 + 0.25) * 4 * mebibyte + (10_000 + 16_384) * 400
  const messages = 2 * 4.25 * mebibyte + 2 * (4.25 * mebibyte + batch) + (8 + 2) * mebibyte + expanded
  expect(writerMemoryBytesMax(optionsOf(), 1)).toBe(messages + deadLetterQueueBytes)
  // One answer from each broker that leads partitions.
  expect(writerMemoryBytesMax(optionsOf(), 5)).toBe(messages + deadLetterQueueBytes + 4 * 2 * mebibyte)
})

test.each([{}, { SVC_WORKERS_COUNT: '2' }, { SVC_WORKERS_COUNT: '4' }])('the defaults start with %j', environment => {
  expect(() => loadWriterOptions(relational, { environment: { ...store, ...environment } })).not.toThrow()
})
