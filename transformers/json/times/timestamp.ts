// An instant as stored in a batch, used as output parameter of the time parsers.

/** Nanoseconds since 1970 = us × 1000 + restNs. One object is reused, so that parsing a time allocates nothing. */
export interface Timestamp {
  /** Whole microseconds; NaN or infinite if beyond ±2^53. */
  us: number
  /** 0 to 999. */
  restNs: number
}
