// Whole units of a time, such as the milliseconds of nanoseconds. Bigint division truncates towards zero, which before 1970 is wrong for one of the two.

/** The first whole unit not before the time: correct for either bound, for rows at whole units. */
export function unitsUp(time: bigint, unit: bigint): bigint {
  return time / unit + (time > 0n && time % unit > 0n ? 1n : 0n)
}

/** The whole unit that contains the time. */
export function unitsDown(time: bigint, unit: bigint): bigint {
  return time / unit - (time < 0n && time % unit < 0n ? 1n : 0n)
}
