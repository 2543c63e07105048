// Replays dead letters on fakes: which stay open and why, the report of a dry run, and the size of the batches.

import { expect, test } from 'vitest'
import type { DeadLetterFilter } from '../../../pipeline/dead-letters/filter.ts'
import { openDeadLetterQueue } from '../../../pipeline/dead-letters/queue.ts'
import { type ReplayOptions, type ReplayParts, replay } from '../../../pipeline/dead-letters/replay.ts'
import { MessageRefusedError } from '../../../pipeline/log.ts'
import { type DeadLetter, openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { openFakeAudit } from '../../sinks/fake-audit.ts'
import { openFakeReplaySink } from '../../sinks/fake-replays.ts'
import { createFakeStore } from '../../sinks/fake-sink.ts'
import { decoderFor } from '../audit/site.ts'
import { openFakeLog } from '../fake-log.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { pack, text } from '../writer/numbers.ts'

function lettersOf(messages: readonly ReturnType<typeof pack>[], from = 0, rule = 'numbers'): DeadLetter[] {
  return messages.map((message, nth) => ({
    stage: 'decode',
    at: logPartition(0, 0),
    offset: from + nth,
    rejection: { message: 0, rule, reason: 'no' },
    message,
  }))
}

function openSite(subjects?: string[]) {
  const store = createFakeStore()
  store.logs.push({ number: 1, name: 'messages', id: 'id-1', writer: 'writer-1', acceptedMs: 1 })
  store.nextOffsets.set('1/0', 1000)
  const log = openFakeLog('messages.dead-letters.writer-1')
  const dead = openDeadLetters({ logOf: async () => log, topics: ['messages'], logIds: ['id-1'], logNumbers: [1], writer: 'writer-1' })
  const batches: number[] = []
  const sink = openFakeReplaySink(store, 1)
  const parts: ReplayParts = {
    reader: openFakeTopicReader(log),
    log,
    decoder: decoderFor(subjects),
    audit: openFakeAudit(store),
    sinkOf: async () => ({
      ...sink,
      write(batch, ...rest) {
        batches.push(batch.messages.length)
        return sink.write(batch, ...rest)
      },
    }),
    topic: 'messages',
    writer: 'writer-1',
  }
  return {
    store,
    log,
    batches,
    tool: openDeadLetterQueue({ reader: openFakeTopicReader(log), log }),
    put: (messages: readonly ReturnType<typeof pack>[]) => dead.put(lettersOf(messages)),
    putAs: (rule: string, message: ReturnType<typeof pack>, offset: number) => dead.put(lettersOf([message], offset, rule)),
    /** From this offset on, of a topic with another id. */
    putOf: async (logId: string, messages: readonly ReturnType<typeof pack>[], from: number, logNumber = 1) => {
      const parts = { logOf: async () => log, topics: ['messages'], logIds: [logId], logNumbers: [logNumber], writer: 'writer-1' }
      await openDeadLetters(parts).put(lettersOf(messages, from))
    },
    run: (selection: DeadLetterFilter = {}, options: ReplayOptions = {}) => replay(parts, selection, options),
  }
}

test('letters that are still undecodable, filtered or empty stay open, each with its reason', async () => {
  const { store, tool, put, run } = openSite(['channels.c1.>'])
  await put([pack(1, 2), text('no numbers'), { ...pack(3), channel: 'c2' }, pack(), { ...pack(4), payload: new Uint8Array(300_000) }])
  const { replayed, left, reasons } = await run()
  expect([replayed, left]).toEqual([1, 4])
  expect(reasons).toEqual([
    { id: '1-0-1', reason: 'numbers: the root is no array (send an array of numbers)' },
    { id: '1-0-2', reason: 'the filters of the writer exclude its subject or its content type' },
    { id: '1-0-3', reason: 'it contains no records, so there is nothing to store' },
    { id: '1-0-4', reason: expect.stringMatching(/^payload-size: /) },
  ])
  expect(store.rows.map(({ value, timeUs }) => [value, timeUs])).toEqual([
    [1, 1_700_000_000_000_000],
    [2, 1_700_000_000_000_000],
  ])
  expect((await tool.list({}, 10)).letters.map(({ id }) => id)).toEqual(['1-0-1', '1-0-2', '1-0-3', '1-0-4'])
  expect((await tool.show('0-0'))[0]!.state).toBe('replayed')
})

test('a dry run reports how many would be tried and what would stay open, and changes nothing', async () => {
  const { store, log, put, run } = openSite()
  await put([pack(1), text('no numbers')])
  const messages = log.messages.length
  expect(await run({}, { dryRun: true })).toMatchObject({ replayed: 1, left: 1, reasons: [{ id: '1-0-1' }] })
  expect([store.rows.length, store.replayed.size, log.messages.length]).toEqual([0, 0, messages])
})

test('only selected letters are replayed, ids without a letter are named, and a dropped one is replayed by its id', async () => {
  const { store, tool, put, run } = openSite()
  await put([pack(1), pack(2), pack(3)])
  await tool.drop({ ids: ['0-1'] })
  expect(await run({ ids: ['0-1', '0-9'] })).toEqual({ replayed: 1, left: 0, reasons: [], missing: ['0-9'] })
  expect(store.rows.map(({ value }) => value)).toEqual([2])
  await expect(run({ ids: ['nonsense'] })).rejects.toThrow(RangeError)
})

test('thousands of letters are replayed in bounded batches with progress, and an abort ends the replay between two of them', async () => {
  const { store, batches, put, run } = openSite()
  store.nextOffsets.set('1/0', 5000)
  await put(Array.from({ length: 1000 }, (_, at) => pack(at, at)))
  const stopping = new AbortController()
  const seen: [number, number][] = []
  const onProgress = (done: number, total: number): void => {
    seen.push([done, total])
    if (done >= 400) stopping.abort(new Error('stopped'))
  }
  await expect(run({}, { onProgress, signal: stopping.signal })).rejects.toThrow('stopped')
  const stored = store.rows.length
  expect(stored).toBeGreaterThan(0)
  expect(stored).toBeLessThan(1000)
  expect(await run()).toMatchObject({ replayed: 1000 - stored / 2, left: 0 })
  expect(store.rows.length).toBe(2000)
  expect(new Set(store.rows.map(({ position, index }) => `${position} ${index}`)).size).toBe(2000)
  expect(Math.max(...batches)).toBeLessThanOrEqual(100)
  expect(seen.at(-1)![1]).toBe(1000)
})

test('letters stored before a failure of the store are resolved, and the next replay continues', async () => {
  const { store, tool, put, run } = openSite()
  await put(Array.from({ length: 150 }, (_, at) => pack(at)))
  store.failures.push(undefined, { errorClass: 'transient' })
  await expect(run()).rejects.toThrow('the fake store fails')
  expect((await tool.list({}, 0)).total).toBe(50)
  expect(await run()).toMatchObject({ replayed: 50, left: 0 })
  expect(store.rows.map(({ value }) => value)).toEqual(Array.from({ length: 150 }, (_, at) => at))
})

test("a letter without its message's content, or without its headers, stays open", async () => {
  const { log, put, putAs, run } = openSite()
  const append = log.append.bind(log)
  log.append = async messages => {
    if (messages.some(({ payload }) => payload.byteLength > 1000)) throw new MessageRefusedError('too large')
    return append(messages)
  }
  await put([{ ...pack(1), payload: new Uint8Array(5000) }])
  await putAs('header-limit', pack(1), 1)
  const reason = expect.stringContaining('its dead letter does not contain the whole message') as string
  expect((await run()).reasons).toEqual([
    { id: '1-0-0', reason },
    { id: '1-0-1', reason },
  ])
})

test('a letter of a topic whose number another log has now stays open', async () => {
  const { store, tool, put, run, putOf } = openSite()
  await put([pack(1)])
  await putOf('id-of-the-topic-before', [{ ...pack(2), channel: 'c2' }], 1)
  await putOf('id-1', [pack(3)], 2)
  expect(await run()).toEqual({
    replayed: 2,
    left: 1,
    reasons: [
      {
        id: '1-0-1',
        reason: expect.stringMatching(
          /no log 1 of the topic messages with the id id-of-the-topic-before .*: its number was freed, /,
        ) as string,
      },
    ],
    missing: [],
  })
  expect(store.rows.map(({ value }) => value)).toEqual([1, 3])
  expect((await tool.list({}, 10)).letters.map(({ id }) => id)).toEqual(['1-0-1'])
  expect((await tool.list({ topicId: 'id-1', all: true }, 10)).letters.map(({ id }) => id)).toEqual(['1-0-0', '1-0-2'])
})

test('a letter whose number was freed stops no other', async () => {
  const { store, put, run, putOf } = openSite()
  await putOf('id-1', [pack(1)], 0, 9)
  await put([pack(2)])
  expect(await run()).toMatchObject({
    replayed: 1,
    left: 1,
    reasons: [{ id: '9-0-0', reason: expect.stringContaining('was freed') as string }],
  })
  expect(store.rows.map(({ value }) => value)).toEqual([2])
})
