// HTTP routes of dead letters for administrators, which `./sluice dlq --url` calls on a running platform.

import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { HttpError } from '../../http/errors.ts'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Administration, administratorRoute, administratorSchema, refusals } from '../administration.ts'
import type { Job } from '../job.ts'
import { jobRoutes } from '../job-routes.ts'
import type { DeadLetterFilter } from './filter.ts'
import type { DeadLetterQueue, DropReport } from './queue.ts'
import type { ReplayReport } from './replay.ts'
import type { DeadLetterSummary, FullDeadLetter } from './summary.ts'

const idSchema = Type.String({
  pattern: '^(.{1,249}-)?\\d{1,4}-\\d{1,14}$',
  allowed: 'a message id: <log>-<partition>-<offset>, or <partition>-<offset>',
  description: 'The id of the message, as returned by ingest; the log may be omitted.',
  examples: ['1-7-1027'],
})
const rule = Type.String({ minLength: 1, maxLength: 100, description: 'Only those that violate this rule.', examples: ['time-range'] })
const exampleChannel = '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54'
const channel = Type.String({ minLength: 1, maxLength: 2048, description: 'Only those of this channel.', examples: [exampleChannel] })

const which = {
  rule: Type.Optional(rule),
  channel: Type.Optional(channel),
  all: Type.Optional(Type.Boolean({ default: false, description: 'Include resolved ones.' })),
}
const lines = 'application/x-ndjson'

const deadLetterSchema = Type.Object(
  {
    id: Type.String({ examples: ['1-7-1027'] }),
    state: Type.Enum(['open', 'replayed', 'dropped', 'erased']),
    topic: Type.String({ examples: ['messages'] }),
    stage: Type.String({ examples: ['decode'] }),
    rule: Type.String({ examples: ['time-range'] }),
    reason: Type.String({ examples: ['the time 12 of the record 0 is before 2^28 s'] }),
    record: Type.Optional(Type.Integer()),
    hint: Type.Optional(Type.String()),
    channel: Type.String({ examples: [exampleChannel] }),
    subtopic: Type.String({ examples: [''] }),
    publisher: Type.String({ examples: ['9b2d1c64-7a0e-4f3b-8c5d-2e6f4a1b7d90'] }),
    protocol: Type.String({ examples: ['http'] }),
    content_type: Type.String({ examples: ['application/senml+json'] }),
    created: Type.String({ description: 'Nanoseconds since 1970.', examples: ['1793491199250000000'] }),
    payload_bytes: Type.Integer({ examples: [31] }),
    shortened_bytes: Type.Optional(
      Type.Integer({ description: 'Size of a message whose dead letter has no content, because its topic refused it as too large.' }),
    ),
    partial: Type.Optional(Type.Boolean({ description: 'The store may have some, but not all, rows of the message.' })),
  },
  { title: 'DeadLetter', description: 'A dead letter.' },
)
const textOrNull = (example: string) => Type.Union([Type.String(), Type.Null()], { examples: [example] })
const fullDeadLetterSchema = Type.Object(
  {
    ...deadLetterSchema.properties,
    key: textOrNull(exampleChannel),
    headers: Type.Array(
      Type.Object(
        { name: Type.String({ examples: ['protocol'] }), value: textOrNull('http'), base64: Type.Optional(Type.Boolean()) },
        { title: 'DeadLetterHeader' },
      ),
    ),
    payload: Type.String({ description: 'base64.', examples: ['W3sibiI6ImEiLCJ2IjoxLCJ0IjoxMn1d'] }),
  },
  { title: 'FullDeadLetter' },
)
const filterSchema = Type.Object(
  {
    ids: Type.Optional(Type.Array(idSchema, { minItems: 1, maxItems: 1000 })),
    rule: Type.Optional(rule),
    channel: Type.Optional(channel),
    all: Type.Optional(Type.Literal(true, { description: 'All open dead letters; not allowed with other filters.' })),
  },
  { title: 'DeadLetterSelection', additionalProperties: false },
)
// The types are those of the response, whose lists are read-only.
const pageSchema = Type.Unsafe<{ readonly total: number; readonly letters: readonly DeadLetterSummary[] }>(
  Type.Object(
    { total: Type.Integer({ examples: [1] }), letters: Type.Array(deadLetterSchema) },
    { title: 'DeadLetters', description: 'The newest dead letters, and the total number.' },
  ),
)
const fullDeadLettersSchema = Type.Unsafe<{ readonly letters: readonly FullDeadLetter[] }>(
  Type.Object({ letters: Type.Array(fullDeadLetterSchema) }, { title: 'FullDeadLetters', description: 'The dead letters of the message.' }),
)
const dropSchema = Type.Unsafe<DropReport>(
  Type.Object(
    {
      dropped: Type.Integer({ description: 'Number of dropped dead letters.', examples: [1] }),
      missing: Type.Array(Type.String(), { description: 'Ids without a dead letter.', examples: [[]] }),
      partial: Type.Array(Type.String(), {
        description: 'Ids of dropped dead letters whose messages may have rows in the store, which stay there.',
        examples: [[]],
      }),
    },
    { title: 'DroppedDeadLetters', description: 'The result of a drop.' },
  ),
)
const reportSchema = Type.Object(
  {
    replayed: Type.Integer({ description: 'Dead letters stored; in a dry run, those that would be tried.', examples: [3] }),
    left: Type.Integer({ description: 'Dead letters that stay open.', examples: [1] }),
    reasons: Type.Array(
      Type.Object(
        {
          id: Type.String({ examples: ['1-7-1027'] }),
          reason: Type.String({ examples: ['time-range: the time 12 is before 2^28 s'] }),
        },
        { title: 'LeftDeadLetter' },
      ),
      { description: 'Why, for the first of those.' },
    ),
    missing: Type.Array(Type.String(), { description: 'Ids without a dead letter.', examples: [[]] }),
  },
  { title: 'ReplayReport' },
)

/** The routes of dead letters. Errors are thrown as HttpError, for the server that they are registered with. */
export function deadLetterRoutes(
  deadLetters: DeadLetterQueue,
  job: Job<DeadLetterFilter, ReplayReport>,
  administration: Administration,
): (app: HttpServer) => Promise<void> {
  return async app => {
    const administrator = administratorRoute(app, administration)
    const { onRequest, demand, failures, note } = administrator

    app.get('/admin/dead-letters', {
      onRequest,
      schema: {
        ...administratorSchema,
        operationId: 'listDeadLetters',
        summary: 'List dead letters, newest last',
        querystring: Type.Object(
          {
            ...which,
            limit: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000, default: 50, description: 'Only the newest ones.' })),
          },
          { additionalProperties: false },
        ),
        response: { 200: pageSchema, ...refusals },
      },
      handler: async request => {
        await demand(request)
        const { limit = 50, ...filter } = request.query as DeadLetterFilter & { limit?: number }
        return failures(() => deadLetters.list(filter, limit))
      },
    })

    app.get('/admin/dead-letters/export', {
      onRequest,
      schema: {
        ...administratorSchema,
        operationId: 'exportDeadLetters',
        summary: 'All dead letters, newest last: one JSON object per line',
        querystring: Type.Object(which, { additionalProperties: false }),
        response: {
          200: { description: 'The dead letters.', content: { [lines]: { schema: Type.Unsafe<Readable>(deadLetterSchema) } } },
          ...refusals,
        },
      },
      handler: async (request, reply) => {
        await demand(request)
        const found = deadLetters.each(request.query)
        // A failure before the first letter gets an error response; after it, the connection is cut off.
        const first = await failures(() => found.next())
        return reply.type(lines).send(Readable.from(linesOf(first, found)))
      },
    })

    app.get('/admin/dead-letters/:id', {
      onRequest,
      schema: {
        ...administratorSchema,
        operationId: 'viewDeadLetters',
        summary: 'Show the dead letters of a message in full',
        params: Type.Object({ id: idSchema }),
        response: { 200: fullDeadLettersSchema, ...refusals, ...errorAnswers('not_found') },
      },
      handler: async request => {
        await demand(request)
        const { id } = request.params
        const found = await failures(() => deadLetters.show(id))
        if (found.length === 0) throw new HttpError('not_found', 'no dead letter has this id')
        return { letters: found }
      },
    })

    jobRoutes(app, administrator, {
      path: '/admin/dead-letters/replay',
      job,
      action: 'dead-letters.replay',
      status: { title: 'ReplayStatus', report: reportSchema },
      start: {
        operationId: 'replayDeadLetters',
        summary: 'Start a replay of dead letters',
        description: 'Only one replay runs at a time; GET returns its progress. Dead letters that cannot be stored stay open.',
        body: Type.Object(
          {
            ...filterSchema.properties,
            dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Only decode the messages, and change nothing.' })),
          },
          { title: 'DeadLetterReplay', additionalProperties: false },
        ),
      },
      show: { operationId: 'viewReplay', summary: 'Show the progress of the replay' },
      requestOf({ dry_run: dryRun = false, ...given }) {
        const filter = filterOf(given)
        return { filter, dryRun, objects: objectsOf(filter) }
      },
    })

    app.post('/admin/dead-letters/drop', {
      onRequest,
      schema: {
        ...administratorSchema,
        operationId: 'dropDeadLetters',
        summary: 'Drop dead letters',
        body: filterSchema,
        response: { 200: dropSchema, ...refusals, ...errorAnswers(...bodyCodes) },
      },
      handler: async request => {
        const filter = filterOf(request.body)
        await demand(request)
        return failures(async () => {
          await note(request, 'dead-letters.drop', objectsOf(filter))
          return deadLetters.drop(filter)
        })
      },
    })
  }
}

/** `all` means no other filter, and selects all open letters. */
function filterOf({ all, ...filter }: DeadLetterFilter): DeadLetterFilter {
  if (Object.keys(filter).length === 0 && all !== true) {
    throw new HttpError('malformed_request', 'no dead letters selected: give ids, rule, channel, or all')
  }
  if (Object.keys(filter).length > 0 && all === true) {
    throw new HttpError('malformed_request', 'all selects every open dead letter: give it alone, or only ids, rule and channel')
  }
  return filter
}

/** A line of the audit log has so many ids, or their number. */
const notedIdsMax = 10

/** What was selected, for the audit log. */
function objectsOf({ ids = [], rule, channel }: DeadLetterFilter): string[] {
  const noted = ids.length > notedIdsMax ? [`${ids.length} ids`] : ids
  const objects = [...noted, rule, channel].filter(object => object !== undefined)
  return objects.length === 0 ? ['*'] : objects
}

async function* linesOf(first: IteratorResult<DeadLetterSummary>, rest: AsyncIterable<DeadLetterSummary>): AsyncGenerator<string> {
  if (first.done === true) return
  yield lineOf(first.value)
  for await (const deadLetter of rest) yield lineOf(deadLetter)
}

function lineOf(deadLetter: DeadLetterSummary): string {
  return `${JSON.stringify(deadLetter)}\n`
}
