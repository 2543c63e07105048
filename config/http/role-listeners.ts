// The two ports of a role: one for users or devices, and one for the platform's own processes and for who watches them.

import type { Registry } from 'prom-client'
import type { Logger } from '../logger.ts'
import type { ProcessScope } from '../run-process.ts'
import { readServerTls } from '../tls-files.ts'
import { HttpError } from './errors.ts'
import { healthRoutes } from './health.ts'
import type { HealthCheck } from './health-checks.ts'
import { closeServer, listen } from './listen.ts'
import { parseListenAddress } from './listen-address.ts'
import { type Compatibility, warnOfCompatibility } from './older-clients.ts'
import { openapiRoutes } from './openapi.ts'
import type { HttpOptions } from './options.ts'
import { createServer, type HttpServer, type ServerTls } from './server.ts'

export interface RoleListenersOptions {
  readonly logger: Logger
  readonly version: string
  readonly http: HttpOptions
  /** Where users or devices connect with TLS, they are asked for a certificate. */
  readonly asksForCertificate?: boolean
  /** Of what users or devices ask for. */
  readonly compatibility: Compatibility
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
  /** False while a role that has started can serve nothing until a person mends something: it is not ready then. */
  readonly isServing?: () => boolean
}

/** Of the five seconds that a stop may take: for requests of users or devices, and then for those of processes. */
const requestDrainMsMax = 2_000
const internalDrainMsMax = 1_000

export interface RoleListeners {
  /** What the role depends on is there: requests are served from here on. Prints where. */
  ready(): void
}

/**
 * Opens both, so that a role which waits for what it depends on can be asked for its health. Until `ready` is called the process is alive
 * and not ready, and everything but health and metrics is answered 503. Health is told on both, metrics on the internal one alone. At the
 * stop a process is not ready at first, then takes no requests and answers those under way.
 *
 * @throws ListenError, SecretError
 */
export async function openRoleListeners(options: RoleListenersOptions, closeLater: ProcessScope['closeLater']): Promise<RoleListeners> {
  const {
    logger,
    version,
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
      started ? done() : done(new HttpError('unavailable', 'this process starts, and waits for what it depends on: come again')),
    )
    await routes(app)
  }

  const inside = createServer({ logger, tls: internal.tls })
  healthRoutes(inside, { ...health, registry })
  if (internal.routes !== undefined) inside.register(onceStarted(internal.routes))
  closeLater(() => closeServer(inside, internalDrainMsMax))
  const insideUrl = await listen(inside, parseListenAddress(internal.address), { host: 'SVC_INTERNAL_LISTEN', port: 'SVC_INTERNAL_LISTEN' })

  const outside = createServer({ logger, ...http, tls: tls && { ...tls, asksForCertificate }, compatibility })
  openapiRoutes(outside, { version })
  healthRoutes(outside, health)
  outside.register(onceStarted(routes))
  closeLater(() => closeServer(outside, requestDrainMsMax))
  const url = await listen(outside, http)
  closeLater(async () => {
    isReady = false
  })
  logger.info({ url, internal: insideUrl }, 'listening')
  return {
    ready() {
      started = true
      isReady = true
      logger.info({ url, internal: insideUrl, version }, 'ready')
      console.log(`internal on ${insideUrl}\nready on ${url}`)
    },
  }
}
