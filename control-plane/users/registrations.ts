// Limits how many users clients of one network may register: each gets a part of what is shared fairly between users.

import { HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import type { FailedAttempts } from '../access/failed-attempts.ts'

/** @throws HttpError `too_many_requests` */
export type DemandRegistration = (address: string) => Promise<void>

const seconds = 3600

/** @param perHour 0 is no limit */
export function openRegistrations(
  failedAttempts: Pick<FailedAttempts, 'keyOf' | 'note' | 'limitedMs'>,
  perHour: number,
): DemandRegistration {
  return async address => {
    if (perHour === 0) return
    const key = failedAttempts.keyOf('registration', networkOf(address))
    if (failedAttempts.limitedMs(key) === 0) {
      const [count] = await failedAttempts.note([key], { max: perHour + 1, seconds })
      if (count! <= perHour) return
    }
    const retryAfterSeconds = Math.ceil(failedAttempts.limitedMs(key) / 1000)
    const detail = `clients of this network have registered ${perHour} users within an hour: retry in ${retryAfterSeconds} s, or ask an administrator to create the user`
    throw new HttpError('too_many_requests', detail, { retryAfterSeconds })
  }
}
