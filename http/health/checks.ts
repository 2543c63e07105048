// Runs the health checks of a process; requests at about the same time share one run. Outages are logged by the code that uses the dependency, not here.

import { unlessAborted } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'

/**
 * Checks one dependency. Throws if it does not work; a text that it resolves with (a version, a lag) is shown. It resolves with `warning` if everything
 * works and someone should look at the log nevertheless.
 */
export type HealthCheck = (signal: AbortSignal) => Promise<unknown>
export const warning: unique symbol = Symbol('warning')

/** The result of one check, as in `/health`. */
export interface Observed {
  readonly status: 'pass' | 'warn' | 'fail'
  readonly observedValue: number
  readonly observedUnit: 'ms'
  readonly output?: string
}

export interface HealthChecksOptions {
  /** By name: `database`, `log`. */
  readonly checks: Readonly<Record<string, HealthCheck>>
  /** Milliseconds that one check may take. */
  readonly timeoutMs: number
  /** Milliseconds for which a result is shared: anyone may call `/health`, as often as they like. */
  readonly sharedMs: number
  readonly logger: Pick<Logger, 'debug'>
}

/** @returns a function that runs every check, or joins the last run; never throws */
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
    const observed = (status: Observed['status'], output: unknown): Observed => ({
      status,
      observedValue: Math.round((performance.now() - startedMs) * 100) / 100,
      observedUnit: 'ms',
      ...(typeof output === 'string' ? { output } : {}),
    })
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      // A check may ignore its signal, so the answer does not wait for it.
      const found = await unlessAborted(check(timeout), timeout)
      return found === warning ? observed('warn', 'see the log') : observed('pass', found)
    } catch (error) {
      logger.debug({ check: name, reason: factOf(error) }, 'health check failed')
      return observed('fail', timeout.aborted ? `no answer within ${timeoutMs} ms` : 'see the log')
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
