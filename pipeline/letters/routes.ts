// The HTTP door for dead letters, an administrator's: what `sluice dlq --url` asks of a running platform.

import { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { HttpError } from '../../config/http/errors.ts'
import type { HttpServer } from '../../config/http/server.ts'
import { type Administration, administratorRoute } from '../administration.ts'
import type { FullLetter, Letter } from './letter.ts'
import type { Letters, Selection, Settlement } from './letters.ts'

const idSchema = Type.String({
  pattern: '^(.{1,249}-)?\\d{1,4}-\\d{1,14}$',
  allowed: 'an id of a message: <log>-<partition>-<offset>, or <partition>-<offset>',
  description: 'The id of the message, as ingest answered it; the log may be left out.',
  examples: ['1-7-1027'],
})
const rule = Type.String({ minLength: 1, maxLength: 100, description: 'Only those that broke this rule.', examples: ['time-range'] })
const exampleChannel = '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54'
const channel = Type.String({ minLength: 1, maxLength: 1024, description: 'Only those of this channel.', examples: [exampleChannel] })

const which = {
  rule: Type.Optional(rule),
  channel: Type.Optional(channel),
  all: Type.Optional(Type.Boolean({ default: false, description: 'Those that are settled, too.' })),
}
const lines = 'application/x-ndjson'

const letterSchema = Type.Object(
  {
    id: Type.String({ examples: ['1-7-1027'] }),
    state: Type.Enum(['open', 'replayed', 'dropped']),
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
    shortened_bytes: Type.Optional(Type.Integer({ description: 'Where the message was too large for its letter: its bytes.' })),
  },
  { title: 'DeadLetter', description: 'A dead letter.' },
)
const textOrNull = (example: string) => Type.Union([Type.String(), Type.Null()], { examples: [example] })
const fullLetterSchema = Type.Object(
  {
    ...letterSchema.properties,
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
const selectionSchema = Type.Object(
  {
    ids: Type.Optional(Type.Array(idSchema, { minItems: 1, maxItems: 1000 })),
    rule: Type.Optional(rule),
    channel: Type.Optional(channel),
    all: Type.Optional(Type.Literal(true, { description: 'Every open letter, where nothing else is given.' })),
  },
  { title: 'DeadLetterSelection', additionalProperties: false },
)
// The types are those of what is sent, whose lists are not for changing.
const pageSchema = Type.Unsafe<{ readonly total: number; readonly letters: readonly Letter[] }>(
  Type.Object(
    { total: Type.Integer({ examples: [1] }), letters: Type.Array(letterSchema) },
    { title: 'DeadLetters', description: 'The newest, and how many there are.' },
  ),
)
const lettersSchema = Type.Unsafe<{ readonly letters: readonly FullLetter[] }>(
  Type.Object({ letters: Type.Array(fullLetterSchema) }, { title: 'FullDeadLetters', description: 'The letters of the message.' }),
)
const settlementSchema = Type.Unsafe<Settlement>(
  Type.Object(
    {
      settled: Type.Integer({ description: 'How many letters.', examples: [1] }),
      missing: Type.Array(Type.String(), { description: 'The ids that no letter has.', examples: [[]] }),
      shortened: Type.Array(Type.String(), { description: 'Those of messages that were too large for their letters.', examples: [[]] }),
      refused: Type.Array(Type.String(), { description: 'Those of messages that are too large for the log of replays.', examples: [[]] }),
    },
    { title: 'Settlement', description: 'What became of the letters.' },
  ),
)

/** The routes of dead letters. Errors are thrown as HttpError, for the server that they are registered with. */
export function letterRoutes(letters: Letters, administration: Administration): (app: HttpServer) => Promise<void> {
  return async app => {
    const { onRequest, demand, failures } = administratorRoute(app, administration)
    const common = { tags: ['administration'], security: [{ user: [] }] }
    const refusals = errorAnswers('unauthenticated', 'forbidden', 'conflict')

    app.get('/admin/dead-letters', {
      onRequest,
      schema: {
        ...common,
        operationId: 'listDeadLetters',
        summary: 'List dead letters, the newest last',
        querystring: Type.Object(
          {
            ...which,
            limit: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000, default: 50, description: 'The newest so many.' })),
          },
          { additionalProperties: false },
        ),
        response: { 200: pageSchema, ...refusals },
      },
      handler: async request => {
        await demand(request)
        const { limit = 50, ...selection } = request.query as Selection & { limit?: number }
        return failures(() => letters.list(selection, limit))
      },
    })

    app.get('/admin/dead-letters/export', {
      onRequest,
      schema: {
        ...common,
        operationId: 'exportDeadLetters',
        summary: 'Every dead letter, the newest last: a JSON object on each line',
        querystring: Type.Object(which, { additionalProperties: false }),
        response: {
          200: { description: 'The letters.', content: { [lines]: { schema: Type.Unsafe<Readable>(letterSchema) } } },
          ...refusals,
        },
      },
      handler: async (request, reply) => {
        await demand(request)
        const found = letters.each(request.query)
        // What fails before the first one is an answer; behind it, the connection breaks off.
        const first = await failures(() => found.next())
        return reply.type(lines).send(Readable.from(linesOf(first, found)))
      },
    })

    app.get('/admin/dead-letters/:id', {
      onRequest,
      schema: {
        ...common,
        operationId: 'viewDeadLetters',
        summary: 'Show the dead letters of a message, with everything',
        params: Type.Object({ id: idSchema }),
        response: { 200: lettersSchema, ...refusals, ...errorAnswers('not_found') },
      },
      handler: async request => {
        await demand(request)
        const { id } = request.params
        const found = await failures(() => letters.show(id))
        if (found.length === 0) throw new HttpError('not_found', 'no dead letter has this id')
        return { letters: found }
      },
    })

    for (const action of ['replay', 'drop'] as const) {
      app.post(`/admin/dead-letters/${action}`, {
        onRequest,
        schema: {
          ...common,
          operationId: `${action}DeadLetters`,
          summary: action === 'replay' ? 'Hand messages to the writer once more' : 'Put dead letters aside for good',
          body: selectionSchema,
          response: { 200: settlementSchema, ...refusals, ...errorAnswers(...bodyCodes) },
        },
        handler: async request => {
          const selection = selectionOf(request)
          await demand(request)
          const settlement = await failures(() => letters[action](selection))
          request.log.info({ action, letters: settlement.settled }, 'dead letters settled')
          return settlement
        },
      })
    }
  }
}

/** `all` stands for nothing else being said, and means those that are open. */
function selectionOf(request: FastifyRequest): Selection {
  const { all, ...selection } = request.body as Selection
  if (Object.keys(selection).length === 0 && all !== true) {
    throw new HttpError('malformed_request', 'say which dead letters: ids, rule, channel, or all')
  }
  return selection
}

async function* linesOf(first: IteratorResult<Letter>, rest: AsyncIterable<Letter>): AsyncGenerator<string> {
  if (first.done === true) return
  yield lineOf(first.value)
  for await (const letter of rest) yield lineOf(letter)
}

function lineOf(letter: Letter): string {
  return `${JSON.stringify(letter)}\n`
}
