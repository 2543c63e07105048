// Between any two stores: a copy has every row of the source once, under its log, position and index, also if it was killed in between; and a writer
// goes on from there.

import { describe, expect, test } from 'vitest'
import { type CopyParts, copyStore, type LogCopy } from '../../pipeline/copy/copy.ts'
import type { AuditedLog, StoreAudit } from '../../sinks/audit.ts'
import type { Erasure, StoreErasure } from '../../sinks/erasure.ts'
import type { LogIdentity } from '../../sinks/logs.ts'
import type { ReplaySink } from '../../sinks/replay.ts'
import { packedPosition, type Sink } from '../../sinks/sink.ts'
import { flattenFrom } from '../../transformers/flattening.ts'
import { parsePayload } from '../../transformers/json/canonical.ts'
import { jsonText } from '../../transformers/json/json-text.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import type { JsonObject } from '../../transformers/record-batch.ts'
import { batchOf, noonUs, plain, type TestMessage } from '../sinks/batches.ts'
import { everyValue, type SinkStore, type StoredRow } from './sink/fixture.ts'

const signal = new AbortController().signal

/** An empty store, as source or target. */
export interface CopiedStore {
  /** Of one log, like the worker of a writer. */
  readonly openSink: (log: LogIdentity) => Promise<Sink>
  readonly openReplays: (logNumber: number) => Promise<ReplaySink>
  readonly erasure: StoreErasure
  readonly audit: StoreAudit
  readonly rows: () => Promise<StoredRow[]>
  /** Whether it keeps positions. */
  readonly transactional: boolean
  /** What a store of flattened documents keeps of a payload; absent for others. */
  readonly keptOf?: (payload: JsonObject) => JsonObject
  readonly close: () => Promise<void>
}

export function copiedStore(store: SinkStore, transactional: boolean, openSink?: CopiedStore['openSink']): CopiedStore {
  return {
    openSink: openSink ?? (log => store.open(log)),
    openReplays: store.replays.openSink,
    erasure: store.erasure,
    audit: store.replays.audit,
    rows: () => store.rows(),
    transactional,
    ...(store.keptOf === undefined ? {} : { keptOf: payload => store.keptOf!(payload) }),
    close: () => store.close(),
  }
}

const retired: LogIdentity = { logName: 'messages', logId: 'id-0', writer: 'writer-1', number: 1 }
const current: LogIdentity = { ...retired, logId: 'id-1', number: 2 }
const numberOf = ({ number }: LogIdentity) => number!

const erased: Erasure = {
  id: '2b2f4a52-6a3c-4f0e-9d5b-1c2d3e4f5a6b',
  publisher: 'gone',
  startedMs: 1_000,
  endedMs: 2_000,
  rows: 1,
  deadLetters: 0,
  logs: [{ number: 2, id: 'id-1', partitions: { 0: { stored: 3, reached: 5 } } }],
}

/** Where the writer of the source stands. In partition 0 it has more rows, of a batch whose offset was not committed. */
const positions = new Map([
  [0, 40_100],
  [3, 16_500],
])

const payload = {
  speed: 88.5,
  big: 9_007_199_254_740_993n,
  on: true,
  name: 'a',
  deep: { er: { list: [1, { x: 2 }], text: '' } },
  ten: 10,
} satisfies JsonObject
/** A few of those that every sink is tested with: each is a table. */
const formats = ['temp', 'Temp', `'); DROP TABLE messages; --`, 'größe', '\\', '__proto__', 'x'.repeat(200)]
const hostile = [`"; DROP TABLE messages; --`, 'größe 😀', 'a b,c=d', '__proto__', "o'clock", '%s$1', 'x'.repeat(200)]

/** Messages of every kind, at offsets of three blocks. */
function messagesOf(): TestMessage[] {
  const messages: TestMessage[] = Object.values(everyValue).map((record, offset) => ({
    offset,
    records: [record, { ...plain(0).records![0], timeUs: noonUs + 7 }],
  }))
  const next = (): number => messages.length + 5
  for (const name of hostile)
    messages.push({
      offset: next(),
      channel: name,
      subtopic: name,
      publisher: name,
      records: [{ name, unit: 'm', value: 1, timeUs: noonUs + 1 }],
    })
  for (const [nth, format] of formats.entries()) {
    const documents = [0, 1, 2].map(more => ({
      format,
      payload: { ...payload, more },
      createdUs: noonUs + nth - more,
      createdRestNs: 998 + (nth % 2),
    }))
    messages.push({ offset: next(), channel: `channel-${nth % 2}`, documents })
  }
  messages.push({ offset: next(), outcome: 'filtered' }, { offset: next() + 1 })
  // Of one series and millisecond, in another order than their times.
  messages.push({
    offset: 20_000,
    records: [
      { value: 1, timeUs: noonUs + 1 },
      { value: 2, timeUs: noonUs + 3 },
      { value: 3, timeUs: noonUs + 3 },
    ],
  })
  messages.push({ offset: 20_001, outcome: 'deadLettered' }, ...Array.from({ length: 60 }, (_, nth) => plain(40_000 + nth)))
  return messages
}

/** @param inFull false: only that every row is copied, also by a copy that was killed */
export function copyConformance(
  name: string,
  openSource: () => Promise<CopiedStore>,
  openTarget: () => Promise<CopiedStore>,
  inFull = true,
): void {
  /** A source with messages of a recreated topic. */
  async function withStores(work: (source: CopiedStore, target: CopiedStore) => Promise<void>): Promise<void> {
    const [source, target] = [await openSource(), await openTarget()]
    try {
      await fill(source)
      await work(source, target)
    } finally {
      await source.close()
      await target.close()
    }
  }

  async function fill(source: CopiedStore): Promise<void> {
    await write(source, retired, [plainOf(0, 3)])
    const above = source.transactional ? [] : [batchOf(40_100, 40_105, [plain(40_104)])]
    await write(source, { ...current, acceptNewLog: current.logId }, [
      batchOf(0, 40_100, messagesOf()),
      batchOf(0, 16_500, [plain(16_383), plain(16_384)], 3),
      ...above,
    ])
    await (await source.openReplays(2)).note(new Set([packedPosition(2, 0, 20_000)]), signal)
    await source.erasure.note(erased)
  }

  function partsOf(source: CopiedStore, target: CopiedStore, some: Partial<CopyParts> = {}): CopyParts {
    return {
      source: {
        audit: source.audit,
        isFlat: source.keptOf !== undefined,
        positionsOf: async log => (source.transactional ? positionsIn(log) : log.id === current.logId ? positions : undefined),
      },
      target: {
        audit: target.audit,
        isFlat: target.keptOf !== undefined,
        positionsOf: async () => new Map(),
        openSink: target.openSink,
        openReplays: target.openReplays,
        openErasure: async () => target.erasure,
      },
      batch: { rows: 7, bytes: 1 << 20 },
      spool: { rows: 40, bytes: 1 << 20 },
      signal,
      ...some,
    }
  }

  /** A store of JSON text has the double that flattening has left of a large integer with all its digits. */
  const nestedOf = (payload: JsonObject): JsonObject => parsePayload(jsonText(payload)) as JsonObject

  /** What the target has to have. */
  async function copiedRows(source: CopiedStore, { keptOf = nestedOf }: CopiedStore): Promise<StoredRow[]> {
    const rows = (await source.rows()).filter(row => (row.position & 0xfff_ffff_ffffn) < 40_100n)
    return rows.map(row => (row.payload === undefined ? row : { ...row, payload: keptOf(row.payload) }))
  }

  const writtenBy = (copies: readonly LogCopy[]): number => copies.reduce((sum, { written }) => sum + written, 0)

  describe(`a copy ${name}`, () => {
    test('every row keeps its log, position and index, with all its columns, and is there once', () =>
      withStores(async (source, target) => {
        const copies = await copyStore(partsOf(source, target, { contents: true }))
        expect(copies.flatMap(({ first }) => first)).toEqual([])
        const rows = await copiedRows(source, target)
        expect(await target.rows()).toEqual(rows)
        expect(copies.map(({ log, id, dropped }) => ({ log, id, dropped }))).toEqual([
          { log: 1, id: 'id-0', dropped: 0 },
          { log: 2, id: 'id-1', dropped: 0 },
        ])
        expect(writtenBy(copies)).toBe(rows.length)
        const partitions = copies.flatMap(copy => copy.partitions)
        expect(partitions.flatMap(({ differing }) => differing)).toEqual([])
        expect(partitions.map(({ rows, target_rows }) => [rows, target_rows])).toEqual([
          [3, 3],
          [rows.length - 5, rows.length - 5],
          [2, 2],
        ])
        expect(await target.audit.replayed(2, 0, 0, 50_000)).toEqual(new Set([20_000]))
        expect(await target.audit.erasures()).toEqual([erased])
        const known = (await target.audit.logs()).map(({ number, name, id, writer }) => ({ number, name, id, writer }))
        expect(known).toEqual((await source.audit.logs()).map(({ number, name, id, writer }) => ({ number, name, id, writer })))
      }))

    test('a copy that was killed goes on where it stood, and stores nothing twice', () =>
      withStores(async (source, target) => {
        const killed = { ...target, openSink: async (log: LogIdentity) => killedAfter(await target.openSink(log), 6) }
        await expect(copyStore(partsOf(source, killed))).rejects.toThrow('killed')
        const before = (await target.rows()).length
        expect(before).toBeGreaterThan(20)
        await expect(copyStore(partsOf(source, killed))).rejects.toThrow('killed')
        const copies = await copyStore(partsOf(source, target))
        const rows = await copiedRows(source, target)
        expect(await target.rows()).toEqual(rows)
        expect(writtenBy(copies)).toBeLessThan(rows.length - (target.transactional ? before : 0))
        expect(copies.flatMap(copy => copy.partitions).flatMap(({ differing }) => differing)).toEqual([])
      }))

    if (!inFull) return

    test('copied again there is nothing to write; rows that are larger than what may be on the disk come in smaller steps', () =>
      withStores(async (source, target) => {
        await copyStore(partsOf(source, target, { spool: { rows: 1000, bytes: 2000 } }))
        expect(await target.rows()).toEqual(await copiedRows(source, target))
        expect(writtenBy(await copyStore(partsOf(source, target)))).toBe(0)
        expect(await target.rows()).toEqual(await copiedRows(source, target))
      }))

    test('a writer goes on from the position of the source', () =>
      withStores(async (source, target) => {
        await copyStore(partsOf(source, target))
        const sink = await target.openSink(current)
        const of = [...positions.keys()].map(partition => logPartition(0, partition))
        if (target.transactional) expect(await sink.positions!(of)).toEqual(positions)
        const counts = await sink.write(sink.encode(batchOf(40_100, 40_103, [plain(40_100), plain(40_102)])), unexpected, signal)
        expect(counts).toMatchObject([{ received: 2, stored: 2, duplicate: 0 }])
        await sink.close()
        const added = (await target.rows()).filter(({ position }) => (position & 0xfff_ffff_ffffn) >= 40_100n)
        expect(added).toHaveLength(2)
        const again = copyStore(partsOf(source, target))
        if (target.transactional) await expect(again).rejects.toThrow('a writer has stored into the target since')
        else expect(writtenBy(await again)).toBe(0)
      }))

    test('a store with positions counts nothing that was copied', () =>
      withStores(async (source, target) => {
        await copyStore(partsOf(source, target))
        const copied = (await target.audit.logs())[0]!.partitions
        if (!target.transactional) return expect(copied).toEqual(new Map())
        const none = { received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, lost: 0 }
        expect(copied).toEqual(
          new Map([...positions].map(([partition, offset]) => [partition, { nextOffset: offset, copiedBelow: offset, ...none }])),
        )
      }))
  })
}

function positionsIn({ partitions }: AuditedLog): Map<number, number> {
  return new Map(Array.from(partitions, ([partition, { nextOffset }]) => [partition, nextOffset]))
}

function plainOf(from: number, to: number) {
  return batchOf(
    from,
    to,
    Array.from({ length: to - from }, (_, nth) => plain(from + nth)),
  )
}

async function write({ openSink, keptOf }: CopiedStore, log: LogIdentity, batches: readonly ReturnType<typeof batchOf>[]): Promise<void> {
  const sink = await openSink(log)
  await sink.takeNumbers([0])
  expect(sink.logNumbers).toEqual([numberOf(log)])
  for (const batch of batches) {
    if (keptOf !== undefined) flattenFrom(batch, 0)
    await sink.write(sink.encode(batch), unexpected, signal)
  }
  await sink.close()
}

async function unexpected(rejections: readonly unknown[]): Promise<void> {
  expect(rejections).toEqual([])
}

/** The process ends when this many batches are stored, and nothing of the next one is known. */
function killedAfter(sink: Sink, batches: number): Sink {
  let left = batches
  return {
    ...sink,
    async write(encoded, reject, signal) {
      const counts = await sink.write(encoded, reject, signal)
      if (--left === 0) throw new Error('killed')
      return counts
    },
    classify: error => (error instanceof Error && error.message === 'killed' ? 'systemic' : sink.classify(error)),
  }
}
