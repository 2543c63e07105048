// As whom mappings without Authorization are made, where credentials are configured for them (SPEC §5).

import type { FastifyRequest } from 'fastify'
import { clientAddressOf } from '../../config/http/client-address.ts'
import type { Logger } from '../../config/logger.ts'
import type { Authentication } from '../authentication.ts'
import type { UserId } from '../ids.ts'
import type { SignIn } from '../users/sign-in.ts'
import type { RecognisedUser, Users } from '../users/store.ts'
import type { ProvisionCredentials } from './options.ts'

/** @returns undefined where the credentials are not valid, which the log tells the operator */
export type ConfiguredCaller = (request: FastifyRequest) => Promise<UserId | undefined>

interface Parts {
  readonly authentication: Pick<Authentication, 'userOf'>
  readonly signIn: SignIn
  readonly users: Pick<Users, 'tokenVersion'>
  readonly logger: Pick<Logger, 'error'>
}

export function openConfiguredCaller(credentials: ProvisionCredentials, parts: Parts): ConfiguredCaller {
  const { authentication, logger } = parts
  const find = credentials.kind === 'api-key' ? () => authentication.userOf(credentials.apiKey) : signedIn(credentials, parts)
  const named = credentials.kind === 'api-key' ? 'provision.api_key' : 'provision.user and provision.password'
  return async request => {
    const user = await find(request)
    if (user === undefined) logger.error(`${named} are not valid: a mapping without Authorization was refused`)
    return user
  }
}

/** The password is checked once, as one who signs in gets a token: the sign-in ends with a change of it, or when the user is disabled. */
function signedIn(
  { user: email, password }: Extract<ProvisionCredentials, { kind: 'password' }>,
  { signIn, users }: Parts,
): (request: FastifyRequest) => Promise<UserId | undefined> {
  let known: RecognisedUser | undefined
  let signingIn: ReturnType<SignIn> | undefined
  return async request => {
    if (known !== undefined && (await users.tokenVersion(known.user)) === known.tokenVersion) return known.user
    // One for all that wait.
    signingIn ??= signIn({ email, password }, clientAddressOf(request)).finally(() => (signingIn = undefined))
    known = await signingIn
    return known?.user
  }
}
