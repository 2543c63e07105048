// Holds the answers of every server that this process makes to the schemas of their routes, which /openapi.json is made from: import it.
//
// A fault makes the answer a 500 that says what is wrong, and is noted for the test (faults.ts).

import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { noteFault } from './faults.ts'

subscribe('fastify.initialization', message => holdAnswers((message as { readonly fastify: FastifyInstance }).fastify))

function holdAnswers(app: FastifyInstance): void {
  // Only where there is a server: most commands have none, and start sooner.
  const checking = import('./answer-fault.ts')
  /** What a handler sent, before the serializer leaves out what the schema does not name. */
  const sent = new WeakMap<FastifyReply, unknown>()
  app.addHook('preSerialization', (_request, reply, payload, done) => {
    sent.set(reply, payload)
    done(null, payload)
  })
  app.addHook('onSend', async (request, reply, payload) => {
    const { answerFault } = await checking
    const fault = answerFault(request, reply, payload, sent.get(reply))
    if (fault === undefined) return payload
    const text = `${request.method} ${request.routeOptions.url ?? request.url} answers ${reply.statusCode} otherwise than described: ${fault}`
    noteFault(text)
    reply.removeHeader('content-encoding').code(500).type('text/plain')
    return text
  })
}
