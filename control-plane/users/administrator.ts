// The first administrator, whom the operator names: without an administrator no policies could be set.

import { HttpError } from '../../http/errors.ts'
import { ControlPlaneStartError } from '../installation.ts'
import type { PolicyStore } from '../policies/policy-store.ts'
import { itself } from '../writes.ts'
import { type Credentials, checkNewCredentials } from './credentials.ts'
import type { Users } from './store.ts'

export async function hasAdministrator(policies: PolicyStore): Promise<boolean> {
  return (await policies.list({ object: 'authorities', relation: 'member' })).length > 0
}

/**
 * Registers the administrator if there is none; an existing one stays unchanged, whatever their email.
 *
 * A plain user with that email is not promoted: the person who registered it may not be the operator.
 *
 * @throws ControlPlaneStartError for an email or a password that a registration refuses, and for the email of a plain user
 */
export async function ensureAdministrator(users: Users, policies: PolicyStore, credentials: Credentials): Promise<'created' | 'exists'> {
  if (await hasAdministrator(policies)) return 'exists'
  try {
    checkNewCredentials(credentials)
    await users.register(itself, credentials, 'administrator')
    return 'created'
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    // Another instance that started at the same time may have been first.
    if (error.code === 'conflict' && (await hasAdministrator(policies))) return 'exists'
    throw new ControlPlaneStartError(sentence(error), { cause: error })
  }
}

function sentence(error: HttpError): string {
  if (error.code === 'conflict') return 'the email for the administrator belongs to a plain user: choose another email'
  const faults = error.faults.map(({ pointer, detail }) => `the administrator's ${pointer.replace('/body/', '')} ${detail}`)
  return faults.length > 0 ? faults.join('; ') : error.message
}
