// A machine that stood still: noticed by either clock, and only what ran then has to run again.

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { stoodStill, watchStandstills } from './standstills.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

test.each([
  ['a paused virtual machine', 60_000, 60_000, [60]],
  ['a laptop that slept, during which the monotonic clock stood', 60_000, 1_000, [60]],
  ['a clock that was set back', -3_600_000, 1_000, []],
  ['a busy machine', 4_900, 4_900, []],
])('%s', (_name, wallMs, monotonicMs, expected) => {
  const now = { wallMs: 1_000_000, monotonicMs: 500 }
  const reported: number[] = []
  const watch = watchStandstills(
    seconds => reported.push(seconds),
    () => ({ ...now }),
  )
  const tick = (wall: number, monotonic: number): void => {
    now.wallMs += wall
    now.monotonicMs += monotonic
    vi.advanceTimersByTime(1_000)
  }
  tick(1_000, 1_000)
  tick(wallMs, monotonicMs)
  tick(1_000, 1_000)
  watch.stop()
  expect(reported).toEqual(expected)
  expect(watch.seen).toEqual(expected.map(() => ({ fromMs: 1_500, toMs: 1_500 + monotonicMs })))
})

test('what ended before it or began after it is not concerned', () => {
  const standstills = [{ fromMs: 100, toMs: 200 }]
  const concerned = (startMs: number, endMs: number): boolean => stoodStill({ startMs, endMs }, standstills)
  expect([concerned(0, 99), concerned(0, 150), concerned(120, 130), concerned(150, 300), concerned(0, 300), concerned(201, 300)]).toEqual([
    false,
    true,
    true,
    true,
    true,
    false,
  ])
})
