// Checks that many ask for: run once for all of them, and told when their state changes.

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openHealthChecks } from '../../../config/http/health-checks.ts'
import { recordingLogger } from '../../pipeline/workers/recording-logger.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

function open(check: () => Promise<undefined>) {
  const recorded = recordingLogger()
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
    logger: recorded.logger,
  })
  return { observe, lines: () => recorded.lines().map(({ msg }) => msg), runs: () => runs }
}

test('those who ask while the checks run, and within a second of their end, are told of the same run', async () => {
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

test('a change of state is one line', async () => {
  let away = true
  const { observe, lines, runs } = open(() => (away ? Promise.reject(new Error('away')) : Promise.resolve(undefined)))
  const askFor = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      await observe()
      vi.advanceTimersByTime(1_000)
    }
  }
  await askFor(5)
  const failed = 'the health check database fails (away), attempt 1'
  expect([runs(), lines()]).toEqual([5, [failed]])
  away = false
  await askFor(5)
  expect(lines()).toEqual([failed, 'the health check database passes again after 5.0 s'])
  away = true
  await askFor(1)
  expect(lines()).toHaveLength(3)
})
