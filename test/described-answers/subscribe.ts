// Holds the answers of every server that this process makes to the schemas of their routes, which /openapi.json is made from: import it.
//
// A fault makes the answer a 500 that says what is wrong, and is noted for the test (faults.ts).

import { subscribe } from 'node:diagnostics_channel'
import { createRequire } from 'node:module'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { noteFault } from './faults.ts'

subscribe('fastify.initialization', message => holdAnswers((message as { readonly fastify: FastifyInstance }).fastify))

function holdAnswers(app: FastifyInstance): void {
  // Only where there is a server, since most commands have none and start sooner; and at once, so that no answer comes later than it would.
  const { answerFault, defect } = createRequire(import.meta.url)('./answer-fault.ts') as typeof import('./answer-fault.ts')
  /** What a handler sent, before the serializer leaves out what the schema does not name. */
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
    // What a test breaks on purpose is answered all the same, and the test takes the fault.
    if (fault === defect) return done(null, payload)
    reply.removeHeader('content-encoding').code(500).type('text/plain')
    done(null, text)
  })
}
