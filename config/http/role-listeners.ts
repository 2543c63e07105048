// The two ports of a role: one for users or devices, and one for the platform's own processes and for who watches them.

import type { Registry } from 'prom-client'
import type { Logger } from '../logger.ts'
import type { ProcessScope } from '../run-process.ts'
import { type HealthCheck, healthRoutes } from './health.ts'
import { closeServer, listen } from './listen.ts'
import { parseListenAddress } from './listen-address.ts'
import { openapiRoutes } from './openapi.ts'
import type { HttpOptions } from './options.ts'
import { createServer, type HttpServer, type ServerTls } from './server.ts'

export interface RoleListenersOptions {
  readonly logger: Logger
  readonly version: string
  readonly http: HttpOptions
  /** What users or devices ask for. */
  readonly routes: (app: HttpServer) => Promise<void>
  readonly internal: {
    /** `127.0.0.1:9080`. */
    readonly address: string
    readonly tls?: ServerTls | undefined
    /** What other processes ask for, beside health and metrics. */
    readonly routes?: (app: HttpServer) => Promise<void>
  }
  readonly registry: Registry
  readonly checks: Readonly<Record<string, HealthCheck>>
}

/** Of the five seconds that a stop may take: for requests of users or devices, and then for those of processes. */
const requestDrainMsMax = 2_000
const internalDrainMsMax = 1_000

/**
 * Opens both, and prints where they are when requests are taken. Health is told on both, metrics on the internal one alone. At the stop a
 * process is not ready at first, then takes no requests and answers those under way.
 *
 * @throws ListenError
 */
export async function openRoleListeners(options: RoleListenersOptions, closeLater: ProcessScope['closeLater']): Promise<void> {
  const { logger, version, http, routes, internal, registry, checks } = options
  let isReady = false
  const health = { version, checks, ready: () => isReady }

  const inside = createServer({ logger, ...(internal.tls === undefined ? {} : { tls: internal.tls }) })
  healthRoutes(inside, { ...health, registry })
  if (internal.routes !== undefined) inside.register(internal.routes)
  closeLater(() => closeServer(inside, internalDrainMsMax))
  const insideUrl = await listen(inside, parseListenAddress(internal.address), { host: 'SVC_INTERNAL_LISTEN', port: 'SVC_INTERNAL_LISTEN' })

  const outside = createServer({ logger, ...http })
  openapiRoutes(outside, { version })
  healthRoutes(outside, health)
  outside.register(routes)
  closeLater(() => closeServer(outside, requestDrainMsMax))
  const url = await listen(outside, http)
  closeLater(async () => {
    isReady = false
  })
  isReady = true
  logger.info({ url, internal: insideUrl, version }, 'ready')
  console.log(`internal on ${insideUrl}\nready on ${url}`)
}
