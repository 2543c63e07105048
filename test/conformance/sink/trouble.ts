// What goes wrong on the way to a store: connections are cut, its server restarts, a sink is closed at work.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { MessageCounts, Rejection } from '../../../sinks/sink.ts'
import { batchOf, plain } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import type { SinkTraits } from './index.ts'

/** How long a server that came up again may still refuse. */
const upAgainMsMax = 30_000

/** Nothing of it is lost, doubled, or taken for a fault of the data. */
export function troubleSuite(bench: Bench, { connections, restarts, transactional }: Required<SinkTraits>): void {
  if (connections)
    test('a connection cut in the middle is transient; the same encoded batch again is stored once and rejected once', () =>
      writesThrough(() => bench.store.cutConnections!()))

  if (restarts)
    test('a server that restarts in the middle is transient; the same encoded batch again is stored once and rejected once', () =>
      writesThrough(() => bench.store.restart!()))

  async function writesThrough(strike: () => Promise<void>): Promise<void> {
    const poison = Object.values(bench.store.poisons)[0]!
    const messages = Array.from({ length: 500 }, (_, offset) => (offset === 250 ? poison(offset) : plain(offset)))
    const encoded = bench.sink.encode(batchOf(0, 500, messages))
    const keepThenStrike = async (some: readonly Rejection[]): Promise<void> => {
      await bench.keep(some)
      await strike()
    }
    let counted: readonly MessageCounts[] | undefined
    async function attempt(reject: typeof keepThenStrike): Promise<boolean> {
      try {
        counted = await bench.sink.write(encoded, reject, signal)
      } catch (error) {
        expect(bench.sink.classify(error), String(error)).toBe('transient')
      }
      return counted !== undefined
    }
    const atOnce = await attempt(keepThenStrike)
    if (transactional) {
      // Its commit comes last. A store without one may have had all rows before it was struck.
      expect(atOnce).toBe(false)
      await expect.poll(() => bench.store.rows().catch(() => undefined), { timeout: upAgainMsMax }).toEqual([])
    }
    if (!atOnce) await expect.poll(() => attempt(bench.keep), { timeout: upAgainMsMax }).toBe(true)
    bench.expectStored(counted!, { received: 500, stored: 499, deadLettered: 1 })
    expect(await bench.store.rows()).toHaveLength(499)
    expect(bench.rejections.map(rejection => rejection.message)).toEqual([250])
  }

  test('close waits for the write under way', async () => {
    const poison = Object.values(bench.store.poisons)[0]!
    let release = () => {}
    const held = new Promise<void>(resolve => (release = resolve))
    const order: string[] = []
    const writing = bench.sink
      .write(bench.sink.encode(batchOf(0, 2, [plain(0), poison(1)])), () => held, signal)
      .then(() => order.push('written'))
    const closing = bench.sink.close().then(() => order.push('closed'))
    await wait(30)
    expect(order).toEqual([])
    release()
    await Promise.all([writing, closing])
    expect(order).toEqual(['written', 'closed'])
    await bench.sink.close()
  })

  test('what it does not know stops the writer', () => {
    expect(bench.sink.classify(new Error('something else'))).toBe('systemic')
  })
}
