// Liveness, readiness, health with its checks, and metrics: the routes that machines ask.

import fastifyPlugin from 'fastify-plugin'
import type { Registry } from 'prom-client'
import { Type } from 'typebox'
import type { HttpServer } from './server.ts'

/** One dependency. Resolves with what is worth saying (a version, a lag), or throws when it does not answer as it should. */
export type HealthCheck = (signal: AbortSignal) => Promise<string | undefined>

/** A check that has nothing to tell when it passes. */
export function silent(check: () => Promise<void>): HealthCheck {
  return async () => {
    await check()
    return undefined
  }
}

export interface HealthOptions {
  readonly version: string
  /** By name: `database`, `log`. */
  readonly checks: Readonly<Record<string, HealthCheck>>
  /** False before everything has started, and from the moment that it stops. */
  readonly ready: () => boolean
  /** What `/metrics` shows; without it the path is not there, for a port that strangers reach. */
  readonly registry?: Pick<Registry, 'contentType' | 'metrics'>
  /** Milliseconds that one check may take. */
  readonly timeoutMs?: number
}

const Observation = Type.Object({
  status: Type.Enum(['pass', 'fail']),
  observedValue: Type.Number({ description: 'Milliseconds that the check took.' }),
  observedUnit: Type.Literal('ms'),
  output: Type.Optional(Type.String()),
})

const Health = Type.Object({
  status: Type.Enum(['pass', 'fail']),
  version: Type.String(),
  checks: Type.Record(Type.String(), Type.Array(Observation)),
})

const Live = Type.Object({ status: Type.Enum(['pass', 'fail']) })

/**
 * `/health` runs every check (application/health+json, 503 when one fails or does not answer in time), `/livez` says that the
 * process answers, `/readyz` that it takes work, `/metrics` what it counts (Prometheus).
 *
 * `/health` tells the checks' names and states to whoever asks, and never an error's text: that is in the log.
 */
export function healthRoutes(app: HttpServer, options: HealthOptions): void {
  const { version, checks, ready, registry, timeoutMs = 2000 } = options
  app.register(
    fastifyPlugin(async (app: HttpServer) => {
      app.get('/livez', { schema: { tags: ['operation'], response: { 200: Live } } }, async () => ({ status: 'pass' as const }))

      app.get('/readyz', { schema: { tags: ['operation'], response: { 200: Live, 503: Live } } }, async (_request, reply) => {
        if (ready()) return { status: 'pass' as const }
        return reply.code(503).header('retry-after', '1').send({ status: 'fail' })
      })

      app.get('/health', { schema: { tags: ['operation'], response: { 200: Health, 503: Health } } }, async (request, reply) => {
        const names = Object.keys(checks)
        const observations = await Promise.all(
          names.map(name =>
            observe(checks[name]!, timeoutMs, error => request.log.warn({ check: name, err: error }, 'health check failed')),
          ),
        )
        const status = observations.every(one => one.status === 'pass') ? 'pass' : 'fail'
        reply.type('application/health+json').header('cache-control', 'no-store')
        if (status === 'fail') reply.header('retry-after', '1')
        return reply.code(status === 'pass' ? 200 : 503).send({
          status,
          version,
          checks: Object.fromEntries(names.map((name, index) => [name, [observations[index]!]])),
        })
      })

      if (registry === undefined) return
      app.get(
        '/metrics',
        { schema: { tags: ['operation'], produces: [registry.contentType], response: { 200: Type.String() } } },
        async (_request, reply) => {
          return reply.type(registry.contentType).send(await registry.metrics())
        },
      )
    }),
  )
}

interface Observed {
  status: 'pass' | 'fail'
  observedValue: number
  observedUnit: 'ms'
  output?: string
}

async function observe(check: HealthCheck, timeoutMs: number, onFailure: (error: unknown) => void): Promise<Observed> {
  const startedMs = performance.now()
  const observed = (status: 'pass' | 'fail', output: string | undefined): Observed => ({
    status,
    observedValue: Math.round((performance.now() - startedMs) * 100) / 100,
    observedUnit: 'ms',
    ...(output === undefined ? {} : { output }),
  })
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    // A check may ignore its signal: the answer does not wait for it.
    return observed('pass', await Promise.race([check(timeout), aborted(timeout)]))
  } catch (error) {
    onFailure(error)
    return observed('fail', timeout.aborted ? `no answer within ${timeoutMs} ms` : 'see the log')
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}
