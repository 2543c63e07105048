// Signing in with a password, against guessing: failures are limited per account and address, and delay all attempts at the account.

import { HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import { delayMsOf, type FailedAttempts } from '../access/failed-attempts.ts'
import type { FairQueue } from '../outside/fair-queue.ts'
import { type Credentials, normaliseEmail } from './credentials.ts'
import type { RecognisedUser, Users } from './store.ts'

interface Parts {
  readonly users: Pick<Users, 'recognise'>
  readonly failedAttempts: FailedAttempts
  readonly passwordQueue: FairQueue
}

/**
 * The user with this email and password; undefined if there is none. An unknown email is counted and delayed like a known one.
 *
 * After twenty failures at an account from an address, that address is refused for the rest of the minute. Failures at an account from any address delay
 * the attempts at it, also those with the right password, by 2 s at most, so no account is ever locked.
 */
export type SignIn = (credentials: Credentials, address: string) => Promise<RecognisedUser | undefined>

/** @throws HttpError `too_many_requests` before anything is hashed, and what the queue throws */
export function openSignIn({ users, failedAttempts, passwordQueue }: Parts): SignIn {
  return async (credentials, address) => {
    const account = normaliseEmail(credentials.email)
    const network = networkOf(address)
    const addressKey = failedAttempts.keyOf('sign-in', account, network)
    const accountKey = failedAttempts.keyOf('sign-in', account)

    function refuseLimited(): void {
      const leftMs = failedAttempts.limitedMs(addressKey)
      if (leftMs === 0) return
      const detail = 'too many failed sign-ins to this account from this address: wait before the next attempt'
      throw new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(leftMs / 1000) })
    }

    refuseLimited()
    const [failures, accountFailures] = await failedAttempts.count([addressKey, accountKey])
    refuseLimited()
    const attempt = async (): Promise<RecognisedUser | undefined> => {
      // Other attempts may have failed while this one waited.
      refuseLimited()
      const recognised = await users.recognise(credentials)
      if (recognised === undefined) await failedAttempts.note([addressKey, accountKey])
      return recognised
    }
    return passwordQueue.run({ account, address: network, failures: failures! }, attempt, delayMsOf(accountFailures!))
  }
}
