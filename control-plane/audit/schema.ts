// Requests and answers of the audit log.

import { Type } from 'typebox'
import { errorAnswers } from '../../http/openapi/error-schema.ts'
import { exampleIds, uuidPattern } from '../ids.ts'
import { tokenRequired } from '../requests/answers.ts'
import { pageAnswer, pageQuery } from '../requests/page.ts'
import { auditActions, countedMax } from './store.ts'

const action = Type.Enum([...auditActions], { examples: ['thing.share'] })
const timestamp = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description, examples: ['2026-01-01T00:00:00Z'] }))

const entrySchema = Type.Object(
  {
    at: Type.String({ description: 'RFC 3339.', examples: ['2026-01-01T08:30:00.123456Z'] }),
    user_id: Type.Optional(
      Type.String({
        description:
          'The user who did it; absent for a registration without a token, a device with its external key, and the program itself.',
        examples: [exampleIds.user],
      }),
    ),
    address: Type.Optional(Type.String({ description: "The client's address.", examples: ['192.0.2.17'] })),
    request_id: Type.Optional(
      Type.String({
        description: 'The id of the request, as in the log and in errors.',
        examples: ['4d1f0a52-6c0e-4b5e-8f0a-3f1c2b7d9e60'],
      }),
    ),
    action,
    objects: Type.Array(Type.String(), {
      description:
        'What was changed: ids, or `users`, `authorities` and `*` of a policy. Of dead letters what was selected: their ids or how many there are, the rule, the channel, or `*` for all.',
      examples: [[exampleIds.thing]],
    }),
    relations: Type.Array(Type.String(), { description: 'Relations that were added or removed; otherwise empty.', examples: [['read']] }),
  },
  { title: 'AuditEntry' },
)

export const listAuditSchema = {
  tags: ['audit'],
  operationId: 'listAudit',
  security: tokenRequired,
  summary: 'Show who changed what, when and from where',
  description: `Newest first. Only for the administrator. The option \`audit.retention_days\` sets how long entries are kept.`,
  querystring: Type.Object({
    ...pageQuery,
    offset: Type.Integer({
      minimum: 0,
      maximum: countedMax,
      default: 0,
      description: 'Number of entries to skip; to go further, narrow by time.',
    }),
    user_id: Type.Optional(
      Type.String({ pattern: uuidPattern, allowed: 'the id of a user', description: 'The user who did it.', examples: [exampleIds.user] }),
    ),
    object: Type.Optional(Type.String({ maxLength: 64, description: 'What was changed.', examples: [exampleIds.thing] })),
    action: Type.Optional(action),
    from: timestamp('From this time on (RFC 3339).'),
    to: timestamp('Before this time (RFC 3339).'),
  }),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        total: Type.Integer({ description: `How many match; ${countedMax} means that many or more.`, examples: [1] }),
        entries: Type.Array(entrySchema),
      },
      { title: 'AuditPage', description: 'A page of the audit log.' },
    ),
    ...errorAnswers('query_too_large', 'unauthenticated', 'forbidden'),
  },
}
