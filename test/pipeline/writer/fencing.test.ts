// If another writer has advanced the store, this one asks the store for its position; without progress it stops.

import { expect, test } from 'vitest'
import { logPartition } from '../../../transformers/log-partition.ts'
import { pack } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('after fencing everything in flight is dropped and the source resumes where the store says', async () => {
  const world = makeWorld()
  await world.log.append(Array.from({ length: 100 }, (_, at) => pack(at)))
  world.store.failures.push(undefined, { errorClass: 'fenced' }, undefined, { errorClass: 'fenced' }, { errorClass: 'fenced' })
  const { writer } = await startWriter(world)
  await expect.poll(() => stored(world.store).length).toBe(100)
  expect(stored(world.store)).toEqual(Array.from({ length: 100 }, (_, at) => at))
  expect(writer.counts().get(logPartition(0, 0))).toMatchObject({ received: 100, stored: 100, inFlight: 0 })
  await writer.stop()
})

test('another instance that took over the partition is not disturbed: the first resumes after what the other stored', async () => {
  const world = makeWorld()
  await world.log.append(Array.from({ length: 10 }, (_, at) => pack(at)))
  const gate = Promise.withResolvers<void>()
  world.store.gate = gate.promise
  const { writer } = await startWriter(world, { batch: { rows: 2 } })
  await expect.poll(() => world.store.writes).toBe(1)
  // The store's position is set back, as by a restored copy: the batch in flight would now leave a gap.
  world.store.nextOffsets.set('1/0', 0)
  gate.resolve()
  await expect.poll(() => stored(world.store).length).toBe(10)
  world.store.rows.length = 0
  world.store.nextOffsets.set('1/0', 6)
  await world.log.append([pack(10)])
  await expect.poll(() => stored(world.store)).toEqual([6, 7, 8, 9, 10])
  await writer.stop()
})

test('fencing with progress in between never stops it, however often it happens', async () => {
  const world = makeWorld()
  await world.log.append(Array.from({ length: 20 }, (_, at) => pack(at)))
  for (let at = 0; at < 20; at++) world.store.failures.push({ errorClass: 'fenced' }, undefined)
  const { writer } = await startWriter(world, { batch: { rows: 1 } })
  await expect.poll(() => stored(world.store).length).toBe(20)
  expect(writer.state()).toBe('running')
  await writer.stop()
})

test('a sink that finds its cache stale many times in a row resumes each time, since that is no sign of another writer', async () => {
  const world = makeWorld()
  await world.log.append([pack(0)])
  for (let at = 0; at < 20; at++) world.store.failures.push({ errorClass: 'stale' })
  const { writer } = await startWriter(world)
  await expect.poll(() => stored(world.store)).toEqual([0])
  expect(writer.state()).toBe('running')
  await writer.stop()
})

test('fenced repeatedly without progress, it stops with an error that says that another writer is active', async () => {
  const world = makeWorld()
  for (let at = 0; at < 1000; at++) world.store.failures.push({ errorClass: 'fenced' })
  await world.log.append([pack(1)])
  const { writer } = await startWriter(world)
  await expect(writer.done).rejects.toThrow(/9 times in a row.*stop the other writer/)
  expect(writer.state()).toBe('failed')
  expect(stored(world.store)).toEqual([])
})
