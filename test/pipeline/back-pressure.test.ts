// What a writer holds in memory is bounded while its store is slow: back-pressure is not asking.

import { expect, test } from 'vitest'
import { pack } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('while a write takes long, no more is taken than the batch being written, the next, and the rest of one run', async () => {
  const world = makeWorld()
  const gate = Promise.withResolvers<void>()
  world.store.gate = gate.promise
  await world.log.append(Array.from({ length: 1000 }, (_, at) => pack(at)))
  const { writer, source } = await startWriter(world, { batch: { rows: 10 }, runMessagesMax: 4 })
  await expect.poll(() => source.handedOut).toBeGreaterThanOrEqual(20)
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(source.handedOut).toBeLessThanOrEqual(2 * 10 + 4)
  expect(writer.counts().get(0)).toMatchObject({ received: 20, inFlight: 20 })
  gate.resolve()
  await expect.poll(() => stored(world.store).length).toBe(1000)
  expect(source.handedOut).toBe(1000)
  await writer.stop()
})

test('while the store is away the log is not asked, however many messages come', async () => {
  const world = makeWorld()
  for (let at = 0; at < 100_000; at++) world.store.failures.push({ errorClass: 'transient' })
  const { writer, source } = await startWriter(world, { batch: { rows: 10 }, runMessagesMax: 10 })
  for (let at = 0; at < 50; at++) await world.log.append(Array.from({ length: 10 }, (_, value) => pack(at * 10 + value)))
  await expect.poll(() => writer.state()).toBe('retrying')
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(source.handedOut).toBeLessThanOrEqual(30)
  world.store.failures.length = 0
  await expect.poll(() => stored(world.store).length).toBe(500)
  await writer.stop()
})
