// Routes for monitoring: liveness, readiness, health with its checks, and metrics.

import fastifyPlugin from 'fastify-plugin'
import type { Registry } from 'prom-client'
import { Type } from 'typebox'
import { errorAnswer, errorAnswers, errorSchema } from '../openapi/error-schema.ts'
import type { HttpServer } from '../server.ts'
import { type HealthCheck, openHealthChecks } from './checks.ts'

export interface HealthOptions {
  readonly version: string
  /** By name: `database`, `log`. */
  readonly checks: Readonly<Record<string, HealthCheck>>
  /** False until everything has started, and again from the moment the stop begins. */
  readonly ready: () => boolean
  /** The metrics of `/metrics`. Leave it out on a public port: the path then does not exist. */
  readonly registry?: Pick<Registry, 'contentType' | 'metrics'>
  /** Milliseconds that one check may take. */
  readonly timeoutMs?: number
  /** Milliseconds for which requests share one run of the checks. */
  readonly sharedMs?: number
}

/** For clients of the origin. */
const description = 'Sluice device messaging'

/** `warn`: it works, and the log says what to look at. */
const status = Type.Enum(['pass', 'warn', 'fail'])

const Observation = Type.Object(
  {
    status,
    observedValue: Type.Number({ description: 'Milliseconds that the check took.', examples: [0.42] }),
    observedUnit: Type.Literal('ms'),
    output: Type.Optional(Type.String()),
  },
  { title: 'Observation' },
)

const Health = Type.Object(
  {
    status,
    version: Type.String({ examples: ['1.2.3'] }),
    commit: Type.String({ description: 'Always empty.', examples: [''] }),
    description: Type.String({ examples: [description] }),
    build_time: Type.String({ description: 'Always empty.', examples: [''] }),
    checks: Type.Record(Type.String(), Type.Array(Observation), {
      description: 'Results by name of the check.',
      examples: [{ database: [{ status: 'pass', observedValue: 0.42, observedUnit: 'ms' }] }],
    }),
  },
  { title: 'Health' },
)

const Live = Type.Object({ status: Type.Enum(['pass', 'fail']) }, { title: 'Status' })

const operation = { tags: ['operation'], security: [] }
const healthContent = { 'application/health+json': { schema: Health } }
/** The server itself also answers this while it stops. */
const unavailable = errorAnswer('unavailable')
const failing = Type.Union([Live, errorSchema], { examples: [{ status: 'fail' }] })
const exampleMetrics = '# TYPE component_received_events_total counter\ncomponent_received_events_total{component_id="ingest"} 1027\n'

/**
 * `/health` returns the results of all checks, at most a second old (application/health+json; 503 if one fails or times out). `/livez` says that the
 * process responds, `/readyz` that it accepts work; `/metrics` returns the Prometheus metrics.
 * `/health` needs no credentials, so it shows names and states of the checks but never an error's text, which is logged once per outage.
 */
export function healthRoutes(app: HttpServer, options: HealthOptions): void {
  const { version, checks, ready, registry, timeoutMs = 2000, sharedMs = 1000 } = options
  const observe = openHealthChecks({ checks, timeoutMs, sharedMs, logger: app.log })
  app.register(
    fastifyPlugin(async (app: HttpServer) => {
      const alive = {
        ...operation,
        operationId: 'getLiveness',
        summary: 'Whether the process responds',
        response: { ...errorAnswers(), 200: { ...Live, description: 'The process responds.' } },
      }
      app.get('/livez', { schema: alive }, async () => ({ status: 'pass' as const }))

      const takesWork = {
        ...operation,
        operationId: 'getReadiness',
        summary: 'Whether the process accepts work',
        response: {
          ...errorAnswers(),
          200: { ...Live, description: 'The process accepts work.' },
          503: {
            ...unavailable,
            description: 'The process does not accept work.',
            content: { ...unavailable.content, 'application/json': { schema: failing } },
          },
        },
      }
      app.get('/readyz', { schema: takesWork }, async (_request, reply) => {
        if (ready()) return { status: 'pass' as const }
        return reply.code(503).header('retry-after', '1').send({ status: 'fail' })
      })

      const health = {
        ...operation,
        operationId: 'getHealth',
        summary: 'Results of the health checks',
        response: {
          ...errorAnswers(),
          200: { description: 'All checks pass, or one warns.', content: healthContent },
          503: {
            ...unavailable,
            description: 'A check fails, or the process is stopping.',
            content: { ...unavailable.content, ...healthContent },
          },
        },
      }
      app.get('/health', { schema: health }, async (_request, reply) => {
        const observed = Object.entries(await observe())
        const states = new Set(observed.map(([, { status }]) => status))
        const status = (['fail', 'warn'] as const).find(state => states.has(state)) ?? 'pass'
        reply.type('application/health+json').header('cache-control', 'no-store')
        if (status === 'fail') reply.header('retry-after', '1')
        return reply.code(status === 'fail' ? 503 : 200).send({
          status,
          version,
          // Clients of the origin expect these as strings.
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
        summary: 'Metrics for Prometheus',
        response: {
          ...errorAnswers(),
          200: { description: 'The metrics.', content: { [type]: { schema: Type.String(), example: exampleMetrics } } },
        },
      }
      app.get('/metrics', { schema: counted }, async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()))
    }),
  )
}
