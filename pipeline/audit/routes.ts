// HTTP routes of `verify` and `trace` for administrators, which the tools call on a running platform.

import { Type } from 'typebox'
import { HttpError } from '../../http/errors.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Administration, administratorRoute, administratorSchema, refusals } from '../administration.ts'
import { type MessageId, parseMessageId } from '../message-id.ts'
import type { TraceReport } from './trace.ts'
import type { VerifyReport } from './verify.ts'

const exampleVerification: VerifyReport = {
  topic: 'messages',
  writer: 'up',
  log: 1,
  contents: false,
  partitions: [
    {
      partition: 7,
      checked: { from: 0, to: 1028 },
      unchecked: 0,
      recount: {
        received: 1028,
        stored: 1027,
        erased: 0,
        empty: 0,
        filtered: 0,
        dead_lettered: 1,
        skipped: 0,
        deleted: 0,
        deleted_stored: 0,
        open: 1,
        replayed: 0,
        partial: 0,
      },
      ledger: {
        nextOffset: 1028,
        received: 1028,
        stored: 1027,
        empty: 0,
        filtered: 0,
        skipped: 0,
        duplicate: 0,
        deadLettered: 1,
        lost: 0,
      },
      ledger_covers_more: false,
      in_flight: 0,
      faults: {},
      first: [],
      holds: true,
    },
  ],
  holds: true,
}
const exampleTrace: TraceReport = {
  id: '1-7-1027',
  topic: 'messages',
  writer: 'up',
  position: 1028,
  received: {
    time: '2026-11-01T00:39:59.250000000Z',
    channel: '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54',
    subtopic: 'house.attic',
    publisher: '9b2d1c64-7a0e-4f3b-8c5d-2e6f4a1b7d90',
    protocol: 'http',
    content_type: 'application/senml+json',
    bytes: 118,
  },
  matched: true,
  decoded: { records: 3, format: 'messages' },
  state: 'stored',
  rows: 3,
  read: '/channels/3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54/messages',
  statement:
    "SELECT * FROM public.messages WHERE channel = '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54' AND time BETWEEN '2026-11-01T00:39:59.250000Z' AND '2026-11-01T00:39:59.250000Z' AND position = 72180739340239875;",
}

export interface AuditParts {
  readonly verify: (contents: boolean) => Promise<VerifyReport>
  readonly trace: (id: MessageId) => Promise<TraceReport>
}

// Describes the fields of reports that programs rely on; further fields are for people, and more may be added.
const reported = { topic: Type.String({ examples: [exampleTrace.topic] }), writer: Type.String({ examples: [exampleTrace.writer] }) }
const verifyReport = Type.Unsafe<VerifyReport>(
  Type.Object(
    {
      ...reported,
      log: Type.Integer({ description: "The log's number in the store.", examples: [exampleVerification.log] }),
      contents: Type.Boolean({
        description: 'Whether the columns of the rows were compared, and not only their number.',
        examples: [false],
      }),
      partitions: Type.Array(
        Type.Object(
          { partition: Type.Integer({ examples: [7] }), holds: Type.Boolean({ examples: [true] }) },
          { additionalProperties: true },
        ),
      ),
      holds: Type.Boolean({
        description: 'Whether every message is stored exactly once, is a dead letter, or was erased.',
        examples: [true],
      }),
    },
    {
      title: 'VerifyReport',
      description: 'The compared ranges, and the first faults of each partition.',
      additionalProperties: true,
      examples: [exampleVerification],
    },
  ),
)
const traceReport = Type.Unsafe<TraceReport>(
  Type.Object(
    {
      ...reported,
      id: Type.String({ examples: [exampleTrace.id] }),
      state: Type.Enum(['stored', 'erased', 'waiting', 'retrying', 'dead-lettered', 'filtered', 'empty', 'missing', 'unknown']),
    },
    { title: 'TraceReport', description: 'The state of the message at each stage.', additionalProperties: true, examples: [exampleTrace] },
  ),
)

/** The routes of audits. Errors are thrown as HttpError, for the server that they are registered with. */
export function auditRoutes({ verify, trace }: AuditParts, administration: Administration): (app: HttpServer) => Promise<void> {
  return async app => {
    const { onRequest, demand, failures } = administratorRoute(app, administration)
    let verifying = false

    app.get('/admin/verify', {
      onRequest,
      schema: {
        ...administratorSchema,
        operationId: 'verifyStore',
        summary: 'Verify that each message of the log is stored exactly once or is a dead letter',
        description:
          'Reads all messages that are still in the log, and counts their rows, so it can take long. Only one verification runs at a time.',
        querystring: Type.Object({
          contents: Type.Boolean({ default: false, description: 'Compare every column of every row with what its message decodes to.' }),
        }),
        response: { 200: verifyReport, ...refusals },
      },
      handler: async request => {
        await demand(request)
        if (verifying) throw new HttpError('conflict', 'a verification is running: retry when it has finished')
        verifying = true
        try {
          return await failures(() => verify(request.query.contents))
        } finally {
          verifying = false
        }
      },
    })

    app.get('/admin/messages/:id/trace', {
      onRequest,
      schema: {
        ...administratorSchema,
        operationId: 'traceMessage',
        summary: 'Trace one message',
        params: Type.Object({ id: Type.String({ maxLength: 300, description: 'The id returned by ingest.', examples: ['1-7-1027'] }) }),
        response: { 200: traceReport, ...refusals },
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
