// The tokens by which processes of the platform know each other: asked for before a body is read, compared in constant time.

import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { HttpError } from '../../config/http/errors.ts'
import { splitSecrets } from '../../config/secrets.ts'
import { parseCredential } from '../client.ts'

/**
 * An `onRequest` hook: 401 without a token, in the header `Authorization: Bearer <token>`.
 *
 * @param tokens divided by commas, of which any is accepted; undefined accepts every request: the address, or TLS, has decided who can ask
 */
export function requireServiceToken(tokens: string | undefined): (request: FastifyRequest, reply: FastifyReply) => Promise<void> {
  if (tokens === undefined) return async () => undefined
  const expected = splitSecrets(tokens).map(digest)
  return async (request, reply) => {
    const credential = parseCredential(request.headers.authorization)
    // Digests have one length, so that not even the token's can be found out; and each is compared, whichever matches.
    const shown = digest(credential?.secret ?? '')
    const matches = expected.filter(one => timingSafeEqual(shown, one)).length > 0
    if (matches && credential?.scheme === 'Bearer') return
    reply.header('www-authenticate', 'Bearer realm="sluice internal"')
    throw new HttpError('unauthenticated', 'this is not the token of this platform: set SVC_CONTROL_TOKEN to the same on both sides')
  }
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
