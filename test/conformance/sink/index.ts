// The contract of every sink (sinks/sink.ts), and the additional one of sinks that store offsets with their rows: for the fake and for
// each store.

import { describe, expect, test } from 'vitest'
import { isDeep } from '../../depth.ts'
import { plainBatch } from '../../sinks/batches.ts'
import { againSuite } from './again.ts'
import { openBench, signal } from './bench.ts'
import { erasuresSuite } from './erasures.ts'
import type { SinkStore, SinkTraits } from './fixture.ts'
import { logsSuite } from './logs.ts'
import { positionsSuite } from './positions.ts'
import { refusalsSuite } from './refusals.ts'
import { replaysSuite } from './replays.ts'
import { rowsSuite } from './rows.ts'
import { troubleSuite } from './trouble.ts'

export { logsOf, type SinkIdentity, type SinkStore, type StoredRow } from './fixture.ts'

/** The part of the contract about refusals, for a store with a second way to refuse; the whole contract tests the first. */
export function refusalConformance(name: string, openStore: () => Promise<SinkStore>, { transactional = true }: SinkTraits = {}): void {
  describe(`refusals by a sink: ${name}`, () => {
    const bench = openBench(openStore, transactional)
    refusalsSuite(bench, transactional)
    troubleSuite(bench, { connections: true, restarts: false, slow: isDeep, givesUp: false, transactional })
  })
}

export function sinkConformance(name: string, openStore: () => Promise<SinkStore>, traits: SinkTraits = {}): void {
  const { connections = true, restarts = false, slow = false, givesUp = false, transactional = true } = traits
  describe(`the contract of a sink: ${name}`, () => {
    const bench = openBench(openStore, transactional)
    rowsSuite(bench, transactional)
    againSuite(bench, transactional)
    refusalsSuite(bench, transactional)
    troubleSuite(bench, { connections, restarts, slow, givesUp, transactional })
    replaysSuite(bench, transactional)
    erasuresSuite(bench)
    if (transactional) positionsSuite(bench)
    logsSuite(bench, transactional)

    test('a store keeps positions if and only if it says so', () => {
      expect(bench.sink.positions !== undefined).toBe(transactional)
    })

    test('releasing a batch does not affect batches encoded before or after', async () => {
      const { sink, keep } = bench
      const [first, second] = [sink.encode(plainBatch(0, 3)), sink.encode(plainBatch(3, 6))]
      await sink.write(first, keep, signal)
      sink.release?.(first)
      const third = sink.encode(plainBatch(6, 9))
      await sink.write(second, keep, signal)
      sink.release?.(second)
      const fourth = sink.encode(plainBatch(9, 10))
      await sink.write(third, keep, signal)
      await sink.write(fourth, keep, signal)
      expect(await bench.values()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    })

    test('a recreated log is detected, and has no positions once it is accepted', async () => {
      await bench.write(plainBatch(0, 3))
      await expect(bench.store.open({ logId: 'id-2' })).rejects.toThrow(/id-2.*id-1.*--accept-new-log id-2$/)
      await expect(bench.store.open({ logId: 'id-2', acceptNewLog: 'id-1' })).rejects.toThrow(/--accept-new-log id-2$/)
      await bench.sink.close()
      bench.sink = await bench.store.open({ logId: 'id-2', acceptNewLog: 'id-2' })
      expect(await bench.position()).toBeUndefined()
      await bench.write(plainBatch(0, 1))
      expect(await bench.values()).toEqual([0, 1, 2, 0])
      await bench.sink.close()
      bench.sink = await bench.store.open({ logId: 'id-2' })
      await bench.expectPosition(1)
    })
  })
}
