// The role `ingest`: appends messages that devices send over HTTP to the log, and asks the control plane in another process who may publish.

import { collectDefaultMetrics, Registry } from 'prom-client'
import { type Logger, openLogger } from '../../config/logger.ts'
import { openOutages, watchDependency } from '../../config/outage.ts'
import { aborted, openWhenThere, type ProcessScope, runProcess } from '../../config/run-process.ts'
import { openRoleListeners } from '../../http/role-listeners.ts'
import { openIngestMetrics } from '../../pipeline/ingest/metrics.ts'
import { ingestRoutes } from '../../pipeline/ingest/routes.ts'
import { type Log, LogUnavailableError } from '../../pipeline/log.ts'
import { openRoleAccess } from '../remote-access.ts'
import type { IngestRoleOptions } from './options.ts'

export interface IngestLog extends Log {
  /** @throws Error if the log cannot accept messages now */
  check(): Promise<void>
}

/**
 * Opens the log of the role's section `log`.
 *
 * @throws LogUnavailableError while it is away; the caller retries
 */
export type OpenIngestLog = (options: IngestRoleOptions['log'], logger: Logger) => Promise<IngestLog>

/**
 * Starts ingest, prints its addresses, and resolves when it has stopped after a signal and answered every running request. It
 * starts even if the log or the control plane is away; until both were reached once it is not ready and answers 503.
 *
 * @throws ListenError, SecretError, ControlPlaneRefusalError …: errors that an operator can fix, with a message that says how
 */
export async function ingest(options: IngestRoleOptions, version: string, openLog: OpenIngestLog): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, options.process, scope => serve(options, version, logger, openLog, scope))
}

async function serve(
  options: IngestRoleOptions,
  version: string,
  logger: Logger,
  openLog: OpenIngestLog,
  { signal, closeLater }: ProcessScope,
): Promise<void> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const outages = openOutages(logger, registry, 'ingest', { log: 'Kafka', control_plane: 'the control plane' })
  const control = await openRoleAccess(options.control, outages.report('control_plane'), closeLater)
  const { access } = control
  let log = absentLog(options.log.topic)
  closeLater(() => log.close())

  const metrics = openIngestMetrics(registry)
  const listeners = await openRoleListeners(
    {
      logger,
      version,
      services: ['ingest'],
      http: options.http,
      asksForCertificate: options.ingest.clientCertificates === 'tls',
      compatibility: options.compatibility,
      // Log numbers are known only to the store, which ingest cannot access: the topic's name identifies the log as well.
      routes: async app => {
        const append: Log['append'] = messages => log.append(messages)
        await app.register(ingestRoutes({ log: { ...log, append }, logLabel: () => log.name, access, metrics, options: options.ingest }))
      },
      internal: { address: options.internal.listen },
      registry,
      checks: { log: () => log.check(), 'control-plane': () => control.check() },
      isServing: () => control.isAccepted(),
    },
    closeLater,
  )
  const openingLog = openWhenThere({
    open: () => openLog(options.log, logger),
    closeLate: late => late.close(),
    isAway: error => error instanceof LogUnavailableError,
    outage: outages.report('log'),
    signal,
  })
  const takeLog = async (): Promise<void> => {
    log = (await openingLog) ?? log
  }
  await Promise.all([takeLog(), control.reachFirst(signal)])
  if (signal.aborted) return
  listeners.ready()
  void watchDependency(() => log.check(), outages.report('log'), signal)
  await aborted(signal)
}

/** Placeholder for the log until it is open. */
function absentLog(name: string): IngestLog {
  const refuse = (): Promise<never> => Promise.reject(new LogUnavailableError(`waiting for the log ${name}`))
  return { name, id: '', append: refuse, check: refuse, close: async () => undefined }
}
