// A writer's memory is bounded while its store is slow: it requests nothing more.

import { expect, test } from 'vitest'
import { type PendingBatch, type Spares, spare } from '../../../pipeline/writer/batch.ts'
import type { Sink } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { append } from '../../sinks/batches.ts'
import type { FakeEncoded } from '../../sinks/fake-sink.ts'
import { pack } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('while a write takes long, at most the batch being written, the next one, and the rest of one chunk are in memory', async () => {
  const world = makeWorld()
  const gate = Promise.withResolvers<void>()
  world.store.gate = gate.promise
  await world.log.append(Array.from({ length: 1000 }, (_, at) => pack(at)))
  const { writer, source } = await startWriter(world, { batch: { rows: 10, ageMs: 60_000 }, chunkMessagesMax: 4 })
  await expect.poll(() => writer.counts().get(logPartition(0, 0))).toMatchObject({ received: 20, inFlight: 20 })
  // Reading from memory takes no longer than this.
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  expect(source.handedOut).toBeLessThanOrEqual(2 * 10 + 4)
  expect(writer.counts().get(logPartition(0, 0))).toMatchObject({ received: 20, inFlight: 20 })
  gate.resolve()
  await expect.poll(() => stored(world.store).length).toBe(1000)
  expect(source.handedOut).toBe(1000)
  await writer.stop()
})

test('while the store is away nothing is read from the log, however many messages arrive', async () => {
  const world = makeWorld()
  for (let at = 0; at < 100_000; at++) world.store.failures.push({ errorClass: 'transient' })
  const { writer, source } = await startWriter(world, { batch: { rows: 10 }, chunkMessagesMax: 10 })
  for (let at = 0; at < 50; at++) await world.log.append(Array.from({ length: 10 }, (_, value) => pack(at * 10 + value)))
  await expect.poll(() => writer.state()).toBe('retrying')
  const { writes } = world.store
  await expect.poll(() => world.store.writes).toBeGreaterThan(writes + 10)
  expect(source.handedOut).toBeLessThanOrEqual(30)
  world.store.failures.length = 0
  await expect.poll(() => stored(world.store).length).toBe(500)
  await writer.stop()
})

test('a writer has few batches, and reuses settled ones', async () => {
  const world = makeWorld()
  const encoded = new Map<RecordBatch, number>()
  const wrapSink = (sink: Sink<FakeEncoded>): Sink<FakeEncoded> => ({
    ...sink,
    encode(batch) {
      encoded.set(batch, (encoded.get(batch) ?? 0) + 1)
      return sink.encode(batch)
    },
  })
  // Some writes fail at their commit, so that the encoded batch is written again: it must be unchanged.
  for (let at = 0; at < 40; at++) world.store.failures.push(at % 3 === 0 ? { errorClass: 'transient', when: 'commit' } : undefined)
  const { writer } = await startWriter(world, { batch: { rows: 10 }, chunkMessagesMax: 7, wrapSink })
  await world.log.append(Array.from({ length: 1000 }, (_, at) => pack(at)))
  await expect.poll(() => stored(world.store).length).toBe(1000)
  await writer.stop()
  expect(stored(world.store)).toEqual(Array.from({ length: 1000 }, (_, at) => at))
  expect(encoded.size).toBe(2)
  expect([...encoded.values()].reduce((sum, times) => sum + times)).toBeGreaterThanOrEqual(100)
})

test('a batch that grew far beyond its rows is not kept, and a reused one keeps none of its content', () => {
  const limits = { rows: 10, bytes: 1_000_000, ageMs: 5 }
  const pending = (batch: RecordBatch): PendingBatch => ({
    batch,
    chunks: [],
    rejections: [],
    firstCreatedUs: new Map(),
    bytes: 0,
    heldBytes: 0,
  })
  const spares: Spares = []
  const large = new RecordBatch()
  append(large, { offset: 0, records: Array.from({ length: 20_000 }, (_, value) => ({ value })) })
  spare(spares, pending(large), limits)
  expect(spares).toEqual([])

  const held = { offset: 1, publisher: 'held', records: [{ name: 'held', unit: 'held', stringValue: 'held' }] }
  const batch = new RecordBatch()
  append(batch, held)
  append(batch, { ...held, outcome: 'filtered' }) // its rows were removed, but were in the columns
  append(batch, { offset: 2, documents: [{ format: 'held', payload: { held: 'held' } }] })
  batch.cover(logPartition(0, 0), 0, 3)
  spare(spares, pending(batch), limits)
  expect(spares).toEqual([batch])
  expect(batch).toMatchObject({ rowCount: 0, ranges: [], messages: { length: 0 } })
  const texts = [batch.messages.publisher, batch.records.name, batch.records.unit, batch.records.content, batch.documents.payload]
  expect(texts.flat().filter(text => text !== '' && text !== undefined)).toEqual([])
})
