// The fake sink keeps the contract that the tests of the pipeline rely on, and fails as a test wants.

import { expect, test } from 'vitest'
import { maintainBy } from '../conformance/sink/fixture.ts'
import { type SinkStore, sinkConformance } from '../conformance/sink/index.ts'
import { noonUs, plainBatch } from './batches.ts'
import { openFakeAudit } from './fake-audit.ts'
import { openFakeErasure } from './fake-erasure.ts'
import { openFakeReplaySink } from './fake-replays.ts'
import { createFakeStore, openFakeSink } from './fake-sink.ts'

sinkConformance('the fake', fakeStore)

async function fakeStore(): Promise<SinkStore> {
  const store = createFakeStore()
  store.refuses = row => (row.name?.includes('\0') === true ? 'NUL' : undefined)
  return {
    open: identity => openFakeSink({ store, ...identity }),
    replays: { audit: openFakeAudit(store), openSink: async logNumber => openFakeReplaySink(store, logNumber) },
    erasure: openFakeErasure(store),
    maintain: (retention, now) => maintainBy(openFakeErasure(store), retention, now),
    rows: async () => store.rows.toSorted((a, b) => Number(a.position - b.position) || a.index - b.index),
    poisons: { 'a NUL': offset => ({ offset, records: [{ value: 1 }, { name: 'n\0', timeUs: noonUs }] }) },
    readableDuringWrite: true,
    keepsCounts: false,
    cutConnections: async () => {
      store.cut = true
    },
    formatsMax: store.formatsMax,
    formatsPerChannelMax: store.formatsPerChannelMax,
    close: async () => undefined,
  }
}

test.each(['transient', 'systemic', 'fenced', 'stale'] as const)('the fake sink fails once as configured: %s', async errorClass => {
  const sink = await openFakeSink()
  sink.store.failures.push({ errorClass })
  const write = () => sink.write(sink.encode(plainBatch(0, 1)), async () => undefined, new AbortController().signal)
  const error = await write().catch((error: unknown) => error)
  expect(sink.classify(error)).toBe(errorClass)
  expect(sink.store.rows).toEqual([])
  await write()
  expect(sink.store.rows).toHaveLength(1)
})
