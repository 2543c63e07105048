// Stores that keep the log's positions with their rows, final in one transaction.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { batchOf, plain, plainBatch } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import { counts, unexpected } from './fixture.ts'

/** A batch is there as a whole or not at all, and never behind a gap. */
export function positionsSuite(bench: Bench): void {
  test('a partition that it does not know has no position', async () => {
    expect(await bench.sink.positions?.([0, 7])).toEqual(new Map())
  })

  test('a gap is fenced, and nothing is written, not even to other partitions', async () => {
    await bench.write(plainBatch(0, 3))
    const batch = plainBatch(4, 6)
    batch.cover(1, 0, 9)
    const error = await bench.write(batch).then(unexpected, (error: unknown) => error)
    expect(bench.sink.classify(error)).toBe('fenced')
    expect(await bench.values()).toEqual([0, 1, 2])
    expect(await bench.position()).toBe(3)
    expect(await bench.write(plainBatch(3, 4))).toEqual([counts({ received: 1, stored: 1 })])
  })

  test('rejections are acknowledged before any row of the batch can be seen', async () => {
    const poison = Object.values(bench.store.poisons)[0]!
    let seen: unknown
    const look = async () => {
      await wait(20)
      seen = bench.store.readableDuringWrite ? (await bench.store.rows()).length : 0
    }
    await bench.sink.write(bench.sink.encode(batchOf(0, 3, [plain(0), poison(1), plain(2)])), look, signal)
    expect(seen).toBe(0)
    expect(await bench.values()).toEqual([0, 2])
  })
}
