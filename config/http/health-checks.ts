// The checks of a process: run for all who ask at about the same time. Outages are told in the log by who meets them at work.

import type { Logger } from '../logger.ts'
import { factOf } from '../outage.ts'

/** One dependency. Resolves with what is worth saying (a version, a lag), or throws when it does not answer as it should. */
export type HealthCheck = (signal: AbortSignal) => Promise<string | undefined>

/** A check that has nothing to tell when it passes. */
export function silent(check: () => Promise<void>): HealthCheck {
  return async () => {
    await check()
    return undefined
  }
}

/** What came of one check, as `/health` tells it. */
export interface Observed {
  readonly status: 'pass' | 'fail'
  readonly observedValue: number
  readonly observedUnit: 'ms'
  readonly output?: string
}

export interface HealthChecksOptions {
  /** By name: `database`, `log`. */
  readonly checks: Readonly<Record<string, HealthCheck>>
  /** Milliseconds that one check may take. */
  readonly timeoutMs: number
  /** Milliseconds for which what was observed is told to others, too: strangers may ask, and as often as they like. */
  readonly sharedMs: number
  readonly logger: Pick<Logger, 'debug'>
}

/** @returns what runs every check, or takes part in the last run; never throws */
export function openHealthChecks({
  checks,
  timeoutMs,
  sharedMs,
  logger,
}: HealthChecksOptions): () => Promise<Readonly<Record<string, Observed>>> {
  let run: { readonly observed: Promise<Record<string, Observed>>; endsMs: number } | undefined

  async function observeAll(): Promise<Record<string, Observed>> {
    const observed = await Promise.all(Object.entries(checks).map(async ([name, check]) => [name, await observe(name, check)] as const))
    return Object.fromEntries(observed)
  }

  async function observe(name: string, check: HealthCheck): Promise<Observed> {
    const startedMs = performance.now()
    const told = (status: 'pass' | 'fail', output: string | undefined): Observed => ({
      status,
      observedValue: Math.round((performance.now() - startedMs) * 100) / 100,
      observedUnit: 'ms',
      ...(output === undefined ? {} : { output }),
    })
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      // A check may ignore its signal: the answer does not wait for it.
      const output = await Promise.race([check(timeout), aborted(timeout)])
      return told('pass', output)
    } catch (error) {
      logger.debug({ check: name, reason: factOf(error) }, 'a health check fails')
      return told('fail', timeout.aborted ? `no answer within ${timeoutMs} ms` : 'see the log')
    }
  }

  return () => {
    if (run === undefined || performance.now() >= run.endsMs) {
      const started = { observed: observeAll(), endsMs: Infinity }
      run = started
      void started.observed.then(() => (started.endsMs = performance.now() + sharedMs))
    }
    return run.observed
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}
