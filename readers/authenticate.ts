// Authenticates requests to a reader with the control plane: by the key of a thing, or the token of the channel's owner.

import type { FastifyRequest } from 'fastify'
import { type Access, type AccessControl, limitedError, parseCredential } from '../control-plane/client.ts'
import { HttpError } from '../http/errors.ts'
import { clientAddressOf } from '../http/requests/client-address.ts'

/** Either scheme is accepted (RFC 9110 §11.6.1). */
export const challenge = 'Thing realm="sluice", Bearer realm="sluice"'

/**
 * @returns the access, granted or denied
 * @throws HttpError `unauthenticated`; `too_many_requests` for an unknown key that was used too often
 * @throws AccessUnavailableError
 */
export async function authenticate(access: AccessControl, request: FastifyRequest, channel: string): Promise<Access> {
  const credential = parseCredential(request.headers.authorization)
  if (credential === undefined) {
    const detail =
      'send the key of a thing ("Authorization: Thing <key>") or the token of the channel\'s owner ("Authorization: Bearer <token>")'
    throw new HttpError('unauthenticated', detail)
  }
  const answer = await access.authorize({ credential, channel, action: 'read', address: clientAddressOf(request) })
  if (answer.allowed || answer.reason === 'forbidden') return answer
  if (answer.reason === 'limited') throw limitedError(answer, credential.scheme)
  const detail =
    credential.scheme === 'Thing'
      ? 'unknown thing key: use the key returned when the thing was created'
      : 'this token is invalid or has expired: get a new one with POST /tokens'
  throw new HttpError('unauthenticated', detail)
}
