// A stopped writer stores what it has read, reads no more, and ends in time.

import { expect, test } from 'vitest'
import { logPartition } from '../../../transformers/log-partition.ts'
import { pack } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('what was read is stored and committed before it ends, and nothing is stored afterwards', async () => {
  const world = makeWorld()
  const gate = Promise.withResolvers<void>()
  world.store.gate = gate.promise
  await world.log.append(Array.from({ length: 100 }, (_, at) => pack(at)))
  const { writer, source } = await startWriter(world, { batch: { rows: 10 }, chunkMessagesMax: 10 })
  await expect.poll(() => source.handedOut).toBeGreaterThanOrEqual(20)
  const stopped = writer.stop()
  expect(writer.state()).toBe('stopping')
  gate.resolve()
  await stopped
  expect(writer.state()).toBe('stopped')
  expect(stored(world.store)).toEqual(Array.from({ length: source.handedOut }, (_, at) => at))
  expect(source.handedOut).toBeLessThan(100)
  expect(world.log.committed.get('writer')).toBe(source.handedOut)
  expect(writer.counts().get(logPartition(0, 0))).toMatchObject({ inFlight: 0 })
})

test('a batch that waits for its age is stored immediately', async () => {
  const world = makeWorld()
  await world.log.append([pack(1)])
  const { writer, source } = await startWriter(world, { batch: { ageMs: 60_000 } })
  await expect.poll(() => source.handedOut).toBe(1)
  expect(stored(world.store)).toEqual([])
  await writer.stop()
  expect(stored(world.store)).toEqual([1])
})

test('if the store is away it ends at the deadline, and unstored messages are still in the log', async () => {
  const world = makeWorld()
  for (let at = 0; at < 100_000; at++) world.store.failures.push({ errorClass: 'transient' })
  await world.log.append([pack(1)])
  const { writer } = await startWriter(world, { drainMsMax: 50 })
  await expect.poll(() => writer.state()).toBe('retrying')
  // Without the deadline it would never resolve.
  await writer.stop()
  expect(writer.state()).toBe('stopped')
  expect(world.log.committed.has('writer')).toBe(false)
  world.store.failures.length = 0
  const again = await startWriter(world)
  await expect.poll(() => stored(world.store)).toEqual([1])
  await again.writer.stop()
})

test('an idle writer ends immediately', async () => {
  const { writer } = await startWriter(makeWorld())
  await writer.stop()
  await writer.done
  expect(writer.state()).toBe('stopped')
})

test('a source that is closed ends its writer', async () => {
  const { writer, source } = await startWriter(makeWorld())
  await source.close()
  await writer.done
  expect(writer.state()).toBe('stopped')
})
