// Liveness, readiness, health with its checks, and metrics: the routes that machines ask.

import fastifyPlugin from 'fastify-plugin'
import type { Registry } from 'prom-client'
import { Type } from 'typebox'
import { errorAnswer, errorAnswers, errorSchema } from './error-schema.ts'
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

/** For clients of the origin. */
const description = 'Sluice device messaging'

const Observation = Type.Object(
  {
    status: Type.Enum(['pass', 'fail']),
    observedValue: Type.Number({ description: 'Milliseconds that the check took.', examples: [0.42] }),
    observedUnit: Type.Literal('ms'),
    output: Type.Optional(Type.String()),
  },
  { title: 'Observation' },
)

const Health = Type.Object(
  {
    status: Type.Enum(['pass', 'fail']),
    version: Type.String({ examples: ['0.1.0'] }),
    commit: Type.String({ description: 'Always empty.', examples: [''] }),
    description: Type.String({ examples: [description] }),
    build_time: Type.String({ description: 'Always empty.', examples: [''] }),
    checks: Type.Record(Type.String(), Type.Array(Observation), {
      description: 'By what is checked.',
      examples: [{ database: [{ status: 'pass', observedValue: 0.42, observedUnit: 'ms' }] }],
    }),
  },
  { title: 'Health' },
)

const Live = Type.Object({ status: Type.Enum(['pass', 'fail']) }, { title: 'Status' })

const operation = { tags: ['operation'], security: [] }
const ofHealth = { 'application/health+json': { schema: Health } }
/** Also of the server itself, while it stops. */
const unavailable = errorAnswer('unavailable')
const failing = Type.Union([Live, errorSchema], { examples: [{ status: 'fail' }] })
const exampleMetrics = '# TYPE component_received_events_total counter\ncomponent_received_events_total{component_id="ingest"} 1027\n'

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
      const alive = {
        ...operation,
        operationId: 'getLiveness',
        summary: 'Whether the process answers',
        response: { ...errorAnswers(), 200: { ...Live, description: 'It does.' } },
      }
      app.get('/livez', { schema: alive }, async () => ({ status: 'pass' as const }))

      const takesWork = {
        ...operation,
        operationId: 'getReadiness',
        summary: 'Whether the process takes work',
        response: {
          ...errorAnswers(),
          200: { ...Live, description: 'It does.' },
          503: { ...unavailable, description: 'Not now.', content: { ...unavailable.content, 'application/json': { schema: failing } } },
        },
      }
      app.get('/readyz', { schema: takesWork }, async (_request, reply) => {
        if (ready()) return { status: 'pass' as const }
        return reply.code(503).header('retry-after', '1').send({ status: 'fail' })
      })

      const health = {
        ...operation,
        operationId: 'getHealth',
        summary: 'What the checks of the process observe',
        response: {
          ...errorAnswers(),
          200: { description: 'All pass.', content: ofHealth },
          503: { ...unavailable, description: 'One fails, or the process stops.', content: { ...unavailable.content, ...ofHealth } },
        },
      }
      app.get('/health', { schema: health }, async (_request, reply) => {
        const observed = Object.entries(await observe())
        const status = observed.every(([, { status }]) => status === 'pass') ? 'pass' : 'fail'
        reply.type('application/health+json').header('cache-control', 'no-store')
        if (status === 'fail') reply.header('retry-after', '1')
        return reply.code(status === 'pass' ? 200 : 503).send({
          status,
          version,
          // Clients of the origin read these as texts.
          commit: '',
          description,
          build_time: '',
          checks: Object.fromEntries(observed.map(([name, one]) => [name, [one]])),
        })
      })

      if (registry === undefined) return
      const [type = ''] = registry.contentType.split(';')
      const counted = {
        ...operation,
        operationId: 'getMetrics',
        summary: 'What the process counts, for Prometheus',
        response: {
          ...errorAnswers(),
          200: { description: 'The metrics.', content: { [type]: { schema: Type.String(), example: exampleMetrics } } },
        },
      }
      app.get('/metrics', { schema: counted }, async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()))
    }),
  )
}
