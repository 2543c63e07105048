// What a copy leaves out, and when it refuses to begin or to go on. That it copies every row is in test/conformance/copy.ts.

import { expect, test } from 'vitest'
import { type CopyParts, copyStore } from '../../../pipeline/copy/copy.ts'
import { RowSums } from '../../../pipeline/copy/sums.ts'
import type { LogIdentity } from '../../../sinks/logs.ts'
import { packedPosition } from '../../../sinks/sink.ts'
import type { StoredRow } from '../../conformance/sink/fixture.ts'
import { batchOf, plain, type TestMessage } from '../../sinks/batches.ts'
import { openFakeAudit } from '../../sinks/fake-audit.ts'
import { openFakeErasure } from '../../sinks/fake-erasure.ts'
import { openFakeReplaySink } from '../../sinks/fake-replays.ts'
import { createFakeStore, type FakeStore, openFakeSink } from '../../sinks/fake-sink.ts'

const signal = new AbortController().signal
const log: LogIdentity = { logName: 'messages', logId: 'id-1', writer: 'writer-1' }

/** A source with these messages of partition 0. */
async function sourceWith(messages: readonly TestMessage[]): Promise<FakeStore> {
  const sink = await openFakeSink(log)
  await sink.write(sink.encode(batchOf(0, messages.length, messages)), () => Promise.reject(new Error('refused')), signal)
  return sink.store
}

function partsOf(source: FakeStore, target: FakeStore, some: Partial<CopyParts> = {}, isFlat = false): CopyParts {
  return {
    source: {
      audit: openFakeAudit(source),
      isFlat: false,
      positionsOf: async ({ partitions }) => new Map(Array.from(partitions, ([partition, { nextOffset }]) => [partition, nextOffset])),
    },
    target: {
      audit: openFakeAudit(target),
      isFlat,
      positionsOf: async () => new Map(),
      openSink: identity => openFakeSink({ ...identity, store: target }),
      openReplays: async number => openFakeReplaySink(target, number),
      openErasure: async () => openFakeErasure(target),
    },
    batch: { rows: 3, bytes: 1 << 20 },
    contents: true,
    backOff: { waitMsMin: 1, waitMsMax: 1 },
    signal,
    ...some,
  }
}

const offsetsOf = (rows: readonly StoredRow[]): number[] => rows.map(({ position }) => Number(position & 0xfff_ffff_ffffn))

test('messages that the target refuses are named, and all others are copied', async () => {
  const source = await sourceWith(Array.from({ length: 14 }, (_, offset) => plain(offset)))
  const target = createFakeStore()
  target.refuses = ({ value }) => (value! % 7 === 3 ? 'unlucky' : undefined)
  const [copy] = await copyStore(partsOf(source, target))
  const refused = [3, 10].map(offset => ({ id: `1-0-${offset}`, rule: 'store-refused', reason: 'unlucky' }))
  expect(copy).toMatchObject({ written: 12, not_copied: 2, first: refused })
  expect(copy!.partitions).toEqual([{ partition: 0, position: 14, rows: 12, target_rows: 12, differing: [] }])
  expect(offsetsOf(target.rows)).toEqual([0, 1, 2, 4, 5, 6, 7, 8, 9, 11, 12, 13])
})

test('rows that no writer has stored like this, and messages with rows of two channels, are named and stay', async () => {
  const source = await sourceWith([plain(0), plain(1), { offset: 2, records: [{ value: 1 }, { value: 2 }] }, plain(3)])
  source.rows[1] = { ...source.rows[1]!, value: Number.NaN }
  source.rows[2] = { ...source.rows[2]!, channel: 'other' }
  const target = createFakeStore()
  const [copy] = await copyStore(partsOf(source, target))
  expect(copy).toMatchObject({
    written: 2,
    not_copied: 2,
    first: [
      { id: '1-0-1', rule: 'foreign-row', reason: 'the column value of a row is not as a writer stores it' },
      { id: '1-0-2', rule: 'foreign-row', reason: 'the column channel of a row is not as a writer stores it' },
    ],
    partitions: [{ rows: 2, target_rows: 2, differing: [] }],
  })
  expect(offsetsOf(target.rows)).toEqual([0, 3])
})

test('documents are flattened for a store of flattened ones; one without fields is nothing there, and one with a key with a slash stays', async () => {
  const document = (offset: number, ...payloads: object[]) => ({
    offset,
    documents: payloads.map(payload => ({ format: 'engine', payload: { ...payload } })),
  })
  const source = await sourceWith([
    document(0, { a: { b: 1 }, c: [1] }),
    document(1, {}, { x: null }, { y: 2n ** 60n }),
    document(2, {}),
    document(3, { 'a/b': 1 }),
    plain(4),
  ])
  const target = createFakeStore()
  const [copy] = await copyStore(partsOf(source, target, {}, true))
  expect(copy).toMatchObject({ written: 3, dropped: 3, not_copied: 1, first: [{ id: '1-0-3', rule: 'flatten-key' }] })
  expect(copy!.partitions[0]).toMatchObject({ rows: 3, target_rows: 3, differing: [] })
  const rows = target.rows.filter(({ payload }) => payload !== undefined)
  expect(rows.map(({ index, payload }) => [index, payload && { ...payload }])).toEqual([
    [0, { 'a/b': 1, c: '[1]' }],
    [2, { y: 2 ** 60 }],
  ])
})

test('a target that is away for a while is waited for, and nothing is stored twice', async () => {
  const source = await sourceWith(Array.from({ length: 9 }, (_, offset) => plain(offset)))
  const target = createFakeStore()
  target.failures.push(undefined, { errorClass: 'transient' }, { errorClass: 'transient', when: 'commit' })
  const failures: unknown[] = []
  const [copy] = await copyStore(partsOf(source, target, { onFailure: error => failures.push(error) }))
  expect(failures).toHaveLength(2)
  expect(copy).toMatchObject({ written: 9, partitions: [{ rows: 9, target_rows: 9, differing: [] }] })
  expect(offsetsOf(target.rows)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
})

test('a row that the target has and the source has not, and one with another column, are found with their offsets', async () => {
  const source = await sourceWith(Array.from({ length: 9 }, (_, offset) => plain(offset)))
  const target = createFakeStore()
  await copyStore(partsOf(source, target))
  const differing = [{ from: 0, to: 2 ** 14 }]
  target.rows[4] = { ...target.rows[4]!, unit: 'K' }
  expect((await copyStore(partsOf(source, target)))[0]!.partitions[0]).toMatchObject({ rows: 9, target_rows: 9, differing })
  expect((await copyStore(partsOf(source, target, { contents: false })))[0]!.partitions[0]).toMatchObject({ differing: [] })
  target.rows.push({ ...target.rows[4], index: 7 })
  expect((await copyStore(partsOf(source, target, { contents: false })))[0]!.partitions[0]).toMatchObject({
    rows: 9,
    target_rows: 10,
    differing,
  })
})

test('a source whose writer goes on meanwhile is not copied', async () => {
  const source = await sourceWith([plain(0), plain(1)])
  const target = createFakeStore()
  const parts = partsOf(source, target)
  const openSink: CopyParts['target']['openSink'] = identity => {
    source.nextOffsets.set('1/0', 3)
    return parts.target.openSink(identity)
  }
  await expect(copyStore({ ...parts, target: { ...parts.target, openSink } })).rejects.toThrow(
    'the writer "writer-1" has stored messages into the source meanwhile: stop all its processes, and copy again',
  )
})

test('what is replayed or erased in the source meanwhile is found, and what was replayed later cannot be added behind the target', async () => {
  const source = await sourceWith([plain(0), { offset: 1, outcome: 'deadLettered' }, plain(2)])
  const target = createFakeStore()
  const parts = partsOf(source, target)
  const meanwhile = (change: () => unknown): CopyParts => ({
    ...parts,
    target: {
      ...parts.target,
      async openSink(identity) {
        await change()
        return parts.target.openSink(identity)
      },
    },
  })
  const note = { id: 'e', channel: 'c', startedMs: 1, endedMs: 2, rows: 1, deadLetters: 0, logs: [] }
  const erasing = copyStore(meanwhile(() => openFakeErasure(source).note(note)))
  await expect(erasing).rejects.toThrow('messages were erased from the source meanwhile: erase them from the target too, and copy again')
  const replaying = copyStore(meanwhile(() => openFakeReplaySink(source, 1).note(new Set([packedPosition(1, 0, 1)]), signal)))
  await expect(replaying).rejects.toThrow('dead letters of the log "messages" were replayed into the source meanwhile: copy again')
  await expect(copyStore(parts)).rejects.toThrow(
    'the dead letter of offset 1 of partition 0 was replayed into the source after an earlier copy, and the target has passed it: copy into an empty store',
  )
  expect((await openFakeAudit(target).replayed(1, 0, 0, 9)).size).toBe(0)
})

test('a target that has the number of a log for another one, or was written since, is refused, and so is a source without logs', async () => {
  const source = await sourceWith([plain(0), plain(1)])
  const { store: taken } = await openFakeSink({ ...log, logName: 'other' })
  await expect(copyStore(partsOf(source, taken))).rejects.toThrow(
    /^the target cannot take the log "messages" as number 1, which its rows keep: the store has the log "other"/,
  )
  const ahead = createFakeStore()
  await copyStore(partsOf(source, ahead))
  ahead.nextOffsets.set('1/0', 3)
  const since = 'the target stands at offset 3 of partition 0, and the source at 2'
  await expect(copyStore(partsOf(source, ahead))).rejects.toThrow(since)
  const { target, ...parts } = partsOf(source, createFakeStore())
  const withoutPositions = {
    ...target,
    positionsOf: async () => new Map([[0, 3]]),
    openSink: async (identity: LogIdentity) => {
      const sink = await target.openSink(identity)
      delete sink.positions
      return sink
    },
  }
  await expect(copyStore({ ...parts, target: withoutPositions })).rejects.toThrow(since)
  await expect(copyStore(partsOf(createFakeStore(), createFakeStore()))).rejects.toThrow('the source has no logs')
})

test('sums do not depend on the order of rows, and tell a row from two, and each position, index and text', () => {
  const at = (offset: number) => packedPosition(1, 3, offset)
  const sumsOf = (...rows: [offset: number, row: number | string][]): RowSums => {
    const sums = new RowSums()
    for (const [offset, row] of rows) sums.add(at(offset), row)
    return sums
  }
  const sums = sumsOf([1, 0], [2, 0], [20_000, 0])
  expect(sums.differingFrom(sumsOf([20_000, 0], [2, 0], [1, 0]))).toEqual([])
  for (const other of [
    sumsOf([1, 0], [20_000, 0]),
    sumsOf([1, 0], [1, 0], [20_000, 0]),
    sumsOf([1, 0], [2, 1], [20_000, 0]),
    sumsOf([1, 0], [2, '0 '], [20_000, 0]),
  ])
    expect(sums.differingFrom(other)).toEqual([sums.blocks()[0]])
  sums.remove(at(20_000), 0)
  expect(sums.differingFrom(sumsOf([1, 0], [2, 0]))).toEqual([])
  expect(sumsOf([1, 0], [2, 0]).differingFrom(sums)).toEqual([])
})
