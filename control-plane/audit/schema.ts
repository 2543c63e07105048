// Requests and answers of the audit log.

import { Type } from 'typebox'
import { errorAnswers } from '../../config/http/error-schema.ts'
import { tokenRequired } from '../answers.ts'
import { exampleIds, uuidPattern } from '../ids.ts'
import { pageAnswer, pageQuery } from '../page.ts'
import { auditActions, countedMax } from './store.ts'

const action = Type.Enum([...auditActions], { examples: ['thing.share'] })
const instant = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description, examples: ['2026-01-01T00:00:00Z'] }))

const entrySchema = Type.Object(
  {
    at: Type.String({ description: 'RFC 3339.', examples: ['2026-01-01T08:30:00.123456Z'] }),
    user_id: Type.Optional(
      Type.String({
        description: 'The user who did it; absent for a registration without a token, and for the program itself.',
        examples: [exampleIds.user],
      }),
    ),
    address: Type.Optional(Type.String({ description: "The client's address.", examples: ['192.0.2.17'] })),
    request_id: Type.Optional(
      Type.String({ description: 'As in the log and in error answers.', examples: ['4d1f0a52-6c0e-4b5e-8f0a-3f1c2b7d9e60'] }),
    ),
    action,
    objects: Type.Array(Type.String(), {
      description: 'What it happened to: ids, or `users`, `authorities` and `*` of a policy.',
      examples: [[exampleIds.thing]],
    }),
    relations: Type.Array(Type.String(), { description: 'Relations that were added or removed; else empty.', examples: [['read']] }),
  },
  { title: 'AuditEntry' },
)

export const listAuditSchema = {
  tags: ['audit'],
  operationId: 'listAudit',
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
      Type.String({ pattern: uuidPattern, allowed: 'the id of a user', description: 'The user who did it.', examples: [exampleIds.user] }),
    ),
    object: Type.Optional(Type.String({ maxLength: 64, description: 'What it happened to.', examples: [exampleIds.thing] })),
    action: Type.Optional(action),
    from: instant('Not before this instant (RFC 3339).'),
    to: instant('Before this instant (RFC 3339).'),
  }),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        total: Type.Integer({ description: `How many match; ${countedMax} stands for that many and more.`, examples: [1] }),
        entries: Type.Array(entrySchema),
      },
      { title: 'AuditPage', description: 'A page of the audit log.' },
    ),
    ...errorAnswers('query_too_large', 'unauthenticated', 'forbidden'),
  },
}
