// HTTP routes of erasures for administrators, which `./sluice erase --url` calls on a running platform.

import { Type } from 'typebox'
import type { HttpServer } from '../../http/server.ts'
import type { Erasure, ErasureFilter } from '../../sinks/erasure.ts'
import { type Administration, administratorRoute, administratorSchema, refusals } from '../administration.ts'
import type { Job } from '../job.ts'
import { jobRoutes } from '../job-routes.ts'
import { erasureFilter } from './conditions.ts'
import type { EraseReport } from './erase.ts'

const exampleId = '9b2d1c64-7a0e-4f3b-8c5d-2e6f4a1b7d90'
const id = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 2048, description, examples: [exampleId] }))
const conditions = {
  channel: id('Messages of this channel.'),
  publisher: id('Messages that this thing published.'),
  before: Type.Optional(
    Type.String({
      maxLength: 40,
      description: 'Rows with an earlier time: a day, from 0:00 UTC, or RFC 3339 to the millisecond.',
      examples: ['2026-01-01'],
    }),
  ),
}
// Describes what programs rely on; further fields are for people, and more may be added.
const reportSchema = Type.Object(
  {
    erased: Type.Boolean({ description: 'False: they were only counted.', examples: [false] }),
    rows: Type.Integer({ examples: [1510] }),
    dead_letters: Type.Integer({ examples: [2] }),
  },
  { title: 'EraseReport', description: 'What was found or erased, and what the logs still have.', additionalProperties: true },
)
const erasuresSchema = Type.Unsafe<{ readonly erasures: readonly Erasure[] }>(
  Type.Object(
    {
      erasures: Type.Array(
        Type.Object(
          {
            id: Type.String({ examples: [exampleId] }),
            startedMs: Type.Integer({ description: 'Milliseconds since 1970.', examples: [1_793_491_199_250] }),
            endedMs: Type.Optional(Type.Integer({ description: 'Absent while it runs, and after it was interrupted.' })),
            rows: Type.Integer({ examples: [1510] }),
            deadLetters: Type.Integer({ examples: [2] }),
            retention: Type.Optional(
              Type.Boolean({ description: 'A retention, which counts no rows: `beforeMs` is how far it has come.' }),
            ),
          },
          { title: 'Erasure', additionalProperties: true },
        ),
      ),
    },
    { title: 'Erasures', description: 'What was erased, in the order in which it began.' },
  ),
)

/** The routes of erasures. Errors are thrown as HttpError, for the server that they are registered with. */
export function eraseRoutes(
  job: Job<ErasureFilter, EraseReport>,
  erasures: () => Promise<readonly Erasure[]>,
  administration: Administration,
): (app: HttpServer) => Promise<void> {
  return async app => {
    const administrator = administratorRoute(app, administration)
    const { onRequest, demand, failures } = administrator

    jobRoutes(app, administrator, {
      path: '/admin/erase',
      job,
      action: 'messages.erase',
      status: { title: 'EraseStatus', report: reportSchema },
      start: {
        operationId: 'eraseMessages',
        summary: 'Count or erase messages of a channel, a publisher or before a time',
        description:
          'Deletes rows and marks dead letters as erased, if `dry_run` is false. All conditions must hold. Only one erasure runs at a time; GET returns its progress.',
        body: Type.Object(
          {
            ...conditions,
            dry_run: Type.Optional(Type.Boolean({ default: true, description: 'Only count, and change nothing.' })),
          },
          { title: 'MessageErasure', additionalProperties: false },
        ),
      },
      show: { operationId: 'viewErasure', summary: 'Show the progress of the erasure' },
      requestOf: ({ dry_run: dryRun = true, ...given }) => ({
        filter: erasureFilter(given),
        dryRun,
        objects: [given.channel, given.publisher, given.before].filter(object => object !== undefined),
      }),
    })

    app.get('/admin/erasures', {
      onRequest,
      schema: {
        ...administratorSchema,
        operationId: 'listErasures',
        summary: 'List what was erased',
        response: { 200: erasuresSchema, ...refusals },
      },
      handler: async request => {
        await demand(request)
        return { erasures: await failures(erasures) }
      },
    })
  }
}
