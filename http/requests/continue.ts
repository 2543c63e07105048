// Asks for the body of a request with `Expect: 100-continue` only once something reads it (RFC 9110 §10.1.1).

import { type IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { HttpError } from '../errors.ts'
import { faultsOf } from './validation.ts'

/**
 * Node.js calls `writeContinue` before it passes on the request, so that a client whose credentials, path or length is refused would send its
 * body all the same. Here the client gets 100 Continue when the body is read, and otherwise the final answer alone, after which Node.js
 * closes the connection: what follows on it would be a body to the one side and a request to the other.
 */
export class DeferredContinue<Request extends IncomingMessage> extends ServerResponse<Request> {
  override writeContinue(): void {
    // Also emitted for a body that is discarded after the answer.
    this.req.once('resume', () => {
      if (!this.headersSent) super.writeContinue()
    })
  }
}

/** Checks the parameters of a request that waits for 100 Continue, which otherwise are validated together with the body, after it was read. */
export function checkParameters(request: FastifyRequest): void {
  if (request.headers.expect === undefined) return
  for (const [context, value] of [['params', request.params] as const, ['querystring', request.query] as const]) {
    const validate = request.getValidationFunction(context)
    if (validate !== undefined && !validate(value))
      throw new HttpError('malformed_request', undefined, { faults: faultsOf(validate.errors ?? [], context) })
  }
}
