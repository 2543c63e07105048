// Retries with growing waits until it succeeds, fails permanently, or is aborted.

import { expect, test } from 'vitest'
import { retry, waitBefore } from '../../../pipeline/writer/retry.ts'
import type { ErrorClass } from '../../../sinks/sink.ts'

function watched(kind: ErrorClass = 'transient', waitMsMin = 1) {
  const seen: string[] = []
  return {
    seen,
    retrying: {
      backOff: { waitMsMin, waitMsMax: waitMsMin * 8 },
      classify: () => kind,
      onFailure: (_error: unknown, failures: number) => seen.push(`failure ${failures}`),
      onRecovery: () => seen.push('recovery'),
    },
  }
}
const never = new AbortController().signal

test('a transient failure is retried until it succeeds, and each attempt is reported', async () => {
  const { seen, retrying } = watched()
  let attempts = 0
  const result = await retry(
    async () => {
      if (++attempts < 4) throw new Error('away')
      return 'done'
    },
    retrying,
    never,
  )
  expect([result, attempts, seen]).toEqual(['done', 4, ['failure 1', 'failure 2', 'failure 3', 'recovery']])
})

test.each(['systemic', 'fenced', 'stale'] as const)('a %s failure is thrown immediately', async kind => {
  const { seen, retrying } = watched(kind)
  const error = new Error('no')
  await expect(retry(() => Promise.reject(error), retrying, never)).rejects.toBe(error)
  expect(seen).toEqual([])
})

test('an abort ends a wait immediately, and no attempt follows', async () => {
  const { retrying } = watched('transient', 600_000)
  const ending = new AbortController()
  let attempts = 0
  const tried = retry(
    async () => {
      attempts++
      throw new Error('away')
    },
    // In the next turn it waits.
    { ...retrying, onFailure: () => void setImmediate(() => ending.abort()) },
    ending.signal,
  )
  await expect(tried).rejects.toMatchObject({ name: 'AbortError' })
  await expect(retry(async () => attempts++, retrying, ending.signal)).rejects.toMatchObject({ name: 'AbortError' })
  expect(attempts).toBe(1)
})

test('waits double from the minimum to the maximum, with a random half', () => {
  const waits = (random: number) =>
    [1, 2, 3, 4, 5, 1000].map(failures => waitBefore(failures, { waitMsMin: 100, waitMsMax: 1000, random: () => random }))
  expect(waits(1)).toEqual([100, 200, 400, 800, 1000, 1000])
  expect(waits(0)).toEqual([50, 100, 200, 400, 500, 500])
})
