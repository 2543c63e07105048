// Faults on the way to a store: connections are cut, its server restarts, a sink is closed during a write.

import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { MessageCounts, Reject, Rejection } from '../../../sinks/sink.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { batchOf, plain } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import type { SinkTraits } from './fixture.ts'

/** Each way, of each exchange. */
const lateMs = 50

/** Nothing is lost, duplicated, or treated as a fault of the data. */
export function troubleSuite(bench: Bench, { connections, restarts, slow, givesUp, transactional }: Required<SinkTraits>): void {
  if (connections)
    test('a connection that is cut during a write is transient; the same encoded batch again is stored once and rejected once', () =>
      writesThrough(() => bench.store.cutConnections!()))

  if (restarts)
    test('a server that restarts during a write is transient; the same encoded batch again is stored once and rejected once', () =>
      writesThrough(() => bench.store.restart!()))

  async function writesThrough(strike: () => Promise<void>): Promise<void> {
    const encoded = bench.sink.encode(withOnePoison())
    const keepThenStrike = async (some: readonly Rejection[]): Promise<void> => {
      await bench.keep(some)
      await strike()
    }
    let counted = await attempt(encoded, keepThenStrike)
    if (transactional) {
      // Its commit comes last. A store without transactions may have had all rows before the fault.
      expect(counted).toBeUndefined()
      await expect.poll(() => bench.store.rows().catch(() => undefined)).toEqual([])
    }
    if (counted === undefined) {
      await expect.poll(async () => (counted = await attempt(encoded, bench.keep))).toBeDefined()
    }
    bench.expectStored(counted!, { received: 500, stored: 499, deadLettered: 1 })
    expect(await bench.rows()).toHaveLength(499)
    expect(bench.rejections.map(rejection => rejection.message)).toEqual([250])
  }

  /** The counts; undefined for a transient failure. */
  async function attempt(encoded: unknown, reject: Reject): Promise<readonly MessageCounts[] | undefined> {
    try {
      return await bench.sink.write(encoded, reject, signal)
    } catch (error) {
      expect(bench.sink.classify(error), String(error)).toBe('transient')
      return undefined
    }
  }

  if (slow) {
    test('a server that answers late is waited for', async () => {
      bench.store.delay!(lateMs)
      onTestFinished(() => bench.store.delay!(0))
      bench.expectStored(await bench.write(withOnePoison()), { received: 500, stored: 499, deadLettered: 1 })
      bench.store.delay!(0)
      expect(await bench.rows()).toHaveLength(499)
      expect(bench.rejections.map(rejection => rejection.message)).toEqual([250])
    })

    test('a silent server blocks nothing: the write ends with its signal, and is retried later', async () => {
      const encoded = bench.sink.encode(withOnePoison())
      const givingUp = new AbortController()
      bench.store.pause!()
      try {
        const writing = bench.sink.write(encoded, bench.keep, givingUp.signal)
        writing.catch(() => undefined)
        // By then everything that can be sent has been.
        await wait(100)
        givingUp.abort(new Error('nobody waits any more'))
        await expect(writing).rejects.toThrow()
      } finally {
        await bench.store.resume!()
      }
      let counted: readonly MessageCounts[] | undefined
      await expect.poll(async () => (counted = await attempt(encoded, bench.keep))).toBeDefined()
      bench.expectStored(counted!, { received: 500, stored: 499, deadLettered: 1 })
      expect(await bench.rows()).toHaveLength(499)
    })
  }

  if (givesUp)
    test('a server that stops reading during a large batch is away, even without an abort of the write', async () => {
      // Tens of megabytes, which hardly compress.
      const stringValue = (): string => randomBytes(30_000).toString('hex')
      const large = Array.from({ length: 400 }, (_, offset) => ({ offset, records: [{ stringValue: stringValue() }] }))
      const encoded = bench.sink.encode(batchOf(0, 400, large))
      bench.store.pause!()
      try {
        expect(await attempt(encoded, bench.keep)).toBeUndefined()
      } finally {
        await bench.store.resume!()
      }
      let counted: readonly MessageCounts[] | undefined
      await expect.poll(async () => (counted = await attempt(encoded, bench.keep))).toBeDefined()
      bench.expectStored(counted!, { received: 400, stored: 400, deadLettered: 0 })
    })

  if (slow)
    test('an unavailable dead-letter log blocks nothing: the write ends with its signal, and is retried later', async () => {
      const encoded = bench.sink.encode(withOnePoison())
      const givingUp = new AbortController()
      const asked = Promise.withResolvers<void>()
      const never = (): Promise<never> => {
        asked.resolve()
        return new Promise(() => undefined)
      }
      const writing = bench.sink.write(encoded, never, givingUp.signal)
      writing.catch(() => undefined)
      await asked.promise
      givingUp.abort(new Error('nobody waits any more'))
      await expect(writing).rejects.toThrow()
      let counted: readonly MessageCounts[] | undefined
      await expect.poll(async () => (counted = await attempt(encoded, bench.keep))).toBeDefined()
      bench.expectStored(counted!, { received: 500, stored: 499, deadLettered: 1 })
      expect(bench.rejections.map(rejection => rejection.message)).toEqual([250])
    })

  /** Valid messages, with a refused one in the middle. */
  function withOnePoison(): RecordBatch {
    const poison = Object.values(bench.store.poisons)[0]!
    const messages = Array.from({ length: 500 }, (_, offset) => (offset === 250 ? poison(offset) : plain(offset)))
    return batchOf(0, 500, messages)
  }

  test('close waits for the running write', async () => {
    const poison = Object.values(bench.store.poisons)[0]!
    const asked = Promise.withResolvers<void>()
    const held = Promise.withResolvers<void>()
    const hold = (): Promise<void> => {
      asked.resolve()
      return held.promise
    }
    const order: string[] = []
    const writing = bench.sink
      .write(bench.sink.encode(batchOf(0, 2, [plain(0), poison(1)])), hold, signal)
      .then(() => order.push('written'))
    const closing = bench.sink.close().then(() => order.push('closed'))
    await asked.promise
    await nextTurn()
    expect(order).toEqual([])
    held.resolve()
    await Promise.all([writing, closing])
    expect(order).toEqual(['written', 'closed'])
    await bench.sink.close()
  })

  test('an unknown error stops the writer', () => {
    expect(bench.sink.classify(new Error('something else'))).toBe('systemic')
  })
}
