// Stores that keep the log's positions with their rows, in one transaction.

import { expect, test } from 'vitest'
import { logPartition } from '../../../transformers/log-partition.ts'
import { append, batchOf, plain, plainBatch } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import { counts, unexpected } from './fixture.ts'

/** A batch is stored completely or not at all, and never after a gap. */
export function positionsSuite(bench: Bench): void {
  test('an unknown partition has no position', async () => {
    expect(await bench.sink.positions?.([logPartition(0, 0), logPartition(0, 7)])).toEqual(new Map())
  })

  test('a gap is fenced, and nothing is written, not even to other partitions', async () => {
    await bench.write(plainBatch(0, 3))
    const batch = plainBatch(4, 6)
    batch.cover(logPartition(0, 1), 0, 9)
    const error = await bench.write(batch).then(unexpected, (error: unknown) => error)
    expect(bench.sink.classify(error)).toBe('fenced')
    expect(await bench.values()).toEqual([0, 1, 2])
    expect(await bench.position()).toBe(3)
    expect(await bench.write(plainBatch(3, 4))).toEqual([counts({ received: 1, stored: 1 })])
  })

  test('a gap in one log is fenced, and nothing is written to another', async () => {
    await bench.sink.close()
    bench.sink = await bench.store.open({ otherLogs: ['events'] })
    const both = (from: number, of: number) => {
      const batch = plainBatch(from, from + 1)
      append(batch, { ...plain(of), log: 1 })
      batch.cover(logPartition(1, 0), of, of + 1)
      return batch
    }
    await bench.write(both(0, 0))
    expect(bench.sink.classify(await bench.write(both(1, 2)).then(unexpected, (error: unknown) => error))).toBe('fenced')
    expect(await bench.values()).toEqual([0, 0])
    expect(await bench.write(both(1, 1))).toEqual([counts({ received: 1, stored: 1 }), counts({ received: 1, stored: 1 })])
    expect(await bench.values()).toEqual([0, 1, 0, 1])
  })

  test('rejections are acknowledged before any row of the batch becomes visible', async () => {
    const poison = Object.values(bench.store.poisons)[0]!
    let seen: unknown
    const look = async () => {
      // The first answer comes after everything that was sent before it.
      for (let times = 0; times < 2; times++) seen = bench.store.readableDuringWrite ? (await bench.store.rows()).length : 0
    }
    await bench.sink.write(bench.sink.encode(batchOf(0, 3, [plain(0), poison(1), plain(2)])), look, signal)
    expect(seen).toBe(0)
    expect(await bench.values()).toEqual([0, 2])
  })
}
