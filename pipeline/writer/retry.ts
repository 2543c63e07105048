// Retries transient failures forever, with growing waits, and jitter so that writers do not all come back at once.

import { setTimeout as wait } from 'node:timers/promises'
import type { ErrorClass } from '../../sinks/sink.ts'

export interface BackOff {
  readonly waitMsMin: number
  readonly waitMsMax: number
  /** From 0 to 1, exclusive. */
  readonly random?: () => number
}

export const defaultBackOff: BackOff = { waitMsMin: 100, waitMsMax: 15_000 }

export interface Retrying {
  readonly backOff: BackOff
  readonly classify: (error: unknown) => ErrorClass
  /** Called before each wait with the error, the number of consecutive failures, and the wait. */
  readonly onFailure: (error: unknown, failures: number, waitMs: number) => void
  /** Called when an attempt succeeds after a failed one. */
  readonly onRecovery: () => void
}

/**
 * Returns what `attempt` resolves with, however often it has to be called.
 *
 * @throws whatever is not transient, and the signal's reason as soon as it aborts
 */
export async function retry<Result>(
  attempt: () => Promise<Result>,
  { backOff, classify, onFailure, onRecovery }: Retrying,
  signal: AbortSignal,
): Promise<Result> {
  for (let failures = 0; ; failures++) {
    signal.throwIfAborted()
    try {
      const result = await attempt()
      if (failures > 0) onRecovery()
      return result
    } catch (error) {
      if (signal.aborted || classify(error) !== 'transient') throw error
      const waitMs = waitBefore(failures + 1, backOff)
      onFailure(error, failures + 1, waitMs)
      await wait(waitMs, undefined, { signal })
    }
  }
}

/** The wait before the nth retry: it doubles from the minimum to the maximum, minus a random part of up to a half. */
export function waitBefore(failures: number, { waitMsMin, waitMsMax, random = Math.random }: BackOff): number {
  const whole = Math.min(waitMsMax, waitMsMin * 2 ** Math.min(failures - 1, 30))
  return whole / 2 + (whole / 2) * random()
}
