// Batches that are written again, completely or in part, leave each row once.

import { expect, test } from 'vitest'
import { logPartition } from '../../../transformers/log-partition.ts'
import { append, batchOf, plain, plainBatch, type TestMessage } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import { counts } from './fixture.ts'

/** Also checks the counts. */
export function againSuite(bench: Bench, transactional: boolean): void {
  test('a batch without rows advances the position: gaps, and empty, filtered and dead-lettered messages', async () => {
    const messages: TestMessage[] = [{ offset: 11 }, { offset: 12, outcome: 'filtered' }, { offset: 14, outcome: 'deadLettered' }]
    expect(await bench.write(batchOf(10, 16, messages))).toEqual([
      counts({ received: 3, empty: 1, filtered: 1, deadLettered: 1, skipped: 3 }),
    ])
    expect(await bench.write(batchOf(16, 20, []))).toEqual([counts({ skipped: 4 })])
    expect(await bench.store.rows()).toEqual([])
    await bench.expectPosition(20)
  })

  test('messages that the log deleted unread are counted once, among the skipped ones', async () => {
    const batch = () => {
      const batch = batchOf(10, 10, [plain(17), plain(18)])
      batch.ranges.length = 0
      batch.cover(logPartition(0, 0), 10, 20, 7)
      return batch
    }
    expect(await bench.write(batch())).toEqual([counts({ received: 2, stored: 2, skipped: 8, lost: 7 })])
    // Without positions, the gaps before them are gaps again.
    const gaps = transactional ? {} : { skipped: 8, lost: 7 }
    expect(await bench.write(batch())).toEqual([{ ...bench.again(2), ...gaps }])
    expect(() => batch().cover(logPartition(0, 0), 20, 30, 1)).toThrow(RangeError)
  })

  test('the same batch twice leaves each row once', async () => {
    await bench.write(plainBatch(0, 3))
    const again = await bench.write(plainBatch(0, 3))
    expect(again).toEqual([bench.again(3)])
    expect(await bench.values()).toEqual([0, 1, 2])
    await bench.expectPosition(3)
  })

  test('a written batch can be refilled, which does not affect its rows', async () => {
    const batch = batchOf(0, 2, [plain(0), { offset: 1, documents: [{ format: 'engine', payload: { first: 1 } }] }])
    expect(await bench.write(batch)).toEqual([counts({ received: 2, stored: 2 })])
    batch.clear()
    append(batch, { partition: 0, ...plain(2) })
    append(batch, { offset: 3, documents: [{ format: 'engine', payload: { second: 2 } }] })
    batch.cover(logPartition(0, 0), 2, 4)
    expect(await bench.write(batch)).toEqual([counts({ received: 2, stored: 2 })])
    const rows = await bench.store.rows()
    expect(rows.map(row => row.value ?? row.payload)).toEqual([0, { first: 1 }, 2, { second: 2 }])
  })

  test('a batch far below the position changes neither rows nor position', async () => {
    await bench.write(plainBatch(0, 3))
    await bench.write(plainBatch(3, 5))
    expect(await bench.write(plainBatch(0, 3))).toEqual([bench.again(3)])
    expect(await bench.values()).toEqual([0, 1, 2, 3, 4])
    await bench.expectPosition(5)
  })

  test('the same encoded batch twice, the second time by another worker, leaves each row once', async () => {
    const other = await bench.store.open()
    const encoded = bench.sink.encode(plainBatch(0, 3))
    await bench.sink.write(encoded, bench.keep, signal)
    expect(await other.write(encoded, bench.keep, signal)).toEqual([bench.again(3)])
    expect(await bench.values()).toEqual([0, 1, 2])
    await other.close()
  })

  test('of an overlapping batch only new messages are written', async () => {
    await bench.write(batchOf(0, 4, [plain(0), plain(1), plain(3)]))
    const overlapping = await bench.write(batchOf(1, 7, [plain(1), plain(3), plain(4), plain(6)]))
    const { duplicate, stored } = bench.again(2)
    expect(overlapping).toEqual([counts({ received: 4, duplicate, stored: stored + 2, skipped: transactional ? 1 : 2 })])
    expect(await bench.values()).toEqual([0, 1, 3, 4, 6])
    await bench.expectPosition(7)
  })
}
