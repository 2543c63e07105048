// Batches end by rows, by bytes, and by age, so that messages on a quiet log are stored too; each covers a contiguous range.

import { afterEach, expect, test, vi } from 'vitest'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import type { RawChunk } from '../../../pipeline/source.ts'
import { batches, type PendingBatch } from '../../../pipeline/writer/batch.ts'
import { openDecoder } from '../../../pipeline/writer/decode.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { openFakeLog } from '../fake-log.ts'
import { openFakeSource } from '../fake-source.ts'
import { numbers, pack, text } from './numbers.ts'
import { defaults, makeWorld, startWriter, stored } from './parts.ts'

const decoder = openDecoder({ transformer: numbers, subscribed: () => true, message: defaults.message, clock: () => 1_700_000_000_000 })
afterEach(() => void vi.useRealTimers())

const never = { rows: 1_000_000, bytes: 1e9, ageMs: 60_000 }

/** The chunks of a log with these messages, which then ends. */
async function* chunksOf(messages: OutgoingMessage[], chunkMessagesMax: number): AsyncGenerator<RawChunk> {
  const log = openFakeLog()
  await log.append(messages)
  const ending = new AbortController()
  for await (const chunk of openFakeSource(log, { chunkMessagesMax }).chunks(ending.signal)) {
    yield chunk
    if (chunk.to === messages.length) ending.abort()
  }
}

async function all(pending: AsyncIterable<PendingBatch>): Promise<PendingBatch[]> {
  const taken: PendingBatch[] = []
  for await (const batch of pending) taken.push(batch)
  return taken
}

function shape({ batch }: PendingBatch): { ranges: [number, number][]; messages: number; rows: number } {
  return { ranges: batch.ranges.map(({ from, to }) => [from, to]), messages: batch.messages.length, rows: batch.rowCount }
}

test('a message on an idle log is stored when it reaches the age, not when the next one comes', async () => {
  const world = makeWorld()
  const { writer } = await startWriter(world, { batch: { ageMs: 30 } })
  await world.log.append([pack(1)])
  await expect.poll(() => stored(world.store), { interval: 1 }).toEqual([1])
  await writer.stop()
})

test('the age counts from the first message of a batch: later ones do not delay it', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
  const world = makeWorld()
  const { writer } = await startWriter(world, { batch: { ageMs: 40, rows: 1_000_000 } })
  await world.log.append([pack(1)])
  await vi.advanceTimersByTimeAsync(30)
  await world.log.append([pack(2)])
  await vi.advanceTimersByTimeAsync(9)
  expect(stored(world.store)).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(stored(world.store)).toEqual([1, 2])
  await writer.stop()
})

test('a batch ends at its rows, in the middle of a chunk, and the next continues there', async () => {
  const taken = await all(batches(chunksOf([pack(1, 2), pack(3), pack(4, 5, 6), pack(7)], 100), decoder, { ...never, rows: 3 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 2]], messages: 2, rows: 3 },
    { ranges: [[2, 3]], messages: 1, rows: 3 },
    { ranges: [[3, 4]], messages: 1, rows: 1 },
  ])
})

test('a batch may contain several chunks', async () => {
  const taken = await all(batches(chunksOf([pack(1), pack(2), pack(3), pack(4), pack(5)], 2), decoder, { ...never, rows: 4 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 4]], messages: 4, rows: 4 },
    { ranges: [[4, 5]], messages: 1, rows: 1 },
  ])
  expect(taken[0]!.chunks.map(({ from, to }) => [from, to])).toEqual([
    [0, 2],
    [2, 4],
  ])
})

test('a batch ends at its bytes, and messages without rows count as well', async () => {
  const empty = Array.from({ length: 8 }, () => pack())
  const taken = await all(batches(chunksOf(empty, 100), decoder, { ...never, bytes: 1000 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 4]], messages: 4, rows: 0 },
    { ranges: [[4, 8]], messages: 4, rows: 0 },
  ])
})

test('a batch ends when its chunks have its bytes, including keys and headers, which are in no payload', async () => {
  async function* heavy(): AsyncGenerator<RawChunk> {
    for await (const chunk of chunksOf([pack(1), pack(2), pack(3), pack(4), pack(5)], 1)) yield { ...chunk, byteLength: 400 }
  }
  const taken = await all(batches(heavy(), decoder, { ...never, bytes: 1000 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 3]], messages: 3, rows: 3 },
    { ranges: [[3, 5]], messages: 2, rows: 2 },
  ])
})

test('gaps are inside the range: before, between, after, and as the only content of a chunk', async () => {
  async function* gappy(): AsyncGenerator<RawChunk> {
    const [chunk] = await all2(chunksOf([pack(1), pack(2)], 100))
    yield { ...chunk!, from: 0, to: 9, cursor: () => spread(chunk!, [3, 6]) }
    yield { at: logPartition(0, 0), from: 9, to: 12, byteLength: 0, cursor: () => spread(chunk!, []) }
  }
  const taken = await all(batches(gappy(), decoder, never))
  expect(taken.map(shape)).toEqual([{ ranges: [[0, 12]], messages: 2, rows: 2 }])
  expect([...taken[0]!.batch.messages.offset.subarray(0, 2)]).toEqual([3, 6])

  async function all2(chunks: AsyncIterable<RawChunk>): Promise<RawChunk[]> {
    const found: RawChunk[] = []
    for await (const chunk of chunks) found.push(chunk)
    return found
  }
  /** The chunk's messages at other offsets. */
  function spread(chunk: RawChunk, offsets: number[]) {
    const cursor = chunk.cursor()
    let at = 0
    return {
      message: cursor.message,
      key: () => cursor.key(),
      headers: () => cursor.headers(),
      next() {
        if (at === offsets.length || !cursor.next()) return false
        cursor.message.offset = offsets[at++]!
        return true
      },
    }
  }
})

test('an undecodable message leaves no row, and removes none of its neighbours', async () => {
  const [taken] = await all(batches(chunksOf([pack(1), text('[2,"x"]'), pack(3), text('bug')], 100), decoder, never))
  expect([...taken!.batch.records.number.subarray(0, 2)]).toEqual([1, 3])
  expect(taken!.batch.rowCount).toBe(2)
  expect(taken!.rejections).toEqual([
    { message: 1, rule: 'numbers', record: 1, reason: 'record 1: string is no number', hint: '' },
    {
      message: 3,
      rule: 'transformer-fault',
      reason: 'TypeError: cannot read properties of undefined',
      hint: 'this is a bug in the transformer, not a mistake of the sender: report it',
    },
  ])
})

test('no chunk is requested before a batch is', async () => {
  let asked = 0
  async function* chunks(): AsyncGenerator<RawChunk> {
    asked++
    yield* chunksOf([pack(1)], 1)
  }
  const pending = batches(chunks(), decoder, never)
  await new Promise(setImmediate)
  expect(asked).toBe(0)
  await pending.next()
  expect(asked).toBe(1)
})
