// The time limit of one request: it ends walks between their batches, and a store that says nothing.

import { getEventListeners } from 'node:events'
import type { Db } from 'mongodb'
import { expect, test, vi } from 'vitest'
import { unlessAborted } from '../../config/aborting.ts'
import { foundBy } from '../../readers/mongodb/find.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../../readers/reader.ts'
import { withinTimeLimit } from '../../readers/time-limit.ts'

const { signal: never } = new AbortController()
const silence = new Promise<never>(() => undefined)

/** More batches than there is time for. */
const batchesMax = 10_000_000

/** A MongoDB whose batches are there at once; behind the last it answers nothing any more. */
function longStore(batches: number): { database: Db; closed: () => boolean } {
  let left = batches
  const cursor = {
    closed: false,
    hasNext: () => (left-- > 0 ? Promise.resolve(true) : silence),
    readBufferedDocuments: () => [Buffer.from('')],
    close: async () => void (cursor.closed = true),
  }
  return { database: { collection: () => ({ find: () => cursor }) } as unknown as Db, closed: () => cursor.closed }
}

async function walk(caller: AbortSignal, timeoutMs: number, onBatch: () => void, batches = batchesMax): Promise<void> {
  const { database, closed } = longStore(batches)
  try {
    await withinTimeLimit(caller, { timeoutMs }, async limit => {
      const batches = foundBy({ database, collection: 'messages', limit }, { conditions: {} })
      while ((await batches.next()).done !== true) onBatch()
    })
  } finally {
    expect(closed()).toBe(true)
  }
}

test('a walk ends when its time is over, however fast each batch comes', async () => {
  let batches = 0
  let nowMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  const onBatch = (): void => {
    batches++
    nowMs += 20_000
  }
  await expect(walk(never, 60_000, onBatch)).rejects.toBeInstanceOf(QueryTooLargeError)
  expect(batches).toBe(3)
})

test('a walk ends with the reason of its caller before the next batch', async () => {
  const going = new AbortController()
  const reason = new Error('gone')
  let batches = 0
  await expect(
    walk(going.signal, 60_000, () => {
      if (++batches === 3) going.abort(reason)
    }),
  ).rejects.toBe(reason)
  expect(batches).toBe(3)
})

test('a walk ends while it waits for the next batch', async () => {
  const going = new AbortController()
  const walking = walk(going.signal, 60_000, () => setImmediate(() => going.abort(new Error('gone'))), 1)
  await expect(walking).rejects.toThrow('gone')
})

test('a silent store gets the grace period after its time, and its own error', async () => {
  vi.useFakeTimers()
  try {
    const expired = (cause: unknown): Error => new StoreUnavailableError('away', { cause })
    let signal: AbortSignal | undefined
    const waiting = withinTimeLimit(never, { timeoutMs: 5_000, graceMs: 1_000, expired }, async limit => {
      ;({ signal } = limit)
      return await unlessAborted(silence, limit.signal)
    })
    waiting.catch(() => undefined)
    await vi.advanceTimersByTimeAsync(5_999)
    expect(signal!.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await expect(waiting).rejects.toBeInstanceOf(StoreUnavailableError)
  } finally {
    vi.useRealTimers()
  }
})

test('an error of the store is explained, and one of its caller is not', async () => {
  const parts = { timeoutMs: 60_000, explain: () => new StoreUnavailableError('explained') }
  await expect(withinTimeLimit(never, parts, () => Promise.reject(new Error('broken')))).rejects.toThrow('explained')
  const going = new AbortController()
  const failing = async (): Promise<void> => {
    going.abort(new Error('gone'))
    throw new Error('broken')
  }
  await expect(withinTimeLimit(going.signal, parts, failing)).rejects.toThrow('gone')
})

test('after the end its signal is aborted, and no listener and no timer stays', async () => {
  const asking = new AbortController()
  let signal: AbortSignal | undefined
  expect(
    await withinTimeLimit(asking.signal, { timeoutMs: 60_000 }, async limit => {
      ;({ signal } = limit)
      return 'answer'
    }),
  ).toBe('answer')
  expect(signal!.aborted).toBe(true)
  expect(getEventListeners(asking.signal, 'abort')).toEqual([])
})
