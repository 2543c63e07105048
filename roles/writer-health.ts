// Where a writer tells its health, from before its log and its store are there: on one port for all, with its metrics on the internal one.

import { collectDefaultMetrics, Registry } from 'prom-client'
import { healthRoutes } from '../config/http/health.ts'
import type { HealthCheck } from '../config/http/health-checks.ts'
import { closeServer, listen } from '../config/http/listen.ts'
import { parseListenAddress } from '../config/http/listen-address.ts'
import { createServer } from '../config/http/server.ts'
import type { Logger } from '../config/logger.ts'
import type { ProcessScope } from '../config/run-process.ts'
import { readServerTls } from '../config/tls-files.ts'
import type { WriterOptions } from './writer-options.ts'

export interface WriterHealth {
  readonly options: Pick<WriterOptions, 'http' | 'internal'>
  readonly version: string
  readonly logger: Logger
  readonly checks: Readonly<Record<string, HealthCheck>>
  readonly ready: () => boolean
  /** Of the workers, in the text form of Prometheus. */
  readonly metrics: () => Promise<string>
}

/** Nobody but probes and scrapers asks. */
const requestDrainMsMax = 500

/**
 * Opens both ports, and prints where they are.
 *
 * @throws ListenError, SecretError
 */
export async function openHealth(
  { options: { http, internal }, version, logger, checks, ready, metrics }: WriterHealth,
  closeLater: ProcessScope['closeLater'],
): Promise<void> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const ofProcessAndWorkers = { contentType: registry.contentType, metrics: async () => (await registry.metrics()) + (await metrics()) }

  const inside = createServer({ logger })
  healthRoutes(inside, { version, checks, ready, registry: ofProcessAndWorkers })
  const outside = createServer({ logger, ...http, tls: await readServerTls('http', http) })
  healthRoutes(outside, { version, checks, ready })
  closeLater(async () => void (await Promise.all([inside, outside].map(app => closeServer(app, requestDrainMsMax)))))
  const insideUrl = await listen(inside, parseListenAddress(internal.listen), { host: 'SVC_INTERNAL_LISTEN', port: 'SVC_INTERNAL_LISTEN' })
  const url = await listen(outside, http)
  console.log(`internal on ${insideUrl}\nhealth on ${url}/health`)
}
