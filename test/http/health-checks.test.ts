// Health checks requested by many clients run once for all of them.

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openHealthChecks } from '../../http/health/checks.ts'
import { recordingLogger } from '../pipeline/writer/workers/recording-logger.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

function open(check: () => Promise<undefined>) {
  let runs = 0
  const observe = openHealthChecks({
    checks: {
      database() {
        runs++
        return check()
      },
    },
    timeoutMs: 5_000,
    sharedMs: 1_000,
    logger: recordingLogger().logger,
  })
  return { observe, runs: () => runs }
}

test('requests while the checks run, and within a second of their end, share one run', async () => {
  const answer = Promise.withResolvers<undefined>()
  const { observe, runs } = open(() => answer.promise)
  const first = observe()
  vi.advanceTimersByTime(3_000)
  const second = observe()
  answer.resolve(undefined)
  expect(await second).toBe(await first)
  vi.advanceTimersByTime(999)
  expect(await observe()).toBe(await first)
  expect(runs()).toBe(1)
  vi.advanceTimersByTime(1)
  await observe()
  expect(runs()).toBe(2)
})
