// The user of mappings without Authorization, if credentials are configured (SPEC §5).

import type { FastifyRequest } from 'fastify'
import type { Logger } from '../../config/logger.ts'
import { HttpError } from '../../http/errors.ts'
import { clientAddressOf } from '../../http/requests/client-address.ts'
import type { Authentication } from '../access/authentication.ts'
import type { UserId } from '../ids.ts'
import type { SignIn } from '../users/sign-in.ts'
import type { RecognisedUser, Users } from '../users/store.ts'
import type { ProvisionCredentials } from './options.ts'

/** @returns undefined if the credentials are invalid, which is logged as an error */
export type ConfiguredCaller = (request: FastifyRequest) => Promise<UserId | undefined>

interface Parts {
  readonly authentication: Pick<Authentication, 'userOf'>
  readonly signIn: SignIn
  readonly users: Pick<Users, 'tokenVersion'>
  readonly logger: Pick<Logger, 'error'>
}

export function openConfiguredCaller(credentials: ProvisionCredentials, parts: Parts): ConfiguredCaller {
  const { authentication, logger } = parts
  const find = credentials.kind === 'api-key' ? () => authentication.userOf(credentials.apiKey).catch(scoped) : signedIn(credentials, parts)
  const named = credentials.kind === 'api-key' ? 'provision.api_key' : 'provision.user and provision.password'
  return async request => {
    const user = await find(request)
    if (user === undefined) logger.error(`invalid ${named}: a mapping without Authorization was refused`)
    return user
  }
}

/** @returns undefined for an API key with a scope: devices get the answer to a missing token */
function scoped(error: unknown): undefined {
  if (!(error instanceof HttpError && error.code === 'forbidden')) throw error
}

/** Checks the password once, like a sign-in, and again after a password change or after the user was disabled. */
function signedIn(
  { user: email, password }: Extract<ProvisionCredentials, { kind: 'password' }>,
  { signIn, users }: Parts,
): (request: FastifyRequest) => Promise<UserId | undefined> {
  let known: RecognisedUser | undefined
  let signingIn: ReturnType<SignIn> | undefined
  return async request => {
    if (known !== undefined && (await users.tokenVersion(known.user)) === known.tokenVersion) return known.user
    // All waiting callers share one sign-in.
    signingIn ??= signIn({ email, password }, clientAddressOf(request)).finally(() => (signingIn = undefined))
    known = await signingIn
    return known?.user
  }
}
