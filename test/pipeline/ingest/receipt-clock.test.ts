// The clock for times of receipt: the system's clock, with microseconds.

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openReceiptClock } from '../../../pipeline/ingest/receipt-clock.ts'

const startMs = 1_700_000_000_000

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance'], now: startMs }))
afterEach(() => void vi.useRealTimers())

test('it returns whole microseconds within the millisecond of the system clock', () => {
  vi.useRealTimers()
  const receiptUs = openReceiptClock()
  for (let i = 0; i < 50_000; i++) {
    const beforeMs = Date.now()
    const us = receiptUs()
    expect(Number.isSafeInteger(us)).toBe(true)
    expect(us).toBeGreaterThanOrEqual(beforeMs * 1000)
    expect(us).toBeLessThan((Date.now() + 1) * 1000)
  }
})

test('it follows adjustments of the system clock, forwards and back', () => {
  const receiptUs = openReceiptClock()
  vi.advanceTimersByTime(10)
  expect(receiptUs()).toBe((startMs + 10) * 1000)
  vi.setSystemTime(startMs + 3_600_000)
  expect(receiptUs()).toBe((startMs + 3_600_000) * 1000)
  vi.setSystemTime(startMs - 3_600_000)
  expect(receiptUs()).toBe((startMs - 3_600_000) * 1000)
  vi.advanceTimersByTime(5)
  expect(receiptUs()).toBe((startMs - 3_600_000 + 5) * 1000)
})

test('messages within one millisecond have different times', () => {
  vi.useRealTimers()
  const receiptUs = openReceiptClock()
  const times = Array.from({ length: 50_000 }, receiptUs)
  expect(new Set(times).size).toBeGreaterThan(new Set(times.map(us => Math.floor(us / 1000))).size * 10)
})
