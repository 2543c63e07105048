// Serves a writer's health on its public port, and health and metrics on the internal one, even before its log and store are available.

import { Registry } from 'prom-client'
import type { Logger } from '../../config/logger.ts'
import type { ProcessScope } from '../../config/run-process.ts'
import type { HealthCheck } from '../../http/health/checks.ts'
import { healthRoutes } from '../../http/health/health.ts'
import { closeServer, listen } from '../../http/listen.ts'
import { parseListenAddress } from '../../http/listen-address.ts'
import { createServer } from '../../http/server.ts'
import { readServerTls } from '../../http/tls-files.ts'
import { processMetrics } from '../process-metrics.ts'
import type { WriterOptions } from './options.ts'

export interface WriterHealth {
  readonly options: Pick<WriterOptions, 'http' | 'internal'>
  readonly version: string
  readonly logger: Logger
  readonly checks: Readonly<Record<string, HealthCheck>>
  readonly ready: () => boolean
  /** Metrics of the workers, in Prometheus text format. */
  readonly metrics: () => Promise<string>
}

/** Short, because only probes and scrapers send requests. */
const requestDrainMsMax = 500

/**
 * Opens both ports, and prints their addresses.
 *
 * @throws ListenError, SecretError
 */
export async function openHealth(
  { options: { http, internal }, version, logger, checks, ready, metrics }: WriterHealth,
  closeLater: ProcessScope['closeLater'],
): Promise<void> {
  const registry = new Registry()
  processMetrics(registry)
  const combinedRegistry = { contentType: registry.contentType, metrics: async () => (await registry.metrics()) + (await metrics()) }

  const insideAddress = parseListenAddress(internal.listen)
  const inside = createServer({ logger, host: insideAddress.host, hosts: http.hosts })
  healthRoutes(inside, { version, checks, ready, registry: combinedRegistry })
  const outside = createServer({ logger, ...http, tls: await readServerTls('http', http) })
  healthRoutes(outside, { version, checks, ready })
  closeLater(async () => void (await Promise.all([inside, outside].map(app => closeServer(app, requestDrainMsMax)))))
  const insideUrl = await listen(inside, insideAddress, { host: 'SVC_INTERNAL_LISTEN', port: 'SVC_INTERNAL_LISTEN' })
  const url = await listen(outside, http)
  console.log(`internal on ${insideUrl}\nhealth on ${url}/health`)
}
