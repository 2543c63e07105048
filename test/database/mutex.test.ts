// The queue of the single connection: priorities, order, and aborted waits.

import { expect, onTestFinished, test, vi } from 'vitest'
import { openQueue, type Queue } from '../../database/mutex.ts'

/** Takes the turn until the returned function is called. */
function occupy(queue: Queue): () => void {
  const held = Promise.withResolvers<void>()
  void queue(() => held.promise)
  return held.resolve
}

test("work other than readers' goes first, and each kind in the order of its requests", async () => {
  const queue = openQueue(60_000)
  const release = occupy(queue)
  const order: string[] = []
  const ask = (name: string, priority?: 'reader'): Promise<unknown> =>
    queue(async () => order.push(name), priority === undefined ? {} : { priority })
  const all = [ask('page 1', 'reader'), ask('grant 1'), ask('page 2', 'reader'), ask('grant 2'), ask('page 3', 'reader')]
  release()
  await Promise.all(all)
  expect(order).toEqual(['grant 1', 'grant 2', 'page 1', 'page 2', 'page 3'])
})

test('readers are not starved by endless work, which continues between two of them', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const queue = openQueue(5)
  const order: string[] = []
  const grant = async (): Promise<void> => {
    order.push('grant')
    vi.advanceTimersByTime(1)
  }
  // Two that request again immediately, so that one always waits.
  const grants = [1, 2].map(async () => {
    while (order.filter(name => name === 'page').length < 3) await queue(grant)
  })
  const page = (): Promise<unknown> => queue(async () => order.push('page'), { priority: 'reader' })
  await Promise.all([page(), page(), page(), ...grants])
  expect(order.join(' ')).toMatch(/^(grant )+page (grant )+page (grant )+page/)
})

test('work whose signal aborts while it waits leaves the queue immediately, and the next ones move up', async () => {
  const queue = openQueue(60_000)
  const release = occupy(queue)
  const abort = new AbortController()
  const reason = new Error('not any more')
  const given = queue(async () => expect.unreachable(), { signal: abort.signal, priority: 'reader' })
  const behind = queue(async () => 'answered', { priority: 'reader' })
  abort.abort(reason)
  await expect(given).rejects.toBe(reason)
  await expect(queue(async () => expect.unreachable(), { signal: abort.signal })).rejects.toBe(reason)
  release()
  expect(await behind).toBe('answered')
})

test('failed work passes its turn to the next', async () => {
  const queue = openQueue(60_000)
  const failure = new Error('no')
  const failing = queue(() => Promise.reject(failure))
  const next = queue(async () => 'answered')
  await expect(failing).rejects.toBe(failure)
  expect(await next).toBe('answered')
})
