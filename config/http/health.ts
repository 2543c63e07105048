// Liveness, readiness, health with its checks, and metrics: the routes that machines ask.

import fastifyPlugin from 'fastify-plugin'
import type { Registry } from 'prom-client'
import { Type } from 'typebox'
import { type HealthCheck, openHealthChecks } from './health-checks.ts'
import type { HttpServer } from './server.ts'

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
  /** Milliseconds for which one run of the checks is told to all who ask. */
  readonly sharedMs?: number
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
  commit: Type.String({ description: 'Always empty.' }),
  description: Type.String(),
  build_time: Type.String({ description: 'Always empty.' }),
  checks: Type.Record(Type.String(), Type.Array(Observation)),
})

const Live = Type.Object({ status: Type.Enum(['pass', 'fail']) })

/**
 * `/health` tells what every check observed within the last second (application/health+json, 503 when one fails or does not answer in time), `/livez` says that the
 * process answers, `/readyz` that it takes work, `/metrics` what it counts (Prometheus).
 *
 * `/health` tells the checks' names and states to whoever asks, and never an error's text: that is in the log, once for each outage.
 */
export function healthRoutes(app: HttpServer, options: HealthOptions): void {
  const { version, checks, ready, registry, timeoutMs = 2000, sharedMs = 1000 } = options
  const observe = openHealthChecks({ checks, timeoutMs, sharedMs, logger: app.log })
  app.register(
    fastifyPlugin(async (app: HttpServer) => {
      app.get('/livez', { schema: { tags: ['operation'], response: { 200: Live } } }, async () => ({ status: 'pass' as const }))

      app.get('/readyz', { schema: { tags: ['operation'], response: { 200: Live, 503: Live } } }, async (_request, reply) => {
        if (ready()) return { status: 'pass' as const }
        return reply.code(503).header('retry-after', '1').send({ status: 'fail' })
      })

      app.get('/health', { schema: { tags: ['operation'], response: { 200: Health, 503: Health } } }, async (_request, reply) => {
        const observed = Object.entries(await observe())
        const status = observed.every(([, { status }]) => status === 'pass') ? 'pass' : 'fail'
        reply.type('application/health+json').header('cache-control', 'no-store')
        if (status === 'fail') reply.header('retry-after', '1')
        return reply.code(status === 'pass' ? 200 : 503).send({
          status,
          version,
          // Clients of the origin read these as texts.
          commit: '',
          description: 'Sluice device messaging',
          build_time: '',
          checks: Object.fromEntries(observed.map(([name, one]) => [name, [one]])),
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
