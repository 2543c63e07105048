// An instant as a batch keeps it, and the place in which the readers of times leave theirs.

/** Nanoseconds since 1970 = us × 1000 + restNs. One object used again and again, so that a time costs none of its own. */
export interface Instant {
  /** Whole microseconds; NaN or infinite where they are beyond ±2^53. */
  us: number
  /** 0 to 999. */
  restNs: number
}
