// Batches are cut by rows, by bytes, and by age, so that a quiet log is stored, too; each covers a contiguous range.

import { expect, test } from 'vitest'
import { batches, type PendingBatch } from '../../pipeline/batch.ts'
import { openDecoder } from '../../pipeline/decode.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import type { RawRun } from '../../pipeline/source.ts'
import { openFakeLog } from './fake-log.ts'
import { openFakeSource } from './fake-source.ts'
import { numbers, pack, text } from './numbers.ts'
import { defaults, makeWorld, startWriter, stored } from './parts.ts'

const decoder = openDecoder({ transformer: numbers, subscribed: () => true, message: defaults.message, clock: () => 1_700_000_000_000 })
const never = { rows: 1_000_000, bytes: 1e9, ageMs: 60_000 }

/** The runs of a log that holds these messages and then ends. */
async function* runsOf(messages: OutgoingMessage[], runMessagesMax: number): AsyncGenerator<RawRun> {
  const log = openFakeLog()
  await log.append(messages)
  const ending = new AbortController()
  for await (const run of openFakeSource(log, { runMessagesMax }).runs(ending.signal)) {
    yield run
    if (run.to === messages.length) ending.abort()
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

test('the age counts from the first message of a batch: later ones do not put it off', async () => {
  const world = makeWorld()
  const { writer } = await startWriter(world, { batch: { ageMs: 40, rows: 1_000_000 } })
  // Without an end to the trickle, a batch whose age began anew with each message would never be stored.
  const trickle = setInterval(() => void world.log.append([pack(2)]), 3)
  await world.log.append([pack(1)])
  await expect.poll(() => stored(world.store).length, { interval: 1 }).toBeGreaterThan(0)
  clearInterval(trickle)
  await writer.stop()
})

test('a batch is cut at its rows, in the middle of a run, and the next goes on where it ended', async () => {
  const taken = await all(batches(runsOf([pack(1, 2), pack(3), pack(4, 5, 6), pack(7)], 100), decoder, { ...never, rows: 3 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 2]], messages: 2, rows: 3 },
    { ranges: [[2, 3]], messages: 1, rows: 3 },
    { ranges: [[3, 4]], messages: 1, rows: 1 },
  ])
})

test('a batch takes several runs', async () => {
  const taken = await all(batches(runsOf([pack(1), pack(2), pack(3), pack(4), pack(5)], 2), decoder, { ...never, rows: 4 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 4]], messages: 4, rows: 4 },
    { ranges: [[4, 5]], messages: 1, rows: 1 },
  ])
  expect(taken[0]!.runs.map(({ from, to }) => [from, to])).toEqual([
    [0, 2],
    [2, 4],
  ])
})

test('a batch is cut at its bytes, and messages without rows count as well', async () => {
  const empty = Array.from({ length: 8 }, () => pack())
  const taken = await all(batches(runsOf(empty, 100), decoder, { ...never, bytes: 1000 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 4]], messages: 4, rows: 0 },
    { ranges: [[4, 8]], messages: 4, rows: 0 },
  ])
})

test('a batch is cut where its runs hold its bytes, whatever they hold: keys and headers are in no payload', async () => {
  async function* heavy(): AsyncGenerator<RawRun> {
    for await (const run of runsOf([pack(1), pack(2), pack(3), pack(4), pack(5)], 1)) yield { ...run, byteLength: 400 }
  }
  const taken = await all(batches(heavy(), decoder, { ...never, bytes: 1000 }))
  expect(taken.map(shape)).toEqual([
    { ranges: [[0, 3]], messages: 3, rows: 3 },
    { ranges: [[3, 5]], messages: 2, rows: 2 },
  ])
})

test('gaps lie inside the range: before, between, after, and where a run is nothing else', async () => {
  async function* gappy(): AsyncGenerator<RawRun> {
    const [run] = await all2(runsOf([pack(1), pack(2)], 100))
    yield { ...run!, from: 0, to: 9, cursor: () => spread(run!, [3, 6]) }
    yield { partition: 0, from: 9, to: 12, byteLength: 0, cursor: () => spread(run!, []) }
  }
  const taken = await all(batches(gappy(), decoder, never))
  expect(taken.map(shape)).toEqual([{ ranges: [[0, 12]], messages: 2, rows: 2 }])
  expect([...taken[0]!.batch.messages.offset.subarray(0, 2)]).toEqual([3, 6])

  async function all2(runs: AsyncIterable<RawRun>): Promise<RawRun[]> {
    const found: RawRun[] = []
    for await (const run of runs) found.push(run)
    return found
  }
  /** The run's messages at other offsets. */
  function spread(run: RawRun, offsets: number[]) {
    const cursor = run.cursor()
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

test('an undecodable message leaves no row of its own and none out of its neighbours', async () => {
  const [taken] = await all(batches(runsOf([pack(1), text('[2,"x"]'), pack(3), text('bug')], 100), decoder, never))
  expect([...taken!.batch.records.number.subarray(0, 2)]).toEqual([1, 3])
  expect(taken!.batch.rowCount).toBe(2)
  expect(taken!.rejections).toEqual([
    { message: 1, rule: 'numbers', record: 1, reason: 'record 1: string is no number', hint: '' },
    {
      message: 3,
      rule: 'transformer-fault',
      reason: 'TypeError: cannot read properties of undefined',
      hint: 'this is a fault of the transformer, not of the sender: report it',
    },
  ])
})

test('nothing is taken from the runs before a batch is asked for', async () => {
  let asked = 0
  async function* runs(): AsyncGenerator<RawRun> {
    asked++
    yield* runsOf([pack(1)], 1)
  }
  const pending = batches(runs(), decoder, never)
  await new Promise(resolve => setTimeout(resolve, 5))
  expect(asked).toBe(0)
  await pending.next()
  expect(asked).toBe(1)
})
