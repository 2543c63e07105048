// Parses the timestamps of a query.

import { withSign } from '../../http/requests/query-string.ts'
import { parseRfc3339 } from '../../transformers/json/times/rfc3339.ts'

/**
 * Seconds since 1970, or RFC 3339 §5.6, whose + may have become a space. A text that matches may still be a day or a leap second that does not exist:
 * see `nanosecondsOf`.
 */
export const timestampPattern =
  '^(-?[0-9]{1,12}(\\.[0-9]+)?|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\\.[0-9]+)?([Zz]|[+ -]([01][0-9]|2[0-3]):[0-5][0-9]))$'

/**
 * Nanoseconds since 1970. A time between two nanoseconds is the later one: no stored time is between them, so that neither bound changes its rows.
 *
 * @param text of `timestampPattern`
 * @returns undefined for a day that does not exist in its month, and for a leap second that does not end one
 */
export function nanosecondsOf(text: string): bigint | undefined {
  const [, sign, whole = '', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  const beyond = /\.\d{9}\d*[1-9]/.test(text) ? 1n : 0n
  if (sign === undefined) {
    const time = parseRfc3339(withSign(text))
    return time && BigInt(time.seconds) * 1_000_000_000n + BigInt(time.nanoseconds) + beyond
  }
  const magnitude = BigInt(whole) * 1_000_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, '0'))
  return sign === '-' ? -magnitude : magnitude + beyond
}
