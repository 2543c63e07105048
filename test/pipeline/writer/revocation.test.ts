// A revoked share of the log: what is in flight is dropped and never committed, and the next share begins where the store says.

import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import type { Sink } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import type { FakeEncoded } from '../../sinks/fake-sink.ts'
import type { FakeSource } from '../fake-source.ts'
import { pack } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('a batch being written when the share is revoked is neither committed nor waited for, and the next share resumes at the store', async () => {
  const world = makeWorld()
  await world.log.append(Array.from({ length: 6 }, (_, at) => pack(at)))
  const gate = Promise.withResolvers<void>()
  world.store.gate = gate.promise
  const { writer, source } = await startWriter(world, { batch: { rows: 2 } })
  await expect.poll(() => world.store.writes).toBe(1)
  source.revoke()
  // Another worker stores the first four messages meanwhile.
  world.store.nextOffsets.set('1/0', 4)
  world.store.gate = Promise.resolve()
  gate.resolve()
  await expect.poll(() => stored(world.store)).toEqual([4, 5])
  await expect.poll(() => world.log.committed.get('writer')).toBe(6)
  expect(writer.state()).toBe('running')
  expect(writer.counts().get(logPartition(0, 0))).toMatchObject({ received: 4, stored: 2, duplicate: 2, inFlight: 0 })
  await writer.stop()
})

test('a store that is away does not hold up a revoked share: the writer takes the next one as soon as there is one', async () => {
  const world = makeWorld()
  await world.log.append([pack(1)])
  for (let at = 0; at < 1000; at++) world.store.failures.push({ errorClass: 'transient' })
  const { writer, source } = await startWriter(world)
  await expect.poll(() => writer.state()).toBe('retrying')
  source.revoke()
  world.store.failures.length = 0
  await expect.poll(() => stored(world.store)).toEqual([1])
  await expect.poll(() => writer.state()).toBe('running')
  await writer.stop()
})

test('a store without positions that is away is not reported as back when the next share begins', async () => {
  const world = makeWorld()
  await world.log.append([pack(1)])
  for (let at = 0; at < 10_000; at++) world.store.failures.push({ errorClass: 'transient' })
  const withoutPositions = (sink: Sink<FakeEncoded>): Sink<FakeEncoded> => {
    const other = { ...sink }
    delete other.positions
    return other
  }
  const { writer, source } = await startWriter(world, { wrapSink: withoutPositions })
  const sentences = (): string[] => world.lines().map(({ msg }) => String(msg).split(' (')[0]!)
  await expect.poll(sentences).toEqual(['the store is away'])
  source.revoke()
  await expect.poll(sentences).toEqual(['the store is away', 'the store is away'])
  world.store.failures.length = 0
  await expect.poll(() => sentences().at(-1)).toMatch(/^the store is back after .*: 1 message waited$/)
  expect(sentences()).toHaveLength(3)
  await writer.stop()
})

test('a share that is lost because the group cannot be reached counts as an outage of the log, until the next share begins', async () => {
  const world = makeWorld()
  for (let at = 0; at < 10_000; at++) world.store.failures.push({ errorClass: 'transient' })
  await world.log.append([pack(1)])
  const { writer, source } = await startWriter(world)
  await expect.poll(() => world.lines().length).toBe(1)
  source.revoke(new LogUnavailableError('no broker answers'))
  world.store.failures.length = 0
  await expect.poll(() => stored(world.store)).toEqual([1])
  await expect.poll(() => writer.state()).toBe('running')
  await writer.stop()
  expect(world.lines().map(({ msg }) => msg)).toEqual([
    expect.stringMatching(/^the store is away/),
    expect.stringMatching(/^the log is away \(no broker answers\), attempt 1, /),
    expect.stringMatching(/^the log is back .*: 1 message waited$/),
    expect.stringMatching(/^the store is back /),
  ])
})

test('if a share is revoked while the log is quiet the next one is requested, and nothing is stored twice', async () => {
  const world = makeWorld()
  const { writer, source } = await startWriter(world)
  await world.log.append([pack(1)])
  await expect.poll(() => world.log.committed.get('writer')).toBe(1)
  source.revoke()
  await world.log.append([pack(2)])
  await expect.poll(() => world.log.committed.get('writer')).toBe(2)
  expect(stored(world.store)).toEqual([1, 2])
  await writer.stop()
})

test('a batch that is stored when the share is revoked is in the ledger, although it is not committed', async () => {
  const world = makeWorld()
  await world.log.append([pack(1), pack(2)])
  const wrap = (source: FakeSource): FakeSource => ({
    ...source,
    async commit() {
      source.revoke()
      throw new LogUnavailableError('the group is being shared out anew')
    },
  })
  const { writer } = await startWriter(world, { wrap })
  await expect.poll(() => stored(world.store)).toEqual([1, 2])
  await expect.poll(() => writer.counts().get(logPartition(0, 0))).toMatchObject({ received: 2, stored: 2, inFlight: 0 })
  await writer.stop()
  expect(world.log.committed.get('writer')).toBeUndefined()
})
