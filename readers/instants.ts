// Instants in another unit than they are asked for in. Division of bigints cuts towards zero, which is wrong for one of the two before 1970.

/** The first whole unit that is not before the instant: for either bound, what it means for rows that lie at whole units. */
export function unitsUp(instant: bigint, unit: bigint): bigint {
  return instant / unit + (instant > 0n && instant % unit > 0n ? 1n : 0n)
}

/** The whole unit in which the instant lies. */
export function unitsDown(instant: bigint, unit: bigint): bigint {
  return instant / unit - (instant < 0n && instant % unit < 0n ? 1n : 0n)
}
