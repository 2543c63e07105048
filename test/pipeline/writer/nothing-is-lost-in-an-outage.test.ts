// While the store is away nothing is lost, nothing is dead-lettered, and the log is not read.

import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { pack } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('a store that fails transiently many times in a row has everything once afterwards, in order', async () => {
  const world = makeWorld()
  for (let at = 0; at < 20; at++) world.store.failures.push({ errorClass: 'transient', when: at % 2 === 0 ? 'before' : 'commit' })
  await world.log.append(Array.from({ length: 50 }, (_, at) => pack(at)))
  const { writer } = await startWriter(world)
  await expect.poll(() => stored(world.store).length).toBe(50)
  expect(stored(world.store)).toEqual(Array.from({ length: 50 }, (_, at) => at))
  expect(world.deadLetters.messages).toEqual([])
  await writer.stop()
  expect(world.log.committed.get('writer')).toBe(50)
})

test('the state is retrying with the reason while the store is away, and running afterwards', async () => {
  const world = makeWorld()
  for (let at = 0; at < 10_000; at++) world.store.failures.push({ errorClass: 'transient' })
  await world.log.append([pack(1)])
  const { writer } = await startWriter(world)
  await expect.poll(() => writer.state()).toBe('retrying')
  expect(writer.failure()?.message).toMatch(/the fake store fails: transient/)
  world.store.failures.length = 0
  await expect.poll(() => writer.state()).toBe('running')
  expect(writer.failure()).toBeUndefined()
  await writer.stop()
  expect(writer.state()).toBe('stopped')
})

test('if the store is away when its positions are requested they are requested again, and the writer is ready without waiting for a message', async () => {
  const world = makeWorld()
  let asked = 0
  let isAway = true
  const { writer } = await startWriter(world, {
    wrap: source => ({
      ...source,
      handedOut: 0,
      chunks: (signal, onStart) => {
        asked++
        if (isAway) throw new LogUnavailableError('away')
        return source.chunks(signal, onStart)
      },
    }),
  })
  await expect.poll(() => asked).toBeGreaterThan(2)
  expect(writer.state()).toBe('retrying')
  const askedBefore = asked
  isAway = false
  await expect.poll(() => writer.state()).toBe('running')
  expect(asked).toBe(askedBefore + 1)
  await world.log.append([pack(7)])
  await expect.poll(() => stored(world.store)).toEqual([7])
  await writer.stop()
})

test('a commit to the log that fails is retried', async () => {
  const world = makeWorld()
  let failures = 3
  const { writer } = await startWriter(world, {
    wrap: source => ({
      ...source,
      handedOut: 0,
      commit: async positions => {
        if (failures-- > 0) throw new LogUnavailableError('away')
        await source.commit(positions)
      },
    }),
  })
  await world.log.append([pack(1)])
  await expect.poll(() => world.log.committed.get('writer')).toBe(1)
  expect(stored(world.store)).toEqual([1])
  await writer.stop()
})

test('a permanent error stops the writer with the reason, and nothing is committed', async () => {
  const world = makeWorld()
  world.store.failures.push({ errorClass: 'systemic' })
  await world.log.append([pack(1)])
  const { writer } = await startWriter(world)
  await expect(writer.done).rejects.toThrow(/the fake store fails: systemic/)
  expect(writer.state()).toBe('failed')
  expect(writer.failure()?.message).toMatch(/systemic/)
  expect(world.log.committed.has('writer')).toBe(false)
  expect(world.deadLetters.messages).toEqual([])
  await writer.stop()
})
