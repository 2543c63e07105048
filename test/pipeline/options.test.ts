// The memory of queues and batches is a sum that is checked at the start.

import { Value } from 'typebox/value'
import { expect, test } from 'vitest'
import { assertMemory, type MemoryParts, memoryBytesMax } from '../../pipeline/memory.ts'
import { batchOptions, logOptions, messageOptions, subscriberOptions, workersOptions } from '../../pipeline/options.ts'

const mebibyte = 1024 * 1024

function parts() {
  return {
    batch: Value.Create(batchOptions),
    message: Value.Create(messageOptions),
    log: Value.Create(logOptions),
    workers: Value.Create(workersOptions),
  }
}

test('the defaults are valid and fit into the given memory', () => {
  const { batch, message, log, workers } = parts()
  expect(Value.Check(batchOptions, batch)).toBe(true)
  expect(Value.Check(messageOptions, message)).toBe(true)
  expect(Value.Check(logOptions, log)).toBe(true)
  expect(Value.Check(workersOptions, workers)).toBe(true)
  expect(Value.Create(subscriberOptions)).toEqual({ subjects: ['channels.>'] })
  expect(assertMemory(parts())).toBeLessThan(64 * mebibyte)
})

test('every limit is in the sum', () => {
  const sum = memoryBytesMax(parts())
  const larger = (change: (parts: MemoryParts) => void): number => {
    const changed = structuredClone(parts())
    change(changed)
    return memoryBytesMax(changed) - sum
  }
  expect(larger(({ log }) => (log.queueBytes += mebibyte))).toBe(mebibyte)
  expect(larger(({ log }) => (log.fetchBytes += mebibyte))).toBe(4 * mebibyte)
  expect(larger(({ batch }) => (batch.bytes += mebibyte))).toBe(8 * mebibyte)
  expect(larger(({ batch }) => (batch.rows += 1000))).toBe(800_000)
  expect(larger(({ message }) => (message.payloadBytes += mebibyte))).toBeGreaterThan(mebibyte)
})

test('a sum above the limit stops the start and names the options to change', () => {
  const large = parts()
  large.batch.bytes = 64 * mebibyte
  expect(() => assertMemory(large)).toThrow(/add up to 5\d\d MiB, above workers.memory_bytes of 512 MiB: lower .*batch.bytes/)
})

test('a queue that could not hold two of the largest messages stops the start', () => {
  const narrow = parts()
  narrow.message.payloadBytes = 2 * mebibyte
  narrow.log.queueBytes = 3 * mebibyte
  expect(() => assertMemory(narrow)).toThrow(/raise log.queue_bytes/)
})
