// Instants: as they are written in a query, and in another unit than they are asked for in.

/**
 * Seconds since 1970, or RFC 3339 §5.6 without leap seconds, which no instant that is stored has. In a query a + is a space (URL Standard §5.1), so
 * an offset may begin with one.
 */
export const instantPattern =
  '^(-?[0-9]{1,12}(\\.[0-9]{1,9})?|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\\.[0-9]{1,9})?([Zz]|[+ -]([01][0-9]|2[0-3]):[0-5][0-9]))$'

/**
 * Nanoseconds since 1970.
 *
 * @param text of `instantPattern`
 * @returns undefined for a day that its month does not have
 */
export function nanosecondsOf(text: string): bigint | undefined {
  const date = /^(.{10})[Tt ](.{8})(?:\.(\d+))?(?:[Zz]|([+ -])(..):(..))$/.exec(text)
  if (date === null) {
    const [whole = '', fraction = ''] = text.replace('-', '').split('.')
    const magnitude = BigInt(whole) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0'))
    return text.startsWith('-') ? -magnitude : magnitude
  }
  const [, day, time, fraction = '', sign, hours = '0', minutes = '0'] = date
  const localMs = Date.parse(`${day}T${time}Z`)
  // A day too many is one of the next month to JavaScript.
  if (!new Date(localMs).toISOString().startsWith(day!)) return undefined
  const offsetMs = (Number(hours) * 60 + Number(minutes)) * 60_000 * (sign === '-' ? -1 : 1)
  return BigInt(localMs - offsetMs) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}

// Division of bigints cuts towards zero, which is wrong for one of the two before 1970.

/** The first whole unit that is not before the instant: for either bound, what it means for rows that lie at whole units. */
export function unitsUp(instant: bigint, unit: bigint): bigint {
  return instant / unit + (instant > 0n && instant % unit > 0n ? 1n : 0n)
}

/** The whole unit in which the instant lies. */
export function unitsDown(instant: bigint, unit: bigint): bigint {
  return instant / unit - (instant < 0n && instant % unit < 0n ? 1n : 0n)
}
