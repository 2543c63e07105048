// The queue of the one connection: who goes first, who waits, and who gives up waiting.

import { expect, test } from 'vitest'
import { openQueue, type Queue } from '../../../config/postgres/turns.ts'

/** Takes the turn, and keeps it until the returned function is called. */
function occupy(queue: Queue): () => void {
  const held = Promise.withResolvers<void>()
  void queue(() => held.promise)
  return held.resolve
}

test('work that is not of readers goes first, and each kind in the order in which it was asked', async () => {
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

test('readers are not kept waiting for ever by work that never ends, which goes on between two of them', async () => {
  const queue = openQueue(5)
  const order: string[] = []
  // Two that ask again at once: there is always one that waits.
  const grants = [1, 2].map(async () => {
    while (order.filter(name => name === 'page').length < 3) await queue(async () => order.push('grant'))
  })
  const page = (): Promise<unknown> => queue(async () => order.push('page'), { priority: 'reader' })
  await Promise.all([page(), page(), page(), ...grants])
  expect(order.join(' ')).toMatch(/^(grant )+page (grant )+page (grant )+page/)
})

test('work whose signal aborts while it waits leaves the queue at once, and those behind it move up', async () => {
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

test('work that fails gives its turn to the next', async () => {
  const queue = openQueue(60_000)
  const failure = new Error('no')
  const failing = queue(() => Promise.reject(failure))
  const next = queue(async () => 'answered')
  await expect(failing).rejects.toBe(failure)
  expect(await next).toBe('answered')
})
