// Counts unknown keys by key (or external id) and address. Only keys that the database does not have are counted, so a valid key is never
// limited.

import { networkOf } from '../../http/requests/client-address.ts'
import { type FailedAttempts, failuresMax } from '../access/failed-attempts.ts'

export type UnknownKind = 'thing-key' | 'api-key' | 'certificate' | 'external-id'

export interface UnknownKeys {
  /**
   * Counts an unknown key that was sent.
   *
   * @param lookup the value that it is looked up by, never the key itself; for an external key the external id that it was sent for
   * @param alsoAt addresses under which it is counted too
   * @returns 0, or the milliseconds for which it is limited from that address
   */
  note(kind: UnknownKind, lookup: Buffer, address: string, ...alsoAt: readonly string[]): Promise<number>
  /** How often it failed within a minute from each of the addresses. */
  count(kind: UnknownKind, lookup: Buffer, addresses: readonly string[]): Promise<number[]>
  /** What `note` would return, as far as it is known without a query; counts nothing. */
  limitedMs(kind: UnknownKind, lookup: Buffer, address: string): number
}

/** What one instance counts at most, so that a client that tries a new key each time cannot create more rows. */
const countedPerSecondMax = 100

/** @param beyondMs what `note` returns once too many have been counted: 0 allows further tries, for keys that cannot be guessed */
export function openUnknownKeys(failedAttempts: FailedAttempts, beyondMs = 0): UnknownKeys {
  let secondStartMs = -Infinity
  let counted = 0

  const attemptOf = (kind: UnknownKind, lookup: Buffer, address: string): string =>
    failedAttempts.keyOf(kind, lookup.toString('base64url'), networkOf(address))

  return {
    count: (kind, lookup, addresses) => failedAttempts.count(addresses.map(address => attemptOf(kind, lookup, address))),
    limitedMs: (kind, lookup, address) => failedAttempts.limitedMs(attemptOf(kind, lookup, address)),
    async note(kind, lookup, address, ...alsoAt) {
      const [attempt, ...others] = [address, ...alsoAt].map(at => attemptOf(kind, lookup, at)) as [string, ...string[]]
      if (failedAttempts.limitedMs(attempt) === 0) {
        if (performance.now() - secondStartMs >= 1000) {
          secondStartMs = performance.now()
          counted = 0
        }
        if (counted++ >= countedPerSecondMax) return beyondMs
        const [failures] = await failedAttempts.note([attempt, ...others])
        if (failures! <= failuresMax) return 0
      }
      return failedAttempts.limitedMs(attempt)
    },
  }
}
