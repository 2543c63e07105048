// After a crash between any two steps a batch is processed again, and what was done is not done twice.

import { expect, test } from 'vitest'
import { logPartition } from '../../../transformers/log-partition.ts'
import { openFakeSource } from '../fake-source.ts'
import { pack } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('after a crash between the write and the commit to the log, the store says where to resume and nothing is stored twice', async () => {
  const world = makeWorld()
  await world.log.append([pack(1), pack(2), pack(3)])
  const crashed = await startWriter(world, {
    wrap: source => ({ ...source, handedOut: 0, commit: () => new Promise(() => undefined) }),
  })
  await expect.poll(() => stored(world.store)).toEqual([1, 2, 3])
  expect(world.log.committed.has('writer')).toBe(false)

  await world.log.append([pack(4)])
  const { writer } = await startWriter(world)
  await expect.poll(() => stored(world.store)).toEqual([1, 2, 3, 4])
  await writer.stop()
  expect(world.log.committed.get('writer')).toBe(4)
  expect(crashed.writer.state()).toBe('running')
})

test('a batch whose answer was lost is written again and found to be stored', async () => {
  const world = makeWorld()
  await world.log.append([pack(1), pack(2)])
  const first = await startWriter(world)
  await expect.poll(() => stored(world.store)).toEqual([1, 2])
  await first.writer.stop()

  // The log's committed offset is behind the store, and the source does not get the store's position.
  world.log.committed.clear()
  const { writer } = await startWriter(world, {
    wrap: source => ({
      ...source,
      handedOut: 0,
      chunks: (signal, onStart) => replay(source.chunks(signal, onStart), world.log.messages.length),
    }),
  })
  await world.log.append([pack(3)])
  await expect.poll(() => stored(world.store)).toEqual([1, 2, 3])
  await writer.stop()
  expect(writer.counts().get(logPartition(0, 0))).toMatchObject({ received: 3, stored: 1, duplicate: 2 })

  /** The same chunks, preceded by all earlier ones. */
  async function* replay(chunks: ReturnType<typeof first.source.chunks>, count: number) {
    const ending = new AbortController()
    for await (const chunk of openFakeSource(world.log, { consumer: 'replay', chunkMessagesMax: count }).chunks(ending.signal)) {
      yield chunk
      break
    }
    ending.abort()
    yield* chunks
  }
})
