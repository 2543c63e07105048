// Keys that the database was asked for and does not have: counted by key, or by external id, and address, so that no valid key is ever counted or
// limited.

import { networkOf } from '../config/http/client-address.ts'
import { type FailedAttempts, failuresMax } from './failed-attempts.ts'

export type UnknownKind = 'thing-key' | 'api-key' | 'certificate' | 'external-id'

export interface UnknownKeys {
  /**
   * Counts one that was shown.
   *
   * @param lookup what it is looked up by, never the key itself; of an external key the external id that it was shown for
   * @param alsoAt addresses under which it is counted, too
   * @returns 0, or the milliseconds for which it is limited from that address
   */
  note(kind: UnknownKind, lookup: Buffer, address: string, ...alsoAt: readonly string[]): Promise<number>
  /** How often it failed within a minute from each of the addresses. */
  count(kind: UnknownKind, lookup: Buffer, addresses: readonly string[]): Promise<number[]>
  /** As `note` returns it, as far as it is known without a query; counts nothing. */
  limitedMs(kind: UnknownKind, lookup: Buffer, address: string): number
}

/** That one instance counts: who tries a new one each time makes no more rows than this. */
const countedPerSecondMax = 100

/** @param beyondMs what `note` returns where too many are counted already: 0 lets them be tried, for keys that cannot be guessed */
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
