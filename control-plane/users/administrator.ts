// The first administrator, whom the operator names: without one nobody could set policies.

import { HttpError } from '../../config/http/errors.ts'
import { ControlPlaneStartError } from '../installation.ts'
import type { PolicyStore } from '../policies/policy-store.ts'
import { itself } from '../writes.ts'
import { type Credentials, checkNewCredentials } from './credentials.ts'
import type { Users } from './store.ts'

export async function hasAdministrator(policies: PolicyStore): Promise<boolean> {
  return (await policies.list({ object: 'authorities', relation: 'member' })).length > 0
}

/**
 * Registers the administrator where there is none; an existing one stays as they are, whatever their email.
 *
 * A plain user of that email is not promoted: whoever registered it first may not be the operator.
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
  if (error.code === 'conflict') return 'the email for the administrator belongs to a user who is not one: name another email'
  const faults = error.faults.map(({ pointer, detail }) => `the administrator's ${pointer.replace('/body/', '')} ${detail}`)
  return faults.length > 0 ? faults.join('; ') : error.message
}
