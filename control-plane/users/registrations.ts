// Limits how many users clients of one network may register: each gets a part of what is shared fairly between users.

import { HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import type { FailedAttempts } from '../access/failed-attempts.ts'

export interface Registrations {
  /** @throws HttpError `too_many_requests` if clients of the network have registered as many as they may */
  demand(address: string): Promise<void>
  /** Counts a registration that succeeded: an email that is taken uses up nothing. */
  note(address: string): Promise<void>
}

/** A site of IPv6 has many networks, so those of a /48 together register this many times what one may. */
const largeNetworkTimes = 4

/** @param perHour of one network; 0 is no limit */
export function openRegistrations(
  failedAttempts: Pick<FailedAttempts, 'keyOf' | 'count' | 'note' | 'limitedMs'>,
  perHour: number,
): Registrations {
  if (perHour === 0) return { demand: async () => undefined, note: async () => undefined }
  const limitsOf = (address: string) => [
    { key: failedAttempts.keyOf('registration', networkOf(address)), limit: { max: perHour, seconds: 3600 } },
    { key: failedAttempts.keyOf('registration-site', networkOf(address, 48)), limit: { max: largeNetworkTimes * perHour, seconds: 3600 } },
  ]

  return {
    async demand(address) {
      for (const { key, limit } of limitsOf(address)) {
        if (failedAttempts.limitedMs(key) === 0) {
          const [count] = await failedAttempts.count([key], limit)
          if (count! < limit.max) continue
        }
        const retryAfterSeconds = Math.ceil(failedAttempts.limitedMs(key) / 1000)
        const detail = `clients of this network have registered ${limit.max} users within an hour: retry in ${retryAfterSeconds} s, or ask an administrator to create the user`
        throw new HttpError('too_many_requests', detail, { retryAfterSeconds })
      }
    },
    async note(address) {
      for (const { key, limit } of limitsOf(address)) await failedAttempts.note([key], limit)
    },
  }
}
