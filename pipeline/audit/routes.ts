// The HTTP door of `verify` and `trace`, an administrator's: what the tools ask of a running platform.

import { Type } from 'typebox'
import { errorAnswers } from '../../config/http/error-schema.ts'
import { HttpError } from '../../config/http/errors.ts'
import type { HttpServer } from '../../config/http/server.ts'
import { type Administration, administratorRoute } from '../administration.ts'
import { type MessageId, parseMessageId } from '../message-id.ts'
import type { TraceReport } from './trace.ts'
import type { VerifyReport } from './verify.ts'

export interface AuditParts {
  readonly verify: () => Promise<VerifyReport>
  readonly trace: (id: MessageId) => Promise<TraceReport>
}

/** The routes of audits. Errors are thrown as HttpError, for the server that they are registered with. */
export function auditRoutes({ verify, trace }: AuditParts, administration: Administration): (app: HttpServer) => Promise<void> {
  return async app => {
    const { onRequest, demand, failures } = administratorRoute(app, administration)
    const common = { tags: ['administration'], security: [{ user: [] }] }
    const refusals = errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'conflict', 'unavailable')
    let verifying = false

    app.get('/admin/verify', {
      onRequest,
      schema: {
        ...common,
        summary: 'Hold the store against the log: each message once, or a dead letter',
        description: 'Reads everything that the log still holds and all rows of it, which takes its time. One at a time.',
        response: { 200: Type.Unsafe<VerifyReport>({ type: 'object', additionalProperties: true }), ...refusals },
      },
      handler: async request => {
        await demand(request)
        if (verifying) throw new HttpError('conflict', 'a verification is under way: ask when it has ended')
        verifying = true
        try {
          return await failures(verify)
        } finally {
          verifying = false
        }
      },
    })

    app.get('/admin/messages/:id/trace', {
      onRequest,
      schema: {
        ...common,
        summary: 'Tell the way of one message',
        params: Type.Object({ id: Type.String({ maxLength: 300, description: 'As ingest answered it.' }) }),
        response: { 200: Type.Unsafe<TraceReport>({ type: 'object', additionalProperties: true }), ...refusals },
      },
      handler: async request => {
        const id = parseMessageId(request.params.id)
        if (id === undefined) throw new HttpError('malformed_request', 'the id of a message is <log>-<partition>-<offset>')
        await demand(request)
        return failures(() => trace(id))
      },
    })
  }
}
