// Who asks a reader: the key of a thing, or the token of the channel's owner, told by the control plane.

import { HttpError } from '../config/http/errors.ts'
import { type Access, type AccessControl, parseCredential } from '../control-plane/client.ts'

/** Either scheme is taken (RFC 9110 §11.6.1). */
export const challenge = 'Thing realm="sluice", Bearer realm="sluice"'

/**
 * @returns an access, or a refusal of rights
 * @throws HttpError `unauthenticated`
 * @throws AccessUnavailableError
 */
export async function authenticate(access: AccessControl, header: string | undefined, channel: string): Promise<Access> {
  const credential = parseCredential(header)
  if (credential === undefined) {
    const detail =
      'read with the key of a thing ("Authorization: Thing <key>") or the token of the channel\'s owner ("Authorization: Bearer <token>")'
    throw new HttpError('unauthenticated', detail)
  }
  const answer = await access.authorize({ credential, channel, action: 'read' })
  if (answer.allowed || answer.reason === 'forbidden') return answer
  const detail =
    credential.scheme === 'Thing'
      ? 'this is no key of a thing: show the key that creating the thing gave'
      : 'this token is not valid or has expired: get a new one with POST /tokens'
  throw new HttpError('unauthenticated', detail)
}
