// Waits that end when a signal aborts, and leave nothing behind.

import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { aborted, pause, unlessAborted } from '../../config/aborting.ts'

test('without an abort the result is returned or thrown, and the listener is removed', async () => {
  const { signal } = new AbortController()
  expect(await unlessAborted(Promise.resolve('done'), signal)).toBe('done')
  await expect(unlessAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed')
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('an abort ends the wait with its reason, and the outcome of the work is ignored', async () => {
  const controller = new AbortController()
  const work = Promise.withResolvers<void>()
  const waiting = unlessAborted(work.promise, controller.signal)
  controller.abort(new Error('given up'))
  await expect(waiting).rejects.toThrow('given up')
  expect(getEventListeners(controller.signal, 'abort')).toEqual([])
  // An unhandled rejection would end the process.
  work.reject(new Error('too late'))
  await new Promise(resolve => setImmediate(resolve))
})

test('an aborted signal ends the wait immediately, also for work that has ended or failed', async () => {
  const signal = AbortSignal.abort(new Error('given up'))
  await expect(unlessAborted(Promise.resolve('done'), signal)).rejects.toThrow('given up')
  await expect(unlessAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('given up')
})

test('a pause ends after its time, or as soon as the signal aborts', async () => {
  const controller = new AbortController()
  const startedMs = performance.now()
  const long = pause(60_000, controller.signal)
  await pause(20, controller.signal)
  expect(performance.now() - startedMs).toBeGreaterThan(15)
  controller.abort()
  await Promise.all([long, pause(60_000, controller.signal), aborted(controller.signal)])
  expect(performance.now() - startedMs).toBeLessThan(30_000)
})
