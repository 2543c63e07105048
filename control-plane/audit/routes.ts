// The audit log, for the administrator.

import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { searcherOf } from '../requests/page.ts'
import { toUtc } from '../requests/text.ts'
import { listAuditSchema } from './schema.ts'
import type { AuditEntry, AuditLog } from './store.ts'

interface Parts {
  readonly audit: AuditLog
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function auditRoutes(app: HttpServer, { audit, authentication, authorization }: Parts): void {
  app.get('/audit', { schema: listAuditSchema, onRequest: authentication.required }, async (request, reply) => {
    await authorization.demand(callerOf(request), 'member', 'authorities')
    const { offset, limit, user_id: actor, object, action, from, to } = request.query
    const time = { from: from && toUtc(from, '/query/from'), to: to && toUtc(to, '/query/to') }
    const by = searcherOf(callerOf(request), reply)
    const { total, items } = await audit.list({ actor, object: object?.toLowerCase(), action, ...time }, { offset, limit }, by)
    return reply.send({ total, offset, limit, entries: items.map(answerOf) })
  })
}

function answerOf({ at, actor: { user, address, request }, action, objects, relations }: AuditEntry) {
  return {
    at,
    ...(user === undefined ? {} : { user_id: user }),
    ...(address === undefined ? {} : { address }),
    ...(request === undefined ? {} : { request_id: request }),
    action,
    objects: [...objects],
    relations: [...relations],
  }
}
