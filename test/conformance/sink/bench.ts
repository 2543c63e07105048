// The store and the sink of the running test, shared by the suites.

import { afterEach, beforeEach, expect } from 'vitest'
import type { MessageCounts, Rejection, Sink } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { counts, packed, type SinkStore, type StoredRow } from './fixture.ts'

/** Never aborts. */
export const signal = new AbortController().signal

export interface Bench {
  readonly store: SinkStore
  /** Opened on an empty store; a test may replace it with another one, which is closed for it. */
  sink: Sink
  readonly rejections: Rejection[]
  readonly keep: (some: readonly Rejection[]) => Promise<void>
  write(batch: RecordBatch): Promise<readonly MessageCounts[]>
  /** For a sink that keeps positions; else undefined. */
  position(partition?: number): Promise<number | undefined>
  /** Checks where the store resumes, if it keeps positions. */
  expectPosition(offset: number, partition?: number): Promise<void>
  /**
   * All rows except those of partly refused messages, which may exist only if the rejection says so.
   *
   * @param rejections of messages whose index is their offset from `from` on, in partition 0
   */
  rows(rejections?: readonly Rejection[], from?: number): Promise<StoredRow[]>
  values(): Promise<(number | undefined)[]>
  /** The counts of this many messages that are written again, without gaps. */
  again(messages: number): MessageCounts
  /** Checks the counts of a batch that may be stored in part, because an earlier write failed: stores may recognise those rows. */
  expectStored(found: readonly MessageCounts[], expected: { received: number; stored: number; deadLettered: number }): void
}

/** @param transactional whether rows and positions are stored together: a batch completely or not at all */
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
    async position(partition = 0) {
      const at = logPartition(0, partition)
      return (await sink.positions?.([at]))?.get(at)
    },
    async expectPosition(offset, partition) {
      expect(await bench.position(partition)).toBe(transactional ? offset : undefined)
    },
    async rows(some = rejections, from = 0) {
      const partial = new Set(some.filter(one => one.partial === true).map(({ message }) => packed(sink, from + message)))
      return (await store.rows()).filter(({ position }) => !partial.has(position))
    },
    values: async () => (await bench.rows()).map(row => row.value),
    again: messages => counts({ received: messages, [transactional || store.tellsDuplicates === true ? 'duplicate' : 'stored']: messages }),
    expectStored([found], { received, stored, deadLettered }) {
      const there = transactional ? found!.stored : found!.stored + found!.duplicate
      expect({ ...found, stored: there, duplicate: 0 }).toEqual(counts({ received, stored, deadLettered }))
    },
  }
  return bench
}
