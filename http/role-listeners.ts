// Opens the two ports of a role: a public one for users or devices, and an internal one for other processes and monitoring.

import type { Registry } from 'prom-client'
import type { Logger } from '../config/logger.ts'
import type { ProcessScope } from '../config/run-process.ts'
import { countRefusals } from './error-answer.ts'
import { HttpError } from './errors.ts'
import type { HealthCheck } from './health/checks.ts'
import { healthRoutes } from './health/health.ts'
import { type HomePage, homeRoute } from './home.ts'
import { closeServer, listen } from './listen.ts'
import { parseListenAddress } from './listen-address.ts'
import { type Compatibility, warnOfCompatibility } from './older-clients.ts'
import { openapiRoutes } from './openapi/openapi.ts'
import type { HttpOptions } from './options.ts'
import { createServer, type HttpServer } from './server.ts'
import { readServerTls, type ServerTls } from './tls-files.ts'

export interface RoleListenersOptions {
  readonly logger: Logger
  readonly version: string
  /** The role, in its metrics. */
  readonly name: string
  /** What the role serves, for its home page: `ingest`. */
  readonly services: readonly string[]
  /** What browsers get as its home page; by default a page of links. */
  readonly page?: HomePage
  readonly http: HttpOptions
  /** Whether clients of the public port are asked for a certificate when they connect with TLS. */
  readonly asksForCertificate?: boolean
  /** Compatibility of the public routes. */
  readonly compatibility: Compatibility
  /** The public routes. */
  readonly routes: (app: HttpServer) => Promise<void>
  readonly internal: {
    /** `127.0.0.1:9080`. */
    readonly address: string
    readonly tls?: ServerTls | undefined
    /** The internal routes, in addition to health and metrics. */
    readonly routes?: (app: HttpServer) => Promise<void>
  }
  readonly registry: Registry
  readonly checks: Readonly<Record<string, HealthCheck>>
  /** False while a started role cannot serve requests until an operator fixes something; it is then not ready. */
  readonly isServing?: () => boolean
}

/** Part of the time that a stop may take: for public requests, and then again for internal ones. */
const requestDrainMsMax = 2_000
const internalDrainMsMax = 1_000

export interface RoleListeners {
  /** The server of the public port. */
  readonly app: HttpServer
  /** Call it when the role's dependencies are available: serves requests from then on, and prints the addresses. */
  ready(): void
}

/**
 * Opens both ports, so that health can be queried while a role waits for its dependencies. Until `ready` is called the process is alive
 * but not ready, and every request except health and metrics gets 503. Both ports serve health, only the internal one metrics. During
 * the stop the process first reports not ready, then accepts no more requests and answers the running ones.
 *
 * @throws ListenError, SecretError
 */
export async function openRoleListeners(options: RoleListenersOptions, closeLater: ProcessScope['closeLater']): Promise<RoleListeners> {
  const {
    logger,
    version,
    name,
    services,
    page,
    http,
    asksForCertificate = false,
    compatibility,
    routes,
    internal,
    registry,
    checks,
    isServing = () => true,
  } = options
  const tls = await readServerTls('http', http)
  warnOfCompatibility(compatibility, logger)
  let started = false
  let isReady = false
  const health = { version, checks, ready: () => isReady && isServing() }
  const onceStarted = (routes: (app: HttpServer) => Promise<void>) => async (app: HttpServer) => {
    app.addHook('onRequest', (_request, _reply, done) =>
      started ? done() : done(new HttpError('unavailable', 'this process is starting and waits for its dependencies: retry')),
    )
    await routes(app)
  }

  const insideAddress = parseListenAddress(internal.address)
  const inside = createServer({ logger, host: insideAddress.host, hosts: http.hosts, tls: internal.tls })
  healthRoutes(inside, { ...health, registry })
  if (internal.routes !== undefined) inside.register(onceStarted(internal.routes))
  closeLater(() => closeServer(inside, internalDrainMsMax))
  const insideUrl = await listen(inside, insideAddress, { host: 'SVC_INTERNAL_LISTEN', port: 'SVC_INTERNAL_LISTEN' })

  const countRefusal = countRefusals(registry, name)
  const outside = createServer({ logger, ...http, tls: tls && { ...tls, asksForCertificate }, compatibility, countRefusal })
  openapiRoutes(outside, { version })
  homeRoute(outside, { version, services, hasMetrics: false, ...(page === undefined ? {} : { page }) })
  healthRoutes(outside, health)
  outside.register(onceStarted(routes))
  closeLater(() => closeServer(outside, requestDrainMsMax))
  const url = await listen(outside, http)
  closeLater(async () => {
    isReady = false
  })
  logger.info({ url, internal: insideUrl }, 'listening')
  return {
    app: outside,
    ready() {
      started = true
      isReady = true
      logger.info({ url, internal: insideUrl, version }, 'ready')
      console.log(`internal on ${insideUrl}\nready on ${url}`)
    },
  }
}
