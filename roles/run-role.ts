// Runs a role that serves HTTP: opens its parts and both ports, waits for what it depends on, and serves until a signal.

import { Registry } from 'prom-client'
import { aborted } from '../config/aborting.ts'
import { type Logger, openLogger } from '../config/logger.ts'
import type { LoggingOptions } from '../config/logging-options.ts'
import { type Outages, openOutages } from '../config/outage.ts'
import type { ProcessOptions } from '../config/process-options.ts'
import { type ProcessScope, runProcess } from '../config/run-process.ts'
import { openRoleListeners, type RoleListeners, type RoleListenersOptions } from '../http/role-listeners.ts'
import { processMetrics } from './process-metrics.ts'

type RoleOptions = Pick<RoleListenersOptions, 'http' | 'compatibility'> & { logging: LoggingOptions; process: ProcessOptions }

export interface RoleScope<Dependency extends string> extends ProcessScope {
  readonly logger: Logger
  readonly registry: Registry
  readonly outages: Outages<Dependency>
  /** Opens both ports. Every request except health and metrics gets 503 until the role has started. */
  listen(own: Omit<RoleListenersOptions, keyof RoleOptions | 'logger' | 'version' | 'name' | 'registry'>): Promise<RoleListeners>
}

/**
 * @param dependencies what the log calls each: `{ database: 'PostgreSQL' }`
 * @param open opens the parts; resolves once each dependency was reached, or the signal has aborted
 */
export async function runRole<Dependency extends string>(
  name: string,
  dependencies: Readonly<Record<Dependency, string>>,
  options: RoleOptions,
  version: string,
  open: (scope: RoleScope<Dependency>) => Promise<RoleListeners>,
): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, options.process, async ({ signal, closeLater }) => {
    const registry = new Registry()
    processMetrics(registry)
    const outages = openOutages(logger, registry, name, dependencies)
    const { http, compatibility } = options
    const listen: RoleScope<Dependency>['listen'] = own =>
      openRoleListeners({ logger, version, name, registry, http, compatibility, ...own }, closeLater)
    const listeners = await open({ signal, closeLater, logger, registry, outages, listen })
    if (signal.aborted) return
    listeners.ready()
    await aborted(signal)
  })
}
