// The time that a question has: it ends walks between their batches, and a store that says nothing.

import { getEventListeners } from 'node:events'
import type { Db } from 'mongodb'
import { expect, test, vi } from 'vitest'
import { foundBy } from '../../../readers/mongodb/found.ts'
import { openTimeLimit, type TimeLimit } from '../../../readers/mongodb/time-limit.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../../../readers/reader.ts'

const { signal: never } = new AbortController()

/** More batches than there is time for. */
const batchesMax = 10_000_000

/** Each batch is there at once, and there is another; behind the last nothing is answered any more. */
function longStore(batches: number): { database: Db; closed: () => boolean } {
  let left = batches
  const cursor = {
    closed: false,
    hasNext: () => (left-- > 0 ? Promise.resolve(true) : new Promise(() => undefined)),
    readBufferedDocuments: () => [Buffer.from('')],
    close: async () => void (cursor.closed = true),
  }
  return { database: { collection: () => ({ find: () => cursor }) } as unknown as Db, closed: () => cursor.closed }
}

async function walk(limit: TimeLimit, onBatch: (batch: readonly Buffer[]) => void, batches = batchesMax): Promise<void> {
  const { database, closed } = longStore(batches)
  try {
    for await (const batch of foundBy({ database, collection: 'messages', limit }, { filter: {} })) onBatch(batch)
  } finally {
    limit.end()
    expect(closed()).toBe(true)
  }
}

test('a walk is over when its time is, however quickly each batch comes', async () => {
  let batches = 0
  await expect(walk(openTimeLimit(never, 20), () => batches++)).rejects.toBeInstanceOf(QueryTooLargeError)
  expect(batches).toBeGreaterThan(1)
})

test('a walk ends with the reason of its caller before the next batch', async () => {
  const going = new AbortController()
  const reason = new Error('gone')
  let batches = 0
  const walking = walk(openTimeLimit(going.signal, 60_000), () => {
    if (++batches === 3) going.abort(reason)
  })
  await expect(walking).rejects.toBe(reason)
  expect(batches).toBe(3)
})

test('a walk ends while the next batch does not come', async () => {
  const going = new AbortController()
  const walking = walk(openTimeLimit(going.signal, 60_000), () => setImmediate(() => going.abort(new Error('gone'))), 1)
  await expect(walking).rejects.toThrow('gone')
})

test('a store that says nothing is away a second after the time that it had; one that has answered is left alone', async () => {
  vi.useFakeTimers()
  try {
    const silent = openTimeLimit(never, 5_000)
    const asking = new AbortController()
    const answered = openTimeLimit(asking.signal, 5_000)
    const waiting = silent.within(new Promise(() => undefined))
    waiting.catch(() => undefined)
    expect(await answered.within(Promise.resolve('yes'))).toBe('yes')
    answered.end()
    expect(getEventListeners(asking.signal, 'abort')).toEqual([])
    await vi.advanceTimersByTimeAsync(5_999)
    expect(silent.signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await expect(waiting).rejects.toBeInstanceOf(StoreUnavailableError)
    expect(answered.signal.aborted).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})

test('what is waited for in vain, and may fail later, fails nobody; no listener stays', async () => {
  const going = new AbortController()
  const limit = openTimeLimit(going.signal, 60_000)
  const late = Promise.withResolvers<never>()
  const waiting = limit.within(late.promise)
  going.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
  late.reject(new Error('nobody waits for this'))
  await expect(limit.within(Promise.resolve(1))).rejects.toThrow('gone')
  limit.end()
  expect(getEventListeners(going.signal, 'abort')).toEqual([])
  expect(getEventListeners(limit.signal, 'abort')).toEqual([])
})
