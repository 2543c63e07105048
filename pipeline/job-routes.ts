// The HTTP routes of a job, for administrators: POST starts it, GET shows its status.

import { type Static, type TSchema, Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../http/openapi/error-schema.ts'
import type { HttpServer } from '../http/server.ts'
import { type AdministratorRoute, administratorSchema, type NotedAction, refusals } from './administration.ts'
import type { Job, JobStatus } from './job.ts'

interface JobRoutes<Body extends TSchema, Filter, Report> {
  readonly path: string
  readonly job: Job<Filter, Report>
  readonly action: NotedAction
  readonly start: { readonly operationId: string; readonly summary: string; readonly description: string; readonly body: Body }
  readonly show: { readonly operationId: string; readonly summary: string }
  readonly status: { readonly title: string; readonly report: TSchema }
  /** `objects` are those of the audit log. @throws RangeError, HttpError */
  readonly requestOf: (body: Static<Body>) => { readonly filter: Filter; readonly dryRun: boolean; readonly objects: readonly string[] }
}

export function jobRoutes<Body extends TSchema, Filter, Report>(
  app: HttpServer,
  { onRequest, demand, failures, note }: AdministratorRoute,
  { path, job, action, start, show, status: { title, report }, requestOf }: JobRoutes<Body, Filter, Report>,
): void {
  const status = Type.Unsafe<JobStatus<Report>>(
    Type.Object(
      {
        state: Type.Enum(['none', 'running', 'done', 'failed'], { description: '`none`: none since the process started.' }),
        job: Type.Integer({ description: 'Its number since the process started.', examples: [1] }),
        done: Type.Integer({ description: 'Rows deleted, or offsets of the dead-letter topic read, so far.', examples: [1510] }),
        total: Type.Integer({ description: 'Their total, once it is known.', examples: [1510] }),
        report: Type.Optional(report),
        error: Type.Optional(Type.String({ description: 'Why it failed. What was done before stays done.' })),
      },
      { title, description: 'State and progress.' },
    ),
  )

  app.post(path, {
    onRequest,
    schema: { ...administratorSchema, ...start, response: { 202: status, ...refusals, ...errorAnswers(...bodyCodes) } },
    handler: async (request, reply) => {
      const started = await failures(async () => {
        const { filter, dryRun, objects } = requestOf(request.body as Static<Body>)
        await demand(request)
        // While another one runs, it is refused.
        if (!dryRun && job.status().state !== 'running') await note(request, action, objects)
        return job.start(filter, { dryRun })
      })
      return reply.code(202).send(started)
    },
  })

  app.get(path, {
    onRequest,
    schema: { ...administratorSchema, ...show, response: { 200: status, ...refusals } },
    handler: async request => {
      await demand(request)
      return failures(async () => job.status())
    },
  })
}
