// The store and the sink of the test that runs, for the suites that share them.

import { afterEach, beforeEach, expect } from 'vitest'
import type { MessageCounts, Rejection, Sink } from '../../../sinks/sink.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { counts, type SinkStore } from './fixture.ts'

/** Never aborts. */
export const signal = new AbortController().signal

export interface Bench {
  readonly store: SinkStore
  /** Opened on an empty store; a test may open another one in its place, which is closed for it. */
  sink: Sink
  readonly rejections: Rejection[]
  readonly keep: (some: readonly Rejection[]) => Promise<void>
  write(batch: RecordBatch): Promise<readonly MessageCounts[]>
  /** Of a sink that keeps positions; else undefined. */
  position(partition?: number): Promise<number | undefined>
  /** Where the store goes on, if it keeps positions. */
  expectPosition(offset: number, partition?: number): Promise<void>
  values(): Promise<(number | undefined)[]>
  /** What is counted of so many messages that are written again, without gaps. */
  again(messages: number): MessageCounts
  /** The counts of a batch whose rows may be there in part, since a write before failed: what was there may be told apart. */
  expectStored(found: readonly MessageCounts[], expected: { received: number; stored: number; deadLettered: number }): void
}

/** @param transactional rows and positions are final together: a batch is there as a whole or not at all */
export function openBench(openStore: () => Promise<SinkStore>, transactional: boolean): Bench {
  let store: SinkStore
  let sink: Sink
  let rejections: Rejection[]

  beforeEach(async () => {
    store = await openStore()
    sink = await store.open()
    rejections = []
  })
  afterEach(async () => {
    await sink.close()
    await store.close()
  })

  const bench: Bench = {
    get store() {
      return store
    },
    get sink() {
      return sink
    },
    set sink(next) {
      sink = next
    },
    get rejections() {
      return rejections
    },
    async keep(some) {
      rejections.push(...some)
    },
    async write(batch) {
      const encoded = sink.encode(batch)
      const found = await sink.write(encoded, bench.keep, signal)
      sink.release?.(encoded)
      return found
    },
    position: async (partition = 0) => (await sink.positions?.([partition]))?.get(partition),
    async expectPosition(offset, partition) {
      expect(await bench.position(partition)).toBe(transactional ? offset : undefined)
    },
    values: async () => (await store.rows()).map(row => row.value),
    again: messages => counts({ received: messages, [transactional || store.tellsDuplicates === true ? 'duplicate' : 'stored']: messages }),
    expectStored([found], { received, stored, deadLettered }) {
      const there = transactional ? found!.stored : found!.stored + found!.duplicate
      expect({ ...found, stored: there, duplicate: 0 }).toEqual(counts({ received, stored, deadLettered }))
    },
  }
  return bench
}
