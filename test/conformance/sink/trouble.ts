// Faults on the way to a store: connections are cut, its server restarts, a sink is closed during a write.

import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { MessageCounts, Reject, Rejection } from '../../../sinks/sink.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { firstOf, inDepth } from '../../depth.ts'
import { batchOf, plain, type TestMessage } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import type { SinkTraits } from './fixture.ts'

/** Each way, of each exchange. */
const lateMs = 50

/** A write that is aborted ends within this time, which is shorter than every store's own time-out. */
const endMsMax = 8_000

const newFormat: TestMessage = { offset: 0, documents: [{ format: 'engine', payload: { a: 1 } }] }

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
    const counted = await attempt(encoded, keepThenStrike)
    if (transactional) {
      // Its commit comes last. A store without transactions may have had all rows before the fault.
      expect(counted).toBeUndefined()
      await expect.poll(() => bench.store.rows().catch(() => undefined)).toEqual([])
    }
    bench.expectStored(counted ?? (await written(encoded)), { received: 500, stored: 499, deadLettered: 1 })
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

  /** The counts of the first attempt that succeeds. */
  async function written(encoded: unknown): Promise<readonly MessageCounts[]> {
    let counted: readonly MessageCounts[] | undefined
    await expect.poll(async () => (counted = await attempt(encoded, bench.keep))).toBeDefined()
    return counted!
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

    test.each(
      firstOf([
        ['a batch', () => withOnePoison(), { received: 500, stored: 499, deadLettered: 1 }],
        ['a document of a new format', () => batchOf(0, 1, [newFormat]), { received: 1, stored: 1, deadLettered: 0 }],
      ] as const),
    )('a silent server blocks nothing: the write of %s ends with its signal, and is retried later', async (_what, batch, expected) => {
      const encoded = bench.sink.encode(batch())
      const givingUp = new AbortController()
      const reason = new Error('no caller waits any longer')
      bench.store.pause!()
      try {
        const writing = bench.sink.write(encoded, bench.keep, givingUp.signal).catch((error: unknown) => error)
        // By then everything that can be sent has been.
        await wait(100)
        givingUp.abort(reason)
        const ended = await Promise.race([writing, wait(endMsMax, 'still waiting', { ref: false })])
        expect(ended).toBe(reason)
      } finally {
        await bench.store.resume!()
      }
      bench.expectStored(await written(encoded), expected)
      expect(await bench.rows()).toHaveLength(expected.stored)
    })

    inDepth(() => {
      test('a write that is aborted before it starts stores nothing, and asks for no dead letter', async () => {
        const encoded = bench.sink.encode(withOnePoison())
        await expect(bench.sink.write(encoded, bench.keep, AbortSignal.abort())).rejects.toThrow(/aborted/)
        expect([await bench.store.rows(), bench.rejections]).toEqual([[], []])
      })
    })
  }

  if (givesUp)
    test.each(
      firstOf([
        // Tens of megabytes, which hardly compress.
        ['stops reading during a large batch', 400, () => ({ stringValue: randomBytes(30_000).toString('hex') })],
        ['reads a small batch and does not answer', 10, () => ({ value: 1 })],
      ] as const),
    )('a server that %s is away, even without an abort of the write', async (_what, messages, record) => {
      const batch = Array.from({ length: messages }, (_, offset) => ({ offset, records: [record()] }))
      const encoded = bench.sink.encode(batchOf(0, messages, batch))
      bench.store.pause!()
      try {
        const error: unknown = await bench.sink.write(encoded, bench.keep, signal).catch((error: unknown) => error)
        expect([bench.sink.classify(error), String(error)]).toEqual(['transient', expect.stringMatching(/timed ?out|has not answered/i)])
      } finally {
        await bench.store.resume!()
      }
      bench.expectStored(await written(encoded), { received: messages, stored: messages, deadLettered: 0 })
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
      givingUp.abort(new Error('no caller waits any longer'))
      await expect(writing).rejects.toThrow()
      bench.expectStored(await written(encoded), { received: 500, stored: 499, deadLettered: 1 })
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
