// Waiting that ends when a signal aborts, and leaves nothing behind.

import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { unlessAborted } from '../../config/aborting.ts'

test('what is waited for is given, or thrown, while nothing aborts; and the signal is let go', async () => {
  const { signal } = new AbortController()
  expect(await unlessAborted(Promise.resolve('done'), signal)).toBe('done')
  await expect(unlessAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed')
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('an abort ends the wait with its reason, and how the work ends later is nobody’s matter', async () => {
  const controller = new AbortController()
  const work = Promise.withResolvers<void>()
  const waiting = unlessAborted(work.promise, controller.signal)
  controller.abort(new Error('given up'))
  await expect(waiting).rejects.toThrow('given up')
  expect(getEventListeners(controller.signal, 'abort')).toEqual([])
  // Unhandled, it would end the process.
  work.reject(new Error('too late'))
  await new Promise(resolve => setImmediate(resolve))
})

test('a signal that has aborted before ends the wait at once, also for work that is done or has failed', async () => {
  const signal = AbortSignal.abort(new Error('given up'))
  await expect(unlessAborted(Promise.resolve('done'), signal)).rejects.toThrow('given up')
  await expect(unlessAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('given up')
})
