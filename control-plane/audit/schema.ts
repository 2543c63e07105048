// Requests and answers of the audit log.

import { Type } from 'typebox'
import { errorAnswers } from '../../config/http/error-schema.ts'
import { tokenRequired } from '../answers.ts'
import { uuidPattern } from '../ids.ts'
import { pageAnswer, pageQuery } from '../page.ts'
import { auditActions, countedMax } from './store.ts'

const exampleId = '0f8a6e7c-3c1b-4a55-9d0f-6f1f5a1f1c11'
const action = Type.Enum([...auditActions], { examples: ['thing.share'] })
const instant = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description, examples: ['2026-01-01T00:00:00Z'] }))

const entrySchema = Type.Object({
  at: Type.String({ description: 'RFC 3339.', examples: ['2026-01-01T08:30:00.123456Z'] }),
  user_id: Type.Optional(
    Type.String({
      description: 'Who did it; absent for a registration without a token, and for the program itself.',
      examples: [exampleId],
    }),
  ),
  address: Type.Optional(Type.String({ description: "The client's address.", examples: ['192.0.2.17'] })),
  request_id: Type.Optional(Type.String({ description: 'As in the log and in error answers.' })),
  action,
  objects: Type.Array(Type.String(), {
    description: 'What it happened to: ids, or `users`, `authorities` and `*` of a policy.',
    examples: [[exampleId]],
  }),
  relations: Type.Array(Type.String(), { description: 'What was given or taken; else empty.', examples: [['read']] }),
})

export const listAuditSchema = {
  tags: ['audit'],
  security: tokenRequired,
  summary: 'Show who changed what, when and from where',
  description: `The newest first. The administrator may. How long it is kept is the option \`audit.retention_days\`.`,
  querystring: Type.Object({
    ...pageQuery,
    offset: Type.Integer({
      minimum: 0,
      maximum: countedMax,
      default: 0,
      description: 'How many to leave out; narrow by time to go further.',
    }),
    user_id: Type.Optional(
      Type.String({ pattern: uuidPattern, allowed: 'the id of a user', description: 'Who did it.', examples: [exampleId] }),
    ),
    object: Type.Optional(Type.String({ maxLength: 64, description: 'What it happened to.', examples: [exampleId] })),
    action: Type.Optional(action),
    from: instant('Not before this instant (RFC 3339).'),
    to: instant('Before this instant (RFC 3339).'),
  }),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        total: Type.Integer({ description: `How many match; ${countedMax} stands for that many and more.` }),
        entries: Type.Array(entrySchema),
      },
      { description: 'A page of the audit log.' },
    ),
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'unavailable'),
  },
}
