// Importing this checks the answers of every server in this process against the schemas of their routes, from which /openapi.json is generated.
//
// A fault turns the answer into a 500 that describes it, and is stored for the test (faults.ts).

import { subscribe } from 'node:diagnostics_channel'
import { createRequire } from 'node:module'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type * as AnswerFault from './answer-fault.ts'
import { noteFault } from './faults.ts'

subscribe('fastify.initialization', message => holdAnswers((message as { readonly fastify: FastifyInstance }).fastify))

function holdAnswers(app: FastifyInstance): void {
  // Loaded only with a server, because most commands have none and start faster; and synchronously, so that answers are not delayed.
  const { answerFault, defect } = createRequire(import.meta.url)('./answer-fault.ts') as typeof AnswerFault
  /** What a handler sent, before the serializer drops properties that the schema does not name. */
  const sent = new WeakMap<FastifyReply, unknown>()
  app.addHook('preSerialization', (_request, reply, payload, done) => {
    sent.set(reply, payload)
    done(null, payload)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const fault = answerFault(request, reply, payload, sent.get(reply))
    if (fault === undefined) return done(null, payload)
    const text = `${request.method} ${request.routeOptions.url ?? request.url} answers ${reply.statusCode} otherwise than described: ${fault}`
    noteFault(text)
    // An answer that a test breaks on purpose is sent unchanged, and the test takes the fault.
    if (fault === defect) return done(null, payload)
    reply.removeHeader('content-encoding').code(500).type('text/plain')
    done(null, text)
  })
}
