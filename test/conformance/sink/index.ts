// What every sink promises (sinks/sink.ts), and what one that keeps its offsets with its rows promises besides: run against the fake of
// the other tests and against each store.

import { describe, expect, test } from 'vitest'
import { plainBatch } from '../../sinks/batches.ts'
import { againSuite } from './again.ts'
import { openBench, signal } from './bench.ts'
import type { SinkStore } from './fixture.ts'
import { positionsSuite } from './positions.ts'
import { refusalsSuite } from './refusals.ts'
import { replaysSuite } from './replays.ts'
import { rowsSuite } from './rows.ts'
import { troubleSuite } from './trouble.ts'

export type { SinkIdentity, SinkStore, StoredRow } from './fixture.ts'

export interface SinkTraits {
  /** False for a store in the same process: there is nothing between it and its sinks that could be cut. */
  readonly connections?: boolean
  /** True where its server can be restarted. */
  readonly restarts?: boolean
  /** True where the way to its server can be slow, and the server silent. */
  readonly slow?: boolean
  /** True where a request that is not answered ends by itself, within a time-out of the store's options. */
  readonly givesUp?: boolean
  /** False for a store that knows its rows by their keys, and where to go on from the log's commits. */
  readonly transactional?: boolean
}

export function sinkConformance(name: string, openStore: () => Promise<SinkStore>, traits: SinkTraits = {}): void {
  const { connections = true, restarts = false, slow = false, givesUp = false, transactional = true } = traits
  describe(`the contract of a sink: ${name}`, () => {
    const bench = openBench(openStore, transactional)
    rowsSuite(bench)
    againSuite(bench, transactional)
    refusalsSuite(bench, transactional)
    troubleSuite(bench, { connections, restarts, slow, givesUp, transactional })
    replaysSuite(bench, transactional)
    if (transactional) positionsSuite(bench)

    test('positions are kept by a store that says so, and by no other', () => {
      expect(bench.sink.positions !== undefined).toBe(transactional)
    })

    test('what is let go makes no difference to what was encoded before or is after', async () => {
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

    test('a store belongs to one writer for each log', async () => {
      await expect(bench.store.open({ writer: 'another' })).rejects.toThrow(/"writer-1".*"another"/)
    })

    test('a log made anew is noticed, and begins at no position once it is accepted', async () => {
      await bench.write(plainBatch(0, 3))
      await expect(bench.store.open({ logId: 'id-2' })).rejects.toThrow(/id-2.*id-1.*accept-new-log/)
      await bench.sink.close()
      bench.sink = await bench.store.open({ logId: 'id-2', acceptNewLog: true })
      expect(await bench.position()).toBeUndefined()
      await bench.write(plainBatch(0, 1))
      expect(await bench.values()).toEqual([0, 1, 2, 0])
      await bench.sink.close()
      bench.sink = await bench.store.open({ logId: 'id-2' })
      await bench.expectPosition(1)
    })
  })
}
