// Time ranges: parses timestamps in a query, and converts bounds to the unit of a store.

/**
 * Seconds since 1970, or RFC 3339 §5.6 without leap seconds, which no stored timestamp has. In a query a + is decoded as a space (URL Standard §5.1), so
 * an offset may start with one.
 */
export const timestampPattern =
  '^(-?[0-9]{1,12}(\\.[0-9]{1,9})?|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\\.[0-9]{1,9})?([Zz]|[+ -]([01][0-9]|2[0-3]):[0-5][0-9]))$'

/**
 * Nanoseconds since 1970.
 *
 * @param text of `timestampPattern`
 * @returns undefined for a day that does not exist in its month
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
  // JavaScript would move a day that does not exist into the next month.
  if (!new Date(localMs).toISOString().startsWith(day!)) return undefined
  const offsetMs = (Number(hours) * 60 + Number(minutes)) * 60_000 * (sign === '-' ? -1 : 1)
  return BigInt(localMs - offsetMs) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}

// Bigint division truncates towards zero, which before 1970 is wrong for one of the two functions.

/** The first whole unit not before the instant: correct for either bound, for rows at whole units. */
export function unitsUp(timestamp: bigint, unit: bigint): bigint {
  return timestamp / unit + (timestamp > 0n && timestamp % unit > 0n ? 1n : 0n)
}

/** The whole unit that contains the instant. */
export function unitsDown(timestamp: bigint, unit: bigint): bigint {
  return timestamp / unit - (timestamp < 0n && timestamp % unit < 0n ? 1n : 0n)
}
